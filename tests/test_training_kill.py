"""A training that is killed, wherever and however often, ends with the same bits as one that never was."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from crash_images import Trial, crash_images
from distributed_training import EVERYTHING, ROOT
from examples.own_environment import FerrySetup
from short_runs import CONFIG, content, short_programs

from tutelage.curriculum.methods import METHODS
from tutelage.training.config import Evaluation, with_curator

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def no_power_cuts():
    """A kill does not lose what the kernel was given, and waiting for the disk is most of a short run's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def accel(tmp_path_factory):
    return Trial(CONFIG, tmp_path_factory.mktemp("accel"), short_programs())


def unevaluated(config):
    """Evaluations take long to compile, and are the same for every method."""
    return replace(config, evaluation=Evaluation(), storage=replace(config.storage, snapshot_levels=4))


def ferries(method):
    """The example's domain: what a method saves is the same in all, and this one is compiled soonest."""
    config = FerrySetup.preset("tiny", "repaired" if method == EVERYTHING else method)
    record = replace(config.method, edits=METHODS["accel"].edits) if method == EVERYTHING else config.method
    return replace(config, method=with_curator(record, capacity=32), num_envs=8, num_steps=20)


def test_killed_at_any_change_of_a_file(accel):
    assert accel.check_kills() >= 400


def test_killed_while_it_goes_on_after_a_kill(accel, tmp_path):
    root, kills = tmp_path / "run", 0
    for first in crash_images(root, tmp_path / "first", lambda: accel.train(root), every=60):
        images = tmp_path / f"after-{first.name}"
        for second in crash_images(first, images, lambda: accel.go_on(first), every=40):  # noqa: B023
            accel.go_on(second)
            assert content(second) == accel.whole, (first.name, second.name)
            kills += 1
    assert kills >= 50


def test_killed_while_it_replaces_another_run(accel, tmp_path):
    """Either the old run is there as before, or the new one goes on; and whichever it is can be replaced again."""
    root = tmp_path / "run"
    accel.train(root, seed=1)
    for name in ("eval-maze.csv", "PerfectMaze11.gif", "report.html"):
        (root / name).write_text("of the old run")
    old = content(root)
    images = crash_images(root, tmp_path / "images", lambda: accel.train(root, overwrite=True), every=5)
    assert content(root) == accel.whole
    kept = 0
    for image in images:
        shutil.copytree(image, tmp_path / "copy")
        accel.resume(image)
        found = content(image)
        assert found in (old, accel.whole), image.name
        kept += found == old
        accel.train(tmp_path / "copy", overwrite=True)
        assert content(tmp_path / "copy") == accel.whole
        shutil.rmtree(tmp_path / "copy")
    assert 5 < kept < len(images) - 5


@pytest.mark.parametrize("method", ["dr", "paired", EVERYTHING])
def test_killed_with_other_methods(method, tmp_path):
    """With no buffer and no teacher; with a teacher; with all there is. What others save is a part of this."""
    assert Trial(unevaluated(ferries(method)), tmp_path).check_kills(every=30) >= 8


KILLS = 6
"""Above, it is killed at every change of a file, hundreds of times. This shows that a real kill is no worse."""

OPTIONS = [
    *("plr-perp", "--domain", "examples.own_environment:FerrySetup", "--num-envs", "8", "--capacity", "32"),
    *("--total-steps", str(600 * 8 * 40), "--checkpoint-every", "3", "--snapshot-every", "20"),
    *("--snapshot-levels", "8", "--evaluate-every", "30", "--episodes", "1", "--final-episodes", "1"),
]
ALLOW = ("--allow", "examples.own_environment")


def command(*arguments):
    return [sys.executable, "-c", "from tutelage.cli import main; main()", *map(str, arguments)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Compiled once for all: what is tested is not how the compiler takes being killed."""
    cache = tmp_path_factory.mktemp("cache")
    return os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    }


def rows(directory):
    path = directory / "metrics.csv"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_command_killed_again_and_again_equals_one_that_was_not(tmp_path, environment):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command("train", *OPTIONS, "--out", whole), env=environment, check=True, capture_output=True)
    chance = random.Random(0)
    step = rows(whole) / (KILLS + 1)
    for kill in range(KILLS):
        verb = ("resume", killed, *ALLOW) if (killed / "config.json").exists() else ("train", *OPTIONS, "--out", killed)
        process = subprocess.Popen(command(*verb), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        target = (kill + chance.random()) * step  # so that all of the run is visited, start and evaluations included
        while rows(killed) < target and process.poll() is None:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        said, _ = process.communicate()
        assert process.returncode == -signal.SIGKILL, said.decode()
    subprocess.run(command("resume", killed, *ALLOW), env=environment, check=True, capture_output=True)
    assert content(killed) == content(whole)
