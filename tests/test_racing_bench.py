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


@pytest.mark.slow
def test_each_convolution_is_measured_and_the_pixels_need_no_gradient():
    rows = car_racing_speed.time_layers(repeats=1)
    assert [row["kernel"] for row in rows][::5] == ["2×2×3×8", "3×3×128×256"]
    assert [row["input gradient"] == "none" for row in rows] == [True] + 5 * [False]
    assert all("GFLOP/s" in row[name] for row in rows for name in ("forward", "weight gradient"))


@pytest.mark.nightly
def test_training_is_measured():
    program = "from benchmarks.__main__ import main; main()"
    arguments = ["racing", "--no-gymnasium", "--levels", "2", "--actions", "4", "--rounds", "1", "--plain"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in ("actions/s", "environment's share", "dr", "dr, lax.conv"):
        assert word in done.stdout
