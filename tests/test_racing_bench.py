"""The comparison of speed runs; how fast depends on the machine."""

import subprocess
import sys

import pytest
from benchmarks import racing as car_racing_speed


@pytest.mark.slow
def test_both_sides_are_measured():
    figures = car_racing_speed.compare(levels=2, actions=4, rounds=1, processes=1)
    assert all(value > 0 for value in figures.values())
    assert figures["ratio"] == pytest.approx(figures["actions_per_second"] / figures["gymnasium_actions_per_second"])
    assert figures["actions_per_second_with_loading"] < figures["actions_per_second"]


@pytest.mark.nightly
def test_training_is_measured():
    program = "from benchmarks.__main__ import main; main()"
    arguments = ["racing", "--no-gymnasium", "--levels", "2", "--actions", "4", "--rounds", "1", "--plain"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in ("actions/s", "environment's share", "dr", "dr, lax.conv"):
        assert word in done.stdout
