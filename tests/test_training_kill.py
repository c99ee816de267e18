"""A training that is killed again and again ends with the same bits as one that never was."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

KILLS = 20

OPTIONS = [
    *("plr-perp", "--preset", "tiny", "--total-steps", str(240 * 8 * 32), "--checkpoint-every", "3"),
    *("--snapshot-every", "20", "--snapshot-levels", "8"),
    *("--test-levels", "PerfectMaze11", "--evaluate-every", "30", "--episodes", "1"),
]


def command(*arguments):
    return [sys.executable, "-c", "from tutelage.cli import main; main()", *map(str, arguments)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Compiled once for all: what is tested is not how the compiler takes being killed."""
    cache = tmp_path_factory.mktemp("cache")
    return os.environ | {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def rows(directory):
    path = directory / "metrics.csv"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_a_training_killed_twenty_times_equals_one_that_was_not(tmp_path, environment):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command("train", *OPTIONS, "--out", whole), env=environment, check=True, capture_output=True)
    chance = random.Random(0)
    step = rows(whole) / (KILLS + 1)
    for kill in range(KILLS):
        verb = ("resume", killed) if (killed / "config.json").exists() else ("train", *OPTIONS, "--out", killed)
        process = subprocess.Popen(command(*verb), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        target = (kill + chance.random()) * step  # so that all of the run is visited, start and evaluations included
        while rows(killed) < target and process.poll() is None:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        said, _ = process.communicate()
        assert process.returncode == -signal.SIGKILL, said.decode()
    subprocess.run(command("resume", killed), env=environment, check=True, capture_output=True)

    def content(directory):
        files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != "timing.csv")
        return {str(path.relative_to(directory)): path.read_bytes() for path in files}

    one, other = content(whole), content(killed)
    assert not [name for name in other if name.rpartition("/")[2].startswith(".")]
    for name, data in one.items():
        assert other[name] == data, name
