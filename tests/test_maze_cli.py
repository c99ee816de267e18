"""The verbs that show mazes and measure them."""

import jax
import pytest
from PIL import Image
from tutelage.interop.minigrid_speed import _play

from tutelage.cli import main
from tutelage.domains.maze import MazeDesign, MazeEnv
from tutelage.domains.maze.suite import suite


@pytest.mark.slow
def test_levels_lists_and_draws_the_whole_suite(tmp_path, capsys):
    out = tmp_path / "sheets" / "mazes.png"
    main(["levels", "--out", str(out), "--seed", "3"])
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines()[1:-2]}
    assert list(rows) == [entry.name for entry in suite()]
    assert rows["Labyrinth"] == ["15", "96", "113", "450"]
    with Image.open(out) as picture:
        assert min(picture.size) > 1000


def test_bench_prints_our_figures_beside_minigrids(capsys):
    main(["bench", "env", "--levels", "2", "--steps", "20", "--view", "5"])
    header, ours, reference = capsys.readouterr().out.splitlines()
    assert "see-through" in header
    assert "2 levels" in ours
    assert "minigrid" in reference


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--levels", "0"], ["--view", "6"]])
def test_bench_refuses_nonsense_with_one_sentence(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", "env", *arguments])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("tutelage: ")


def test_bench_memory_does_not_grow_with_the_steps():
    levels = jax.vmap(MazeDesign().sample)(jax.random.split(jax.random.key(0), 4))

    def temporary(steps):
        return _play.lower(MazeEnv(), levels, steps, jax.random.key(0)).compile().memory_analysis().temp_size_in_bytes

    per_step = (temporary(2000) - temporary(1000)) / 1000
    assert per_step <= 4, "only the step numbers may grow, never the observations"
