"""The verb that shows mazes, and the benchmark of the maze env."""

import sys

import jax
import pytest
from benchmarks.__main__ import main as benchmarks
from benchmarks.mazes import _play
from PIL import Image

from tutelage.cli import main
from tutelage.domains import maze
from tutelage.domains.maze import MazeEnv


@pytest.mark.slow
def test_levels_lists_and_draws_the_whole_suite(tmp_path, capsys):
    out = tmp_path / "sheets" / "mazes.png"
    main(["levels", "--out", str(out), "--seed", "3"])
    printed = capsys.readouterr().out
    rows = {
        line.split()[0]: line.split(maxsplit=1)[1].replace(", ", ",").split() for line in printed.splitlines()[1:-2]
    }
    assert {*rows} == {entry.name for suite in maze.domain().suites.values() for entry in suite}
    assert rows["Labyrinth"] == ["paper,maze,validation", "72", "96", "yes", "450"]
    with Image.open(out) as picture:
        assert min(picture.size) > 1000


def _bench(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "env", *arguments])
    benchmarks()


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--levels", "0"], ["--view", "6"]])
def test_the_benchmark_refuses_nonsense_with_one_sentence(arguments, monkeypatch):
    with pytest.raises(SystemExit, match=r"^benchmarks: "):
        _bench(monkeypatch, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True])
def test_the_benchmarks_memory_does_not_grow_with_the_steps(fresh):
    def temporary(steps):
        return _play.lower(MazeEnv(), 4, steps, fresh, jax.random.key(0)).compile().memory_analysis().temp_size_in_bytes

    per_step = (temporary(2000) - temporary(1000)) / 1000
    assert per_step <= 4, "only the step numbers may grow, never the observations"
