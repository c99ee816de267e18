"""The verbs that measure training and racing, and show tracks."""

import subprocess
import sys

import pytest

from tutelage.cli import main


@pytest.mark.parametrize(
    "arguments",
    [["train", "--repeats", "0"], ["train", "--batch", "0"], ["racing", "--levels", "0"], ["racing", "--levels", "3"]],
)
def test_nonsense_gets_one_sentence(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", *arguments])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("tutelage: ")


@pytest.mark.slow
def test_training_is_measured_beside_the_roofline():
    program = "from tutelage.cli import main; main()"
    arguments = [
        "bench",
        "train",
        "--methods",
        "plr-perp",
        "--no-plain",
        "--batch",
        "2",
        "--length",
        "8",
        "--repeats",
        "1",
    ]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in ("dr", "plr-perp", "roofline", "curator"):
        assert word in done.stdout
