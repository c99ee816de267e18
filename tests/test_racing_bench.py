"""The comparison of speed runs; how fast depends on the machine."""

import pytest

from tutelage.interop import car_racing_speed


@pytest.mark.slow
def test_both_sides_are_measured():
    figures = car_racing_speed.compare(levels=2, actions=4, rounds=1, processes=1)
    assert all(value > 0 for value in figures.values())
    assert figures["ratio"] == pytest.approx(figures["actions_per_second"] / figures["gymnasium_actions_per_second"])
    assert figures["actions_per_second_with_loading"] < figures["actions_per_second"]
