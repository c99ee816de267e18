"""The verbs `eval` and `play`, on a run of a few seconds."""

import csv
import json
from dataclasses import replace

import jax
import pytest
from PIL import Image

from tutelage.cli import main
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.run import Run
from tutelage.training.train import train


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    config = replace(MazeSetup.preset("tiny", "dr"), total_steps=2 * 8 * 32)
    config = replace(config, evaluation=replace(config.evaluation, suite=""))
    return train(config, tmp_path_factory.mktemp("runs") / "dr", quiet=True).directory


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    return line


def test_eval_prints_a_table_and_writes_a_tidy_file(directory, capsys, tmp_path):
    options = ["--suite", "maze", "--levels", "PerfectMaze11", "SimpleCrossing", "--episodes", "5"]
    main(["eval", str(directory), str(directory), *options, "--baselines", "--out", str(tmp_path / "out.csv")])
    printed = capsys.readouterr().out
    solved, returns, where = printed.strip().split("\n\n")
    assert str(tmp_path / "out.csv") in where
    for table, name in ((solved, "solved"), (returns, "return")):
        head, *lines = table.splitlines()
        assert head.split() == [name, str(directory), str(directory), "untrained", "random", "optimal"]
        assert [line.split()[0] for line in lines] == ["PerfectMaze11", "SimpleCrossing", "mean"]
    rows = rows_of(tmp_path / "out.csv")
    assert list(rows[0]) == ["policy", "suite", "level", "episodes", "greedy", "solved", "return", "length"]
    assert [row["policy"] for row in rows[::2]] == [str(directory)] * 2 + ["untrained", "random", "optimal"]
    assert rows[0] == rows[2]  # the same run twice
    for row in rows:
        assert row["episodes"] == "5"
        assert row["suite"] == "maze"
        assert 0 <= float(row["solved"]) <= 1
    best = {row["level"]: float(row["return"]) for row in rows if row["policy"] == "optimal"}
    assert all(float(row["return"]) <= best[row["level"]] for row in rows)


def test_evals_file_is_in_the_runs_directory_by_default(directory, capsys):
    main(["eval", str(directory), "--suite", "maze", "--levels", "SimpleCrossing", "--episodes", "2", "--greedy"])
    (row,) = rows_of(directory / "eval-maze.csv")
    assert row["greedy"] == "True"
    assert str(directory / "eval-maze.csv") in capsys.readouterr().out


def test_eval_refuses_what_does_not_exist(directory, capsys, tmp_path):
    assert "no suite 'f1'; it has: paper, maze" in refused(capsys, "eval", directory, "--suite", "f1")
    unknown = refused(capsys, "eval", directory, "--suite", "paper", "--levels", "Nowhere")
    assert "no level 'Nowhere'; it has: SixteenRooms" in unknown
    assert "is no run" in refused(capsys, "eval", tmp_path / "nothing")
    assert "at least one episode" in refused(capsys, "eval", directory, "--episodes", "0")


def test_play_makes_a_film_of_a_test_level(directory, capsys, tmp_path):
    out = tmp_path / "videos" / "out.gif"
    main(["play", str(directory), "--level", "SimpleCrossing", "--gif", str(out), "--max-frames", "7"])
    printed = capsys.readouterr().out
    assert printed.startswith("SimpleCrossing: ")
    assert "solved, return" in printed
    with Image.open(out) as video:
        assert 1 < video.n_frames <= 7


def test_play_knows_random_levels_and_files(directory, capsys, tmp_path):
    main(["play", str(directory), "--greedy"])
    assert (directory / "random.gif").exists()
    level = Run.load(directory).domain.design.sample(jax.random.key(4))
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(Run.load(directory).domain.design.to_json(level)))
    main(["play", str(directory), "--level", str(path)])
    assert (directory / "mine.gif").exists()


def test_play_refuses_what_it_cannot_show(directory, capsys, tmp_path):
    assert "no test level 'Nowhere'; it has: SixteenRooms" in refused(capsys, "play", directory, "--level", "Nowhere")
    broken = tmp_path / "broken.json"
    assert "cannot be read" in refused(capsys, "play", directory, "--level", broken)
    broken.write_text("[")
    assert "is not JSON" in refused(capsys, "play", directory, "--level", broken)
    broken.write_text('["#"]')
    assert "holds no level: The maze has no agent" in refused(capsys, "play", directory, "--level", broken)
    assert "from 0 upwards" in refused(capsys, "play", directory, "--episode", "-1")


def test_a_policy_acts_in_three_lines(directory):
    run = Run.load(directory)
    carry = run.policy.initial_carry()
    _, obs = run.domain.env.reset(jax.random.key(0), run.domain.env.load(run.domain.design.sample(jax.random.key(1))))
    action, carry = run.policy.act(obs, carry, jax.random.key(2))
    assert 0 <= int(action) < 7
