"""The verbs that measure training and racing, and show tracks."""

import subprocess
import sys

import pytest
from benchmarks.__main__ import main


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--repeats", "0"],
        ["train", "--num-envs", "0"],
        ["racing", "--levels", "0"],
        ["racing", "--levels", "3"],
    ],
)
def test_nonsense_gets_one_sentence(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit, match=r"^benchmarks: "):
        main()


@pytest.mark.slow
def test_training_is_measured_beside_the_roofline():
    program = "from benchmarks.__main__ import main; main()"
    arguments = [
        "train",
        "--methods",
        "plr-perp",
        "--no-plain",
        "--num-envs",
        "2",
        "--num-steps",
        "8",
        "--repeats",
        "1",
    ]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in ("dr", "plr-perp", "roofline", "curator"):
        assert word in done.stdout
