"""A run is written down as it goes, stops when asked, and goes on as if nothing had been."""

import json
import os
import re
import shutil
import signal
from dataclasses import replace

import jax
import numpy as np
import pytest
from short_runs import CONFIG, content, short_programs

from tutelage.files import sole_writer
from tutelage.training import checkpoints
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.progress import ProgressBar
from tutelage.training.run import Run, find_runs
from tutelage.training.run_writer import STAGED
from tutelage.training.train import Stopped, resume, train
from tutelage.types import InputError


@pytest.fixture(scope="module")
def programs():
    return short_programs()


@pytest.fixture(scope="module")
def whole(programs, tmp_path_factory):
    """A run from beginning to end, never interrupted."""
    return train(CONFIG, tmp_path_factory.mktemp("runs") / "whole", programs=programs, quiet=True)


@pytest.fixture
def copy(whole, tmp_path):
    """One to do harm to."""
    shutil.copytree(whole.directory, tmp_path / "copy")
    return tmp_path / "copy"


def test_the_logs_tell_how_it_went(whole):
    metrics = whole.metrics()
    iterations = len(metrics["iteration"])
    assert metrics["iteration"].tolist() == list(range(1, iterations + 1))
    replayed = metrics["replay"] == 1
    assert replayed.any()
    assert not replayed.all()
    played = np.where(replayed, 2, 1) * 8 * 32  # a replayed batch's edited children are played, too
    assert metrics["steps"].tolist() == np.cumsum(played).tolist()
    assert metrics["updates"].tolist() == np.cumsum(replayed * 4).tolist()
    assert np.isfinite(metrics["new/solvable"][~replayed]).all()
    assert np.isnan(metrics["new/solvable"][replayed]).all()
    assert np.isfinite(metrics["loss"][replayed]).all()
    timing = (whole.directory / "timing.csv").read_text().splitlines()
    assert len(timing) == 1 + iterations


def test_the_student_is_evaluated_on_the_way_and_at_the_end(whole):
    rows = whole.evaluations()
    last = int(whole.metrics()["iteration"][-1])
    assert {row["iteration"] for row in rows} == {*range(4, last, 4), last}
    assert {(row["level"], row["greedy"]) for row in rows} == {("PerfectMaze11", False)}
    assert all(row["episodes"] == (3 if row["iteration"] == last else 2) for row in rows)
    assert all(0 <= row["solved"] <= 1 for row in rows)


def test_every_episode_of_an_evaluation_is_kept(whole):
    episodes = whole.episodes()
    assert len(episodes) == sum(row["episodes"] for row in whole.evaluations())
    for row in whole.evaluations():
        own = [x for x in episodes if (x["iteration"], x["level"]) == (row["iteration"], row["level"])]
        assert [x["episode"] for x in own] == list(range(row["episodes"]))
        assert np.mean([x["return"] for x in own]) == pytest.approx(row["return"], abs=1e-6)
        assert np.mean([x["length"] for x in own]) == pytest.approx(row["length"])
        assert all(0 <= x["wall_right"] <= 1 and 0 <= x["wall_left"] <= 1 for x in own)


def test_a_run_of_a_version_that_kept_no_episodes_goes_on(whole, copy, programs):
    (copy / "episodes.csv").unlink()
    for path in [copy / "policy.safetensors", *checkpoints.saved(copy / "checkpoints")[1:]]:
        found = checkpoints.read(path)
        del found.about["logs"]["episodes.csv"]
        checkpoints.write(path, found.arrays, found.about)
    checkpoints.saved(copy / "checkpoints")[0].unlink()
    assert Run.load(copy).episodes() == []
    resume(copy, programs=programs, quiet=True)
    assert Run.load(copy).evaluations() == whole.evaluations()
    assert Run.load(copy).episodes() == whole.episodes()[-3:]  # of the last evaluation, which was repeated


def test_snapshots_show_levels_that_can_be_read_again(whole):
    last = whole.snapshots()[-1]
    assert last["source"] == "buffer"
    scores = [entry["score"] for entry in last["entries"]]
    assert scores == sorted(scores, reverse=True)
    design = whole.domain.design
    for entry in last["entries"]:
        level = design.from_json(entry["level"])
        assert bool(design.valid(level))
        assert entry["about"]["blocks"] == int(design.describe(level)["blocks"])
        assert entry["return"] <= entry["optimal_return"] + 1e-6
    assert any(entry["generation"] > 0 for entry in last["entries"])
    assert all(bool(design.valid(design.from_json(level))) for level in last["drawn"])
    assert len(last["drawn"]) == 8


def test_the_exported_policy_is_the_last_student(whole):
    newest = checkpoints.read(checkpoints.saved(whole.directory / "checkpoints")[0])
    exported = checkpoints.named_arrays(whole.params)
    for name, array in exported.items():
        assert np.array_equal(newest.arrays[f"students.params.{name}"][0], array)


def test_checkpoints_are_pruned_and_archived_by_gradient_updates(whole):
    metrics = whole.metrics()
    due = [int(i) for i, n in zip(metrics["iteration"], metrics["updates"], strict=True) if n % 10 < 4 and n >= 10]
    archived = sorted(int(path.stem) for path in checkpoints.saved(whole.directory / "archive"))
    assert archived
    assert set(archived) <= set(due)
    assert len(checkpoints.saved(whole.directory / "checkpoints")) == 3


def test_the_buffers_true_regret_is_a_metric_of_every_snapshot(whole):
    metrics = whole.metrics()
    regret = dict(zip(metrics["iteration"].astype(int), metrics["buffer/true_regret"], strict=True))
    looked = {snapshot["iteration"]: snapshot["true_regret"] for snapshot in whole.snapshots()}
    assert {i for i, x in regret.items() if np.isfinite(x)} == looked.keys()
    for i, x in looked.items():
        assert 0 <= x <= 1
        assert regret[i] == pytest.approx(x)


def test_the_same_configuration_gives_the_same_run(whole, programs, tmp_path):
    again = train(CONFIG, tmp_path / "again", programs=programs, quiet=True)
    assert content(again.directory) == content(whole.directory)


def test_it_goes_on_from_a_checkpoint_as_if_nothing_had_been(whole, copy, programs):
    checkpoints.saved(copy / "checkpoints")[0].unlink()
    checkpoints.saved(copy / "checkpoints")[0].unlink()
    (copy / "policy.safetensors").unlink()
    with (copy / "metrics.csv").open("a") as file:
        file.write("99,1,")  # killed while it wrote this
    resume(copy, programs=programs, quiet=True)
    kept = content(copy)
    for name, data in content(whole.directory).items():
        assert kept[name] == data, name


def test_nothing_is_begun_again_while_there_are_damaged_checkpoints(copy, programs):
    for directory in ("checkpoints", "archive"):
        for path in checkpoints.saved(copy / directory):
            path.write_bytes(path.read_bytes()[:1000])
    before = content(copy)
    with pytest.raises(InputError, match=r"All \d+ checkpoints of .* are damaged"):
        resume(copy, programs=programs, quiet=True)
    assert content(copy) == before


def test_a_run_is_not_made_shorter_than_it_is(copy, programs):
    before = content(copy)
    with pytest.raises(InputError, match="beyond what is asked for"):
        resume(copy, total_steps=256, programs=programs, quiet=True)
    assert content(copy) == before


@pytest.mark.parametrize("damage", ["cut", "flipped", "all"])
def test_a_damaged_checkpoint_is_passed_over_and_that_is_said(whole, copy, programs, damage, capsys):
    saved = checkpoints.saved(copy / "checkpoints")
    for path in saved if damage == "all" else saved[:1]:
        data = bytearray(path.read_bytes())
        if damage == "flipped":
            data[-100] ^= 4
        path.write_bytes(data if damage == "flipped" else data[: len(data) // 2])
    resume(copy, programs=programs, quiet=True)  # if all are damaged, from the archive
    said = capsys.readouterr().err
    archived = int(checkpoints.saved(copy / "archive")[0].stem)
    passed = [path for path in saved if int(path.stem) >= archived] if damage == "all" else saved[:1]
    assert said.count("Looking for the checkpoint before it.") == len(passed)
    kept, older = content(copy), {f"checkpoints/{path.name}" for path in saved if path not in passed}
    for name, expected in content(whole.directory).items():
        if damage != "all" or name not in older:  # these are still damaged
            assert kept[name] == expected, name


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_iteration_saves_and_stops(whole, programs, tmp_path, monkeypatch, number):
    dispatch, count = programs.curriculum.dispatch, iter(range(100))

    def interrupted(state, key, replay):
        if next(count) == 4:
            os.kill(os.getpid(), number)
        return dispatch(state, key, replay)

    monkeypatch.setattr(programs.curriculum, "dispatch", interrupted)
    before = signal.getsignal(number)
    with pytest.raises(Stopped):
        train(CONFIG, tmp_path / "run", programs=programs, quiet=True)
    assert signal.getsignal(number) is before
    run = Run.load(tmp_path / "run")
    assert len(run.metrics()["iteration"]) == 5
    assert checkpoints.saved(run.directory / "checkpoints")[0].stem == "00000005"
    resume(run.directory, programs=programs, quiet=True)
    kept = content(run.directory)
    for name in ("metrics.csv", "evaluations.csv", "policy.safetensors"):
        assert kept[name] == content(whole.directory)[name]


@pytest.mark.slow
def test_a_checkpoint_of_another_configuration_is_refused_with_the_differences(copy):
    saved = json.loads((copy / "config.json").read_text())
    saved["config"]["ppo"]["learning_rate"] = 0.5
    (copy / "config.json").write_text(json.dumps(saved))
    with pytest.raises(InputError, match=re.escape("They differ in ppo.learning_rate: 0.001 and 0.5")):
        resume(copy, quiet=True)


def test_a_finished_run_can_be_made_longer(copy, programs, whole):
    more = resume(copy, total_steps=CONFIG.total_steps + 512, programs=programs, quiet=True)
    assert more.metrics()["steps"][-1] >= CONFIG.total_steps + 512
    assert Run.load(copy).config.total_steps == CONFIG.total_steps + 512
    rows = (whole.directory / "metrics.csv").read_text()
    assert (copy / "metrics.csv").read_text().startswith(rows)


def test_a_run_whose_learning_rate_falls_cannot_be_made_longer(copy):
    saved = json.loads((copy / "config.json").read_text())
    saved["config"]["anneal_lr"] = True
    (copy / "config.json").write_text(json.dumps(saved))
    with pytest.raises(InputError, match="cannot be made longer"):
        resume(copy, total_steps=10**6, quiet=True)


def test_a_run_that_paused_goes_on_as_if_it_had_not(whole, programs, tmp_path, monkeypatch):
    totals = []
    monkeypatch.setattr("tutelage.training.train.ProgressBar", lambda *a: totals.append(a[1]) or ProgressBar(*a))
    run = train(CONFIG, tmp_path / "run", programs=programs, quiet=True, pause_at=5 * 8 * 32)
    assert run.config == whole.config, "it still plans all of its steps"
    progress = run.saved().progress
    assert 5 * 8 * 32 <= progress.steps < CONFIG.total_steps
    before = content(run.directory)
    resume(run.directory, programs=programs, quiet=True, pause_at=progress.steps)
    assert content(run.directory) == before, "it has come as far"
    resume(run.directory, programs=programs, quiet=True)
    assert content(run.directory) == content(whole.directory)
    assert totals == [5 * 8 * 32, progress.steps, CONFIG.total_steps], "the bar ends where the run does"
    with pytest.raises(InputError, match="pause_at must be at least 1"):
        train(CONFIG, tmp_path / "other", programs=programs, quiet=True, pause_at=0)


def test_where_something_is_nothing_is_written_unasked(copy, programs, tmp_path, whole):
    before = content(copy)
    with pytest.raises(InputError, match="already holds a run"):
        train(CONFIG, copy, programs=programs, quiet=True)
    assert content(copy) == before
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("long work")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="is not empty and holds no run"):
            train(CONFIG, tmp_path / "thesis", overwrite=overwrite, programs=programs, quiet=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        train(CONFIG, tmp_path / "file", programs=programs, quiet=True)
    for left in ("eval-paper.csv", "Labyrinth.gif"):
        (copy / left).write_text("of the run before")
    train(CONFIG, copy, overwrite=True, programs=programs, quiet=True)
    assert content(copy) == before


def test_programs_serve_one_configuration_whatever_its_seed(programs, tmp_path):
    programs.check(replace(CONFIG, seed=9, total_steps=CONFIG.total_steps + 1))
    other = replace(CONFIG, ppo=replace(CONFIG.ppo, learning_rate=0.5))
    with pytest.raises(InputError, match=r"compiled for another configuration: ppo.learning_rate"):
        train(other, tmp_path / "other", programs=programs, quiet=True)
    assert not (tmp_path / "other").exists()


def test_a_second_writer_is_refused(copy, programs):
    with sole_writer(copy):
        with pytest.raises(InputError, match="in use by another process"):
            resume(copy, programs=programs, quiet=True)
        with pytest.raises(InputError, match="in use by another process"):
            train(CONFIG, copy, overwrite=True, programs=programs, quiet=True)


def test_what_is_no_run_is_said_to_be_none(tmp_path):
    with pytest.raises(InputError, match=r"is not a run: it has no config\.json"):
        Run.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        Run.load(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="A saved configuration is a file with the entry"):
        Run.load(tmp_path)


class OwnSetup(MazeSetup):
    pass


def test_commands_for_a_run_work_as_printed(tmp_path):
    run = Run(tmp_path / "my run", CONFIG)
    assert run.command("resume", str(run.directory)) == f"tutelage resume '{tmp_path}/my run'"
    own = Run(tmp_path, replace(CONFIG, setup=OwnSetup()))
    assert own.command("resume", "x") == f"tutelage resume x --allow {__name__}"


def test_a_run_that_is_only_staged_is_not_found(copy, tmp_path):
    shutil.copytree(copy, copy / STAGED)
    (copy / "config.json").unlink()
    with pytest.raises(InputError, match="is not a run and contains none"):
        find_runs([tmp_path])


def test_the_environment_of_the_process_is_not_written_down(whole, monkeypatch):
    written = b"".join(content(whole.directory).values())
    for name, value in os.environ.items():
        if len(value) > 12 and name not in ("XLA_FLAGS",):
            assert value.encode() not in written, name


def test_memory_does_not_grow(programs, tmp_path, monkeypatch):
    dispatch, alive = programs.curriculum.dispatch, []

    def counted(state, key, replay):
        alive.append(len(jax.live_arrays()))
        return dispatch(state, key, replay)

    monkeypatch.setattr(programs.curriculum, "dispatch", counted)
    train(CONFIG, tmp_path / "run", programs=programs, quiet=True)
    assert len(alive) >= 8
    assert alive[-1] <= alive[2]


def test_seeds_share_what_is_compiled_and_differ_in_what_they_learn(whole, programs, tmp_path):
    config = replace(CONFIG, seed=1, total_steps=4 * 8 * 32)
    other = train(config, tmp_path / "seed-1", programs=programs, quiet=True)
    assert other.config.seed == 1
    first = jax.tree.leaves(whole.params)[0]
    assert not np.array_equal(jax.tree.leaves(other.params)[0], first)
