"""The verbs `eval` and `play`, on a run of a few seconds."""

import csv
import json
import shutil
from dataclasses import replace

import jax
import pytest
from PIL import Image
from tools import export_pretrained

from tutelage.cli import main
from tutelage.training import run as run_module
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.run import Run
from tutelage.training.train import train
from tutelage.types import Design


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


@pytest.mark.slow
def test_eval_prints_a_table_and_writes_a_tidy_file(directory, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(directory.parent)
    directory = directory.name
    options = ["--suite", "maze", "--levels", "PerfectMaze11", "SimpleCrossing", "--episodes", "5"]
    main(["eval", str(directory), str(directory), *options, "--baselines", "--out", str(tmp_path / "out.csv")])
    printed = capsys.readouterr().out
    solved, more, returns, regret, where = printed.strip().split("\n\n")  # five wide columns: two tables
    assert str(tmp_path / "out.csv") in where
    policies = [directory, directory, "untrained", "random", "optimal"]
    heads = [
        [name for name in table.splitlines() if name.split()[0] in ("solved", "return")]
        for table in (solved, more, returns)
    ]
    assert [head[-1].split() for head in heads] == [
        ["solved", *policies[:4]],
        ["solved", "optimal"],
        ["return", *policies],
    ]
    for table in (solved, more, returns):
        assert [line.split()[0] for line in table.splitlines()[-3:]] == ["PerfectMaze11", "SimpleCrossing", "mean"]
        assert max(map(len, table.splitlines())) <= 100
    rows = rows_of(tmp_path / "out.csv")
    about, rate = ["policy", "steps", "suite", "level", "episodes", "greedy"], ["solved", "solved_low", "solved_high"]
    worst = [f"regret_worst_{share}" for share in ("10", "1", "01")]
    walls = ["wall_left", "wall_right"]
    assert list(rows[0]) == [*about, *rate, "return", "return_error", "length", "regret", *worst, *walls]
    assert [row["policy"] for row in rows[::2]] == [str(directory)] * 2 + ["untrained", "random", "optimal"]
    assert rows[0] == rows[2]  # the same run twice
    for row in rows:
        assert row["episodes"] == "5"
        assert row["suite"] == "maze"
        assert 0 <= float(row["solved_low"]) <= float(row["solved"]) <= float(row["solved_high"]) <= 1
        assert float(row["solved_high"]) - float(row["solved_low"]) > 0.3  # also for 0 of 5, and 5 of 5
    best = {row["level"]: float(row["return"]) for row in rows if row["policy"] == "optimal"}
    assert all(float(row["return"]) <= best[row["level"]] for row in rows)
    assert "True regret" in regret
    episodes = rows_of(tmp_path / "episodes-out.csv")
    assert len(episodes) == 2 * 2 * 5
    for row in rows[:2]:
        own = [x for x in episodes[:10] if x["level"] == row["level"]]
        for column in ("return", "length", "wall_right", "wall_left"):
            assert sum(float(x[column]) for x in own) / 5 == pytest.approx(float(row[column]), abs=1e-6)
    for row in rows:
        assert float(row["regret"]) == pytest.approx(best[row["level"]] - float(row["return"]), abs=1e-6)
        assert [row[name] for name in worst] == ["", "", ""], "of five episodes there is no worst tenth"


@pytest.mark.slow
def test_evals_file_is_in_the_runs_directory_by_default(directory, capsys):
    main(["eval", str(directory), "--suite", "maze", "--levels", "SimpleCrossing", "--episodes", "2", "--greedy"])
    (row,) = rows_of(directory / "eval-maze.csv")
    assert [x["episode"] for x in rows_of(directory / "episodes-maze.csv")] == ["0", "1"]
    assert row["greedy"] == "True"
    table, where = capsys.readouterr().out.strip().split("\n\n")  # one policy: one table
    assert str(directory / "eval-maze.csv") in where
    assert table.splitlines()[-3].split() == [str(directory), "solved", "return", "regret"]
    assert [line.split()[0] for line in table.splitlines()[-2:]] == ["SimpleCrossing", "mean"]


def test_the_steps_are_those_of_the_policy(directory, tmp_path, capsys):
    """A run that was killed between two checkpoints has logged more steps than its policy was trained for."""
    run = Run.load(shutil.copytree(directory, tmp_path / "killed"))
    log = run.directory / "metrics.csv"
    iteration, steps, rest = log.read_text().splitlines()[-1].split(",", 2)
    with log.open("a") as file:
        file.write(f"{int(iteration) + 1},{2 * int(steps)},{rest}\n")
    assert run.metrics()["steps"][-1] == 2 * int(steps)
    main(["eval", str(run.directory), "--suite", "maze", "--levels", "SimpleCrossing", "--episodes", "2"])
    [row] = rows_of(run.directory / "eval-maze.csv")
    assert row["steps"] == steps


@pytest.mark.slow
def test_a_directory_of_runs_stands_for_all_of_them(directory, capsys, tmp_path):
    for seed in (0, 1):
        shutil.copytree(directory, tmp_path / "runs" / f"seed-{seed}")
    (tmp_path / "runs" / "seed-0.log").touch()  # as a study leaves it
    main(["eval", str(tmp_path / "runs"), "--suite", "maze", "--levels", "SimpleCrossing", "--episodes", "2"])
    assert "seed-0" in capsys.readouterr().out
    for seed in (0, 1):
        [row] = rows_of(tmp_path / "runs" / f"seed-{seed}" / "eval-maze.csv")
        assert row["policy"] == str(tmp_path / "runs" / f"seed-{seed}")
    assert "has 2 runs: name one of them" in refused(capsys, "play", tmp_path / "runs")
    shutil.rmtree(tmp_path / "runs" / "seed-1")
    main(["play", str(tmp_path / "runs")])
    assert (tmp_path / "runs" / "seed-0" / "random.gif").exists(), "in the directory of the only run"


def test_eval_refuses_what_does_not_exist(directory, capsys, tmp_path):
    assert "no suite of maze 'f1'; choose one of paper, maze" in refused(capsys, "eval", directory, "--suite", "f1")
    unknown = refused(capsys, "eval", directory, "--suite", "paper", "--levels", "SixteenRoom")
    assert "no level in the suite paper 'SixteenRoom'; choose one of SixteenRooms, " in unknown
    assert "Did you mean SixteenRooms?" in unknown
    assert "is not a run" in refused(capsys, "eval", tmp_path / "nothing")
    assert "at least one episode" in refused(capsys, "eval", directory, "--episodes", "0")


def test_results_of_other_runs_do_not_enter_a_run(directory, capsys, tmp_path, monkeypatch):
    """Tables in a run's directory once counted as its own, whatever policies they named."""
    other = shutil.copytree(directory, tmp_path / "other")
    for runs in ([directory, other], [directory]):
        said = refused(capsys, "eval", *runs, "--suite", "maze", "--out", other / "eval-both.csv")
        assert "other is a run, and results in its directory count as its own: give --out another one." in said
    monkeypatch.chdir(other)
    assert "count as its own" in refused(capsys, "eval", "--pretrained", "maze", "--suite", "maze")
    assert not [*other.glob("e*-both.csv")]
    options = ["--suite", "maze", "--levels", "SimpleCrossing", "--episodes", "2"]
    main(["eval", str(other), *options, "--out", "eval-own.csv"])
    assert len(rows_of(other / "eval-own.csv")) == 1


def test_play_makes_a_video_of_a_test_level(directory, capsys, tmp_path):
    out = tmp_path / "videos" / "out.gif"
    main(["play", str(directory), "--level", "SimpleCrossing", "--gif", str(out), "--max-frames", "7"])
    printed = capsys.readouterr().out
    assert printed.startswith("SimpleCrossing: ")
    assert "solved, return" in printed
    with Image.open(out) as video:
        assert 1 < video.n_frames <= 7


@pytest.mark.slow
def test_play_knows_random_levels_and_files(directory, capsys, tmp_path):
    main(["play", str(directory), "--greedy"])
    assert (directory / "random.gif").exists()
    level = Run.load(directory).domain.design.sample(jax.random.key(4))
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(Run.load(directory).domain.design.to_json(level)))
    main(["play", str(directory), "--level", str(path)])
    assert (directory / "mine.gif").exists()


def test_play_refuses_what_it_cannot_show(directory, capsys, tmp_path):
    assert "Did you mean Labyrinth?" in refused(capsys, "play", directory, "--level", "Labirynth")
    broken = tmp_path / "broken.json"
    assert "cannot be read" in refused(capsys, "play", directory, "--level", broken)
    broken.write_text("[")
    assert "is not JSON" in refused(capsys, "play", directory, "--level", broken)
    broken.write_text('["#"]')
    assert "holds no level: The maze has no agent" in refused(capsys, "play", directory, "--level", broken)
    assert "from 0 upwards" in refused(capsys, "play", directory, "--episode", "-1")


def test_play_refuses_to_play_what_cannot_be_drawn(directory, capsys, monkeypatch):
    """Once, a traceback came after the episode."""
    domain = Run.load(directory).domain
    plain = replace(domain, frame=None, design=type("Plain", (Design,), {"sample": domain.design.sample})())
    monkeypatch.setattr(MazeSetup, "domain", lambda self: plain)
    monkeypatch.setattr("tutelage.cli.play.watch", None)
    said = refused(capsys, "play", directory)
    assert "A video of a domain without `frame` needs a design with `image`, which Plain lacks; define" in said


def test_a_policy_acts_in_three_lines(directory):
    run = Run.load(directory)
    carry = run.policy.initial_carry()
    _, obs = run.domain.env.reset(jax.random.key(0), run.domain.env.load(run.domain.design.sample(jax.random.key(1))))
    action, carry = run.policy.act(obs, carry, jax.random.key(2))
    assert 0 <= int(action) < 7


@pytest.fixture
def exported(directory, tmp_path, monkeypatch):
    """A package that comes with this run's agent, under the name "small"."""
    monkeypatch.setattr(run_module, "PRETRAINED", tmp_path / "pretrained")
    monkeypatch.setattr(export_pretrained, "PRETRAINED", tmp_path / "pretrained")
    export_pretrained.main(str(directory), "small")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_pretrained_agent_plays_and_is_evaluated(directory, exported, capsys):
    whole, half = Run.load(directory).params, Run.pretrained("small").params
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(half), strict=True):
        assert other.dtype == one.dtype
        assert one == pytest.approx(other, rel=1e-3, abs=1e-6)
    main(["play", "--pretrained", "small"])
    assert (exported / "random.gif").exists()
    main(["eval", "--pretrained", "small", "--suite", "maze", "--levels", "PerfectMaze11", "--episodes", "2"])
    assert [row["policy"] for row in rows_of(exported / "eval-maze.csv")] == ["small"]


@pytest.mark.slow
def test_the_packages_own_agent_solves_a_maze_that_it_has_never_seen(tmp_path, capsys):
    out = tmp_path / "labyrinth.csv"
    main(
        [
            "eval",
            "--pretrained",
            "maze",
            "--suite",
            "paper",
            "--levels",
            "Labyrinth",
            "--episodes",
            "8",
            "--out",
            str(out),
        ]
    )
    (row,) = rows_of(out)
    assert float(row["solved"]) >= 0.75  # 1.00 of 100 episodes


def test_a_pretrained_agent_is_named_alone_and_rightly(directory, exported, capsys):
    assert "no pretrained agent 'smal'; choose one of small." in refused(capsys, "play", "--pretrained", "smal")
    for verb in ("play", "eval"):
        assert "not both" in refused(capsys, verb, directory, "--pretrained", "small")
        assert "--pretrained maze" in refused(capsys, verb)
