"""One run in two processes is the run of one process with two devices, whatever happens to one of them."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from distributed_training import EVERYTHING, ROOT, config
from short_runs import content

from tutelage.cli import main
from tutelage.learning import mesh
from tutelage.training import processes
from tutelage.training.train import resume, train
from tutelage.types import InputError

ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONWARNINGS": "ignore"}


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def start(*commands: list[str]) -> list[subprocess.Popen]:
    pipe = subprocess.PIPE
    return [subprocess.Popen(command, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True) for command in commands]


@pytest.mark.slow
@pytest.mark.parametrize(
    "methods",
    [("dr", EVERYTHING), pytest.param(("plr-perp", "paired", "repaired", "accel"), marks=pytest.mark.nightly)],
    ids=["nothing and everything", "some"],
)
def test_two_processes_give_the_bits_of_two_devices(tmp_path, methods):
    """With two devices a sum has one order only. More of them may round differently in several processes."""
    script, port = str(ROOT / "tests" / "distributed_training.py"), free_port()
    both = start(
        *([sys.executable, script, port, "2", i, "train", str(tmp_path / "two"), *methods] for i in ("0", "1"))
    )
    for method in methods:
        train(config(method), tmp_path / "one" / method, quiet=True)
    for process in both:
        said = process.communicate()
        assert process.returncode == 0, said
    for method in methods:
        one, two = (content(tmp_path / name / method) for name in ("one", "two"))
        assert one.keys() == two.keys()
        assert [name for name in one if one[name] != two[name]] == [], method


OPTIONS = [
    *("plr-perp", "--domain", "examples.own_environment:FerrySetup", "--num-envs", "8", "--devices", "2"),
    *("--capacity", "16", "--total-steps", str(150 * 8 * 20), "--suite", "", "--checkpoint-every", "10"),
    *("--snapshot-levels", "4"),
]


def command(*arguments: str) -> list[list[str]]:
    tutelage, port = [sys.executable, "-c", "from tutelage.cli import main; main()"], free_port()
    where = ["--coordinator", f"127.0.0.1:{port}", "--num-processes", "2"]
    return [[*tutelage, *arguments, *where, "--process-id", str(i)] for i in range(2)]


def rows(directory: Path) -> int:
    path = directory / "metrics.csv"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def interrupt(directory: Path, number: int, *arguments: str) -> list[tuple[int, str]]:
    """Send a signal to the second process a little later; each process's code, and what it said."""
    before, both = rows(directory), start(*command(*arguments))
    while rows(directory) < before + 12 and both[0].poll() is None:
        time.sleep(0.02)
    both[1].send_signal(number)
    said = [" ".join(process.communicate(timeout=120)) for process in both]
    return [(process.returncode, text) for process, text in zip(both, said, strict=True)]


@pytest.mark.slow
def test_a_signal_or_a_kill_of_one_process_ends_both_and_resume_goes_on(tmp_path):
    directory = tmp_path / "run"
    (code, said), (other_code, other) = interrupt(directory, signal.SIGTERM, "train", *OPTIONS, "--out", str(directory))
    assert (code, other_code) == (143, 143), (said, other)
    assert "Stopped, and all is saved" in said
    assert "Stopped" not in other
    allow = ["--allow", "examples.own_environment"]
    (code, said), _ = interrupt(directory, signal.SIGKILL, "resume", str(directory), *allow)
    assert code == 2, said
    assert "Process 0 has lost another process of this run" in said
    resumed = resume(directory, allow=["examples.own_environment"], quiet=True)  # in one process, with two devices
    whole = train(resumed.config, tmp_path / "whole", quiet=True)
    kept, expected = content(directory), content(whole.directory)
    assert [name for name in expected if kept[name] != expected[name]] == []


def test_processes_that_cannot_be_found_get_a_sentence(capsys):
    for wrong, says in {
        "--coordinator 127.0.0.1:1": "Give all of coordinator",
        "--coordinator here --num-processes 2 --process-id 0": "as HOST:PORT, not 'here'",
        "--coordinator a:1 --num-processes 2 --process-id 2": "process_id counts from 0 to 1, not 2",
        "--coordinator a:1 --num-processes two --process-id 0": "--num-processes",
        "--distributed": "The processes did not find each other",  # JAX is running already
    }.items():
        with pytest.raises(SystemExit) as end:
            main(["train", "dr", *wrong.split()])
        assert end.value.code == 2
        assert says in capsys.readouterr().err


def test_alone_a_process_leads_and_waits_for_nobody():
    assert processes.is_main()
    assert processes.broadcast_from_main([1]) == [1]
    with pytest.raises(InputError, match="mine"), processes.fail_together():
        raise InputError("mine")
    assert int(processes.global_max(15, mesh.make_mesh(2))) == 15
