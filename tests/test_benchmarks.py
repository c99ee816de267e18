"""The verbs that measure training and racing, and show tracks."""

import subprocess
import sys

import pytest
from benchmarks.__main__ import main
from benchmarks.commits import Commits, Ratio


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--repeats", "0"],
        ["train", "--num-envs", "0"],
        ["racing", "--levels", "0"],
        ["racing", "--levels", "3"],
        ["commits", "--old", "HEAD", "--turns", "1"],
        ["commits", "--old", "no-such-commit"],
    ],
)
def test_nonsense_gets_one_sentence(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit, match=r"^benchmarks: "):
        main()


def test_a_difference_counts_if_it_is_larger_than_the_noise():
    ratio = Ratio.of([1.0, 2.0, 4.0], [2.0, 4.0, 8.0])
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))
    assert ratio.verdict == "slower"
    # log ratios −log 2, 0, log 2: mean 0, standard error log 2 / √3, and t = 4.3027 with two degrees of freedom
    ratio = Ratio.of([2.0, 2.0, 2.0], [1.0, 2.0, 4.0])
    assert ratio.high == pytest.approx(2 ** (4.3027 / 3**0.5), rel=1e-3)
    assert ratio.low == pytest.approx(1 / ratio.high)
    assert ratio.verdict == "no difference beyond noise"


@pytest.mark.nightly
def test_two_commits_are_compared(capsys):
    options = ("plr-perp", "--preset", "tiny", "--total-steps", "2560")
    Commits("HEAD", "HEAD", options, turns=2).run()
    printed = capsys.readouterr().out
    assert "turn 2 of 2" in printed
    assert [line.split()[0] for line in printed.splitlines()[-3:]] == ["iterations", "processor", "start"]


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
