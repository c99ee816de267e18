"""A study on a real Ray cluster of two nodes: one of them is killed, everything is stopped, and nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from short_runs import content

from tutelage.studies.ray_tasks import RayTask, RayTasks, run_here
from tutelage.studies.study import Resources, Study, StudyRun
from tutelage.types import InputError

pytest.importorskip("ray")

SMALL = """
preset = "tiny"
seeds = 2

[options]
total_steps = 204_800
suite = ""
checkpoint_every = 10
keep = 1

[[variants]]
method = "dr"
"""

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(scope="module")
def cluster() -> Iterator:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **small})
    cluster.add_node(**small)
    yield cluster
    cluster.shutdown()


def study(cwd: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tutelage", "study", "run", "small.toml", *options]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while not happened():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def saved(directory: Path) -> int:
    return max((int(path.stem) for path in (directory / "checkpoints").glob("*.safetensors")), default=0)


@pytest.mark.slow
def test_a_lost_node_and_an_interrupt_change_nothing(cluster, tmp_path):
    here, there = tmp_path / "local", tmp_path / "shared"
    for place in (here, there):
        place.mkdir()
        (place / "small.toml").write_text(SMALL)
    runs = [there / "runs/small/dr" / f"seed-{seed}" for seed in (0, 1)]

    process = study(there, "--ray", cluster.address)
    wait(lambda: all(saved(run) >= 10 for run in runs), process)
    cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
    logs = [run.with_name(f"{run.name}.log") for run in runs]
    wait(lambda: any(log.read_text().count("] tutelage ") == 2 for log in logs), process)
    [lost] = [run for run, log in zip(runs, logs, strict=True) if log.read_text().count("] tutelage ") == 2]
    before = saved(lost)
    assert before < 800
    wait(lambda: saved(lost) > before, process)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "lost 1×" in said
    assert f"Continue with: tutelage study run small.toml --ray {cluster.address}" in said
    stopped = saved(lost)
    assert before < stopped < 800, "it was interrupted in the middle, and saved"

    said, _ = study(there, "--ray", cluster.address).communicate(timeout=240)
    assert "2 done." in said, said
    local = study(here).communicate(timeout=240)[0]
    assert "2 done." in local, local
    for run in runs:
        assert content(run) == content(here / run.relative_to(there)), run.name


@pytest.mark.slow
def test_a_run_that_fails_on_a_node_says_why(cluster, tmp_path):
    import ray

    directory = tmp_path / "seed-0"
    directory.mkdir()
    (directory / "thesis.txt").write_text("long work")
    try:
        task = RayTasks(cluster.address).start(StudyRun("dr", 0, directory, ("dr", "--preset", "tiny")), None)
        deadline = time.monotonic() + 120
        while task.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert task.poll() == 2
        assert "holds no run" in (tmp_path / "seed-0.log").read_text()
    finally:
        ray.shutdown()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "ray://127.0.0.1:1", "here"])
def test_an_address_where_no_cluster_is_gets_a_sentence(address):
    with pytest.raises(InputError, match=f"No Ray cluster answers at '{address}'"):
        RayTasks(address)


def test_a_path_that_is_not_shared_gets_a_sentence(tmp_path):
    run = StudyRun("dr", 0, Path("nowhere/seed-0"), ("dr",))
    with pytest.raises(InputError, match="choose --runs that all nodes share"):
        run_here(run, None, Resources(), str(tmp_path))


def test_the_place_is_that_of_the_last_start(tmp_path):
    run = StudyRun("dr", 0, tmp_path / "seed-0", ("dr",))
    run.log.write_text("[before] tutelage train dr\n")
    task, places = RayTask(None, None, run, run.log.stat().st_size), []
    for new in ("", "[one] tutelage train dr\n", "step\n" * 2**15, "[two] tute", "lage resume\n", "step\n"):
        with run.log.open("a") as log:
            log.write(new)
        places.append(task.place())
    assert places == [None, *["on one"] * 3, *["on two, lost 1×"] * 2]


def test_resources_are_read(tmp_path):
    head = '[[variants]]\nmethod = "dr"\n[resources]\n'
    (tmp_path / "a.toml").write_text(head + "cpus = 2\ngpus = 0.5\nmax_retries = -1")
    assert Study.read(tmp_path / "a.toml").resources == Resources(2, 0.5, -1)
    for line in ("cpus = 0", "gpus = 1.5", "gpus = -1", "max_retries = -2", "memory = 3", 'cpus = "two"'):
        (tmp_path / "b.toml").write_text(head + line)
        with pytest.raises(InputError, match=line.partition(" ")[0]):
            Study.read(tmp_path / "b.toml")
