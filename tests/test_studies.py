"""Studies: one file becomes many commands, runs go on after a stop, and results are tidy."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
from made_up_curricula import entry, write_snapshot
from made_up_runs import made_up_config, write_run

from tutelage.cli.study import Commands, Results, RunStudy, Status, check
from tutelage.cli.train import parse
from tutelage.files import Tally, csv_text, write_atomically
from tutelage.studies.jobs import Job, last_progress, run_jobs
from tutelage.studies.local import claimed_cores
from tutelage.studies.results import collect, evaluations, reached_in
from tutelage.studies.selection import plan, run_study
from tutelage.studies.study import Selection, Study, StudyRun
from tutelage.training import checkpoints
from tutelage.training.run import (
    CONFIG,
    EVALUATION_COLUMNS,
    EVALUATIONS,
    LEVELS,
    METRICS,
    POLICY,
    TIMING,
    Progress,
    write_config,
)
from tutelage.types import InputError

SMALL = """
preset = "tiny"
seeds = 2

[options]
total_steps = 1280
test_levels = ["SixteenRooms"]
episodes = 1
evaluate_every = 2

[[variants]]
method = "dr"

[[variants]]
method = "plr"
name = "plr-warm"
temperature = 1.0
train_on_new = false
"""


def study_of(text: str, tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(text)
    return path


def test_a_file_becomes_commands(tmp_path):
    study = Study.read(study_of(SMALL, tmp_path))
    common = "--preset tiny --total-steps 1280 --test-levels SixteenRooms --episodes 1 --evaluate-every 2"
    assert {name: " ".join(words) for name, words in study.variants.items()} == {
        "dr": f"dr {common}",
        "plr-warm": f"plr --name plr-warm {common} --temperature 1.0 --no-train-on-new",
    }
    runs = study.runs("here")
    assert [str(run.directory) for run in runs] == [
        "here/dr/seed-0",
        "here/plr-warm/seed-0",
        "here/dr/seed-1",
        "here/plr-warm/seed-1",
    ]
    assert runs[3].command()[-4:] == ["--seed", "1", "--out", "here/plr-warm/seed-1"]
    check(study)


def test_a_grid_multiplies_variants(tmp_path):
    text = '[[variants]]\nmethod = "plr"\n[grid]\ntemperature = [0.3, 1.0]\n"teacher_ppo.epochs" = [1]\n'
    study = Study.read(study_of(text, tmp_path))
    assert list(study.variants) == ["plr-temperature-0.3-epochs-1", "plr-temperature-1.0-epochs-1"]
    assert study.seeds == (0,)
    assert study.variants["plr-temperature-1.0-epochs-1"][-4:] == (
        "--temperature",
        "1.0",
        "--teacher-ppo.epochs",
        "1",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seeds = 2", "needs at least one table [[variants]]"),
        ('[[variants]]\nname = "x"', "needs a method"),
        ('color = 1\n[[variants]]\nmethod = "dr"', "no entry 'color'"),
        ('seeds = 0\n[[variants]]\nmethod = "dr"', "seeds is a number from 1"),
        ('seeds = [1, 1]\n[[variants]]\nmethod = "dr"', "different seeds"),
        ('seeds = [-1]\n[[variants]]\nmethod = "dr"', "different seeds"),
        ('seeds = true\n[[variants]]\nmethod = "dr"', "different seeds"),
        ('seeds = 1000000000000\n[[variants]]\nmethod = "dr"', "from 1 to 10000"),
        ('allow = 5\n[[variants]]\nmethod = "dr"', "allow must be a list, not 5"),
        ('[[variants]]\nmethod = "dr"\n[[variants]]\nmethod = "dr"', "Two variants are called 'dr'"),
        ('[[variants]]\nmethod = "dr"\nname = "../up"', "becomes a directory's"),
        ('[[variants]]\nmethod = "dr"\nseed = 3', "The study decides the seed"),
        ('[[variants]]\nmethod = "dr"\nteacher_ppo = {epochs = 2}', "write nested options with a dot"),
        ('[[variants]]\nmethod = "dr"\n[grid]\ntemperature = 1', "is a list of values"),
        ('[[variants]]\nmethod = "dr"\n[random]\nblocks = [1]', "[random] needs samples"),
        ('[[variants]]\nmethod = "dr"\n[random]\nsamples = 3\nblocks = [1, 2]', "has no 3 different draws"),
        ('[[variants]]\nmethod = "dr"\n[random]\nsamples = 1\nblocks = {min = 2, max = 1}', "blocks is {'min': 2"),
        ('[[variants]]\nmethod = "dr"\n[random]\nsamples = 1\nx = {min = 0, max = 1, log = true}', "or a range"),
        ('[[variants]]\nmethod = "dr"\n[random]\nsamples = 1\nx = [1]\n[grid]\nx = [1]', "in [grid] and in [random]"),
        ('[[variants]]\nmethod = "dr"\n[selection]\nmetric = "luck"', "selection.metric must be one of"),
        ('[[variants]]\nmethod = "dr"\n[selection]\nrungs = [2, 1]', "rising numbers of steps"),
        ('[[variants]]\nmethod = "dr"\n[selection]\nkeep = 1.0', "a share between 0 and 1"),
        ("[[variants", "is not TOML"),
    ],
)
def test_a_mistake_in_a_file_gets_a_sentence(text, sentence, tmp_path):
    with pytest.raises(InputError, match=re.escape(sentence)):
        Study.read(study_of(text, tmp_path))
    with pytest.raises(InputError, match="cannot be read"):
        Study.read(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ('method = "drr"', "Variant drr: There is no method 'drr'"),
        ('method = "dr"\ntemperature = 1.0', "Variant dr: dr has no curator"),
        ('method = "dr"\ncolor = 1', "Variant dr: tutelage train does not take"),
        ('method = "dr"\ntotal_steps = 0', "total_steps must be at least 1"),
        ('method = "dr"\nhidden = -4', "Variant dr: "),
        ('method = "dr"\n[selection]\nlevels = ["Nowhere"]', "the selection needs evaluations on Nowhere"),
        ('method = "dr"\nevaluate_every = 0\n[selection]\nrungs = [256]', "rungs need evaluations on the way"),
        ('method = "dr"\nsuite = ""\n[selection]', "the selection needs evaluations on any level"),
    ],
)
def test_options_are_checked_before_anything_runs(options, sentence, tmp_path):
    study = Study.read(study_of(f'preset = "tiny"\n[[variants]]\n{options}', tmp_path))
    with pytest.raises(InputError, match=re.escape(sentence)):
        check(study)


def test_the_end_of_a_log_says_how_far_a_run_has_come(tmp_path):
    log = tmp_path / "metrics.csv"
    assert last_progress(log) == Progress()
    log.write_text("iteration,steps,updates\n")
    assert last_progress(log) == Progress()
    log.write_text("iteration,steps,updates\n" + "".join(f"{i},{256 * i},{i},1\n" for i in range(1, 9000)) + "9000,23")
    assert last_progress(log) == (8999, 256 * 8999, 8999), "a row that is still being written does not count"


@pytest.mark.parametrize(
    ("lengths", "pause_at", "minutes"),
    [
        ({"total_steps": 20_000}, None, 3),
        ({"total_steps": 20_000}, 50_000, 3),
        ({"total_steps": 100_000, "total_updates": 100}, None, 3),
        ({"total_steps": 100_000, "total_updates": 100}, 10_000, 0.5),
    ],
)
def test_the_time_left_is_until_the_end_or_the_pause(lengths, pause_at, minutes, tmp_path, monkeypatch):
    """After 4 and 8 iterations of 1000 steps and 5 updates, a minute apart."""
    monkeypatch.setattr("time.monotonic", iter([60.0, 120.0]).__next__)
    run = StudyRun("dr", 0, tmp_path / "seed-0", ("dr",))
    job = Job(run, pause_at, "running", task=Ended(0))
    for iterations in (4, 8):
        write_run(run.directory, iterations=iterations, config=replace(made_up_config("dr", 0), **lengths))
        job.look()
    assert (job.share, job.left) == pytest.approx((0.4, 60 * minutes))


def finish(run: StudyRun, iterations: int) -> None:
    """Make up a run of so many iterations of 1000 steps each, that has been saved."""
    config = replace(made_up_config(run.options[0], run.seed), total_steps=3000)
    made = write_run(run.directory, iterations=iterations, every=1, levels=["Maze"], config=config)
    marks = {name: Tally().mark()._replace(size=0, digest=None) for name in (METRICS, EVALUATIONS, TIMING)}
    marks[LEVELS] = Tally().mark()
    about = {"progress": Progress(iterations, 1000 * iterations), "logs": marks}
    checkpoints.write(made.directory / POLICY, {}, about)


def test_results_of_several_machines_become_one(tmp_path, capsys):
    path = study_of(SMALL, tmp_path)
    study, out = Study.read(path), tmp_path / "small"
    here, there = study.runs(tmp_path / "here"), study.runs(tmp_path / "there")
    with pytest.raises(InputError, match="None of the study's runs has begun"):
        collect(here, out)
    finish(there[0], 3)
    finish(there[1], 2)
    collect(there, out)
    first = tables(out)
    assert [(row["variant"], row["seed"], row["steps"], row["finished"]) for row in first["runs.csv"]] == [
        ("dr", "0", "3000", "True"),
        ("plr-warm", "0", "2000", "False"),
    ]
    assert reached_in(out, here) == {("dr", 0): (3000, True), ("plr-warm", 0): (2000, False)}

    finish(here[0], 1)  # begun again, and not as far
    finish(here[1], 3)
    finish(here[2], 3)
    collect(here, out)
    both = tables(out)
    assert [(row["variant"], row["seed"], row["steps"]) for row in both["runs.csv"]] == [
        ("dr", "0", "3000"),
        ("plr-warm", "0", "3000"),
        ("dr", "1", "3000"),
    ]
    for name in ("evaluations.csv", "training.csv"):
        assert both[name][:3] == first[name][:3], "rows of a run that is elsewhere"
        assert len(both[name]) == 9
    written = {file: file.read_bytes() for file in out.iterdir()}
    collect(here[3:], out)
    assert {file: file.read_bytes() for file in out.iterdir()} == written

    changed = Study.read(study_of(SMALL.replace("1.0", "0.5"), tmp_path)).runs(tmp_path / "here")
    assert reached_in(out, changed).keys() == {("dr", 0), ("dr", 1)}, "a variant with other options is another run"
    (out / "runs.csv").write_text("name,age\nme,5\n")
    with pytest.raises(InputError, match="is no table of a study's results"):
        collect(here, out)


def test_rows_of_other_options_are_left_out(tmp_path, capsys):
    out, plain = tmp_path / "small", SMALL.replace("seeds = 2", "seeds = 3")
    there = Study.read(study_of(plain, tmp_path)).runs(tmp_path / "there")
    for run in there:
        finish(run, 3)
        write_snapshot(run.load(), 9, [entry(run.load(), 1, 0.5)])
    collect(there, out)
    before = tables(out)
    assert json.loads((out / "levels.json").read_text()).keys() == {"dr", "plr-warm"}

    here = Study.read(study_of(plain.replace("1.0", "0.5"), tmp_path)).runs(tmp_path / "here")
    assert evaluations(here, out).keys() == {("dr", seed) for seed in range(3)}
    finish(here[0], 1)  # of dr, with the same options, and not as far
    finish(here[1], 2)
    assert {run: len(rows) for run, rows in evaluations(here, out).items() if run[0] == "plr-warm"} == {here[1].id: 2}
    capsys.readouterr()
    collect(here, out)
    assert "The options of 3 runs in" in capsys.readouterr().err
    after = tables(out)
    for name in ("evaluations.csv", "training.csv", "runs.csv"):
        dr = [row for row in before[name] if row["variant"] == "dr"]
        assert [row for row in after[name] if row["variant"] == "dr"] == dr, "made elsewhere with the same options"
    [warm] = [row for row in after["runs.csv"] if row["variant"] == "plr-warm"]
    assert (warm["seed"], warm["steps"]) == ("0", "2000")
    assert "--temperature 0.5" in warm["options"]
    assert {row["steps"] for row in after["evaluations.csv"] if row["variant"] == "plr-warm"} == {"1000", "2000"}
    assert json.loads((out / "levels.json").read_text()).keys() == {"dr"}
    assert json.loads((out / "configs.json").read_text())["dr"]["seed"] == 2, "that of the run in the tables"


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("temperature = 1.0", "temperature = 0.5", "method.curator.temperature: 1.0 and 0.5"),
        ("episodes = 1", "episodes = 2", "evaluation.episodes: 1 and 2"),
        ("total_steps = 1280", "total_steps = 2560", "total_steps: 1280 and 2560"),
        ("total_steps = 1280", "total_steps = 1024\nanneal_lr = true", "anneal_lr: False and True"),
        ("total_steps = 1280", "total_steps = 1024", None),
        ("episodes = 1", "episodes = 1\nkeep = 3", None),
    ],
)
def test_a_run_keeps_the_options_it_was_begun_with(before, after, change, tmp_path):
    path, runs = study_of(SMALL, tmp_path), tmp_path / "runs"
    run = Study.read(path).runs(runs)[3]
    write_config(run.directory, replace(parse(run.options).config, seed=1, devices=1))
    Status(path, runs).run()
    study_of(SMALL.replace(before, after), tmp_path)
    sentence = re.escape(f"plr-warm, seed 1 was begun with other options ({change}")
    for verb in (Status, Commands, Results, RunStudy) if change else (Status, Commands):
        with pytest.raises(InputError, match=sentence) if change else nullcontext():
            verb(path, runs).run()
    (run.directory / CONFIG).write_text("{}")
    Status(path, runs).run()  # the run's own process will say that it is damaged


def test_what_results_hold_is_not_run_again(tmp_path, capsys):
    path = study_of(SMALL.replace("seeds = 2", "seeds = 1"), tmp_path)
    there = Study.read(path).runs(tmp_path / "there")
    for run in there:
        finish(run, 3)
    collect(there, tmp_path / "small")
    file = (path, tmp_path / "here")
    RunStudy(*file).run()
    assert "2 in results." in capsys.readouterr().out
    Status(*file).run()
    assert capsys.readouterr().out.count("in results") == 2
    Commands(*file).run()
    assert not capsys.readouterr().out
    assert not (tmp_path / "here").exists()


RANDOM = """
preset = "tiny"
[[variants]]
method = "plr"
[random]
samples = 6
seed = 3
replay_rate = [0.5, 0.8]
edits = {min = 0, max = 3}
learning_rate = {min = 1e-5, max = 1e-3, log = true}
"""


def test_random_draws_are_seeded_and_in_range(tmp_path):
    study = Study.read(study_of(RANDOM, tmp_path))
    check(study)
    drawn = [dict(zip(words[3::2], words[4::2], strict=True)) for words in study.variants.values()]
    drawn = [{name: float(x) for name, x in each.items() if name not in ("--preset", "--name")} for each in drawn]
    assert len(drawn) == 6
    assert {each["--replay-rate"] for each in drawn} == {0.5, 0.8}
    assert {each["--edits"] for each in drawn} <= {0, 1, 2, 3}
    assert all(1e-5 <= each["--learning-rate"] <= 1e-3 for each in drawn)
    assert min(each["--learning-rate"] for each in drawn) < 1e-4, "half of them, on a scale of logarithms"
    again = Study.read(study_of(RANDOM.replace("samples = 6", "samples = 4"), tmp_path))
    assert [*again.variants.items()] == [*study.variants.items()][:4]
    assert Study.read(study_of(RANDOM.replace("seed = 3", "seed = 4"), tmp_path)) != study
    # random() of Python's generator is the same in all versions: 0.2379…, 0.5442…, 0.3699… for this seed
    assert next(iter(study.variants)) == "plr-replay_rate-0.5-edits-2-learning_rate-5.49e-05"


def evaluated(run: StudyRun, steps: int, rates: list[float]) -> None:
    """Make up a run that is saved after `steps` of 3000, with these solved rates after 1000, 2000, 3000 steps."""
    finish(run, steps // 1000)
    place = [{"iteration": i + 1, "steps": 1000 * (i + 1), "updates": i} for i in range(steps // 1000)]
    rest = {"suite": "maze", "episodes": 1, "greedy": False, "return": 0.0, "length": 9.0}
    rows = [
        at | rest | {"level": level, "solved": rate if level == "Maze" else 1 - rate}
        for at, rate in zip(place, rates, strict=False)
        for level in ("Maze", "Labyrinth")
    ]
    write_atomically(run.directory / EVALUATIONS, csv_text(rows, EVALUATION_COLUMNS))


class MadeUp:
    """An executor that makes up what a run learns: its variant decides how quickly."""

    def __init__(self, rates: dict[str, list[float]]) -> None:
        self.rates, self.started = rates, list[tuple[str, int, int | None]]()

    def start(self, run, pause_at):
        self.started.append((run.variant, run.seed, pause_at))
        if run.variant == "broken":
            return Ended(1)
        evaluated(run, pause_at or 3000, [rate + 0.01 * run.seed for rate in self.rates[run.variant]])
        return Ended(0)


@dataclass
class Ended:
    code: int

    def poll(self):
        return self.code

    def stop(self):
        raise AssertionError("it has ended")

    def place(self):
        return ""


def test_halving_goes_on_with_the_best_and_is_the_same_after_a_stop(tmp_path, monkeypatch):
    monkeypatch.setattr("tutelage.studies.jobs.POLL", 0.0)
    rates = {"slow": [0.1, 0.2, 0.9], "quick": [0.5, 0.6, 0.6], "late": [0.4, 0.7, 0.8], "bad": [0, 0, 0]}
    runs = [
        StudyRun(name, seed, tmp_path / "runs" / name / f"seed-{seed}", ("dr",))
        for seed in (0, 1)
        for name in (*rates, "broken")
    ]
    selection = Selection(levels=("Maze",), rungs=(1000, 2000), keep=0.5)
    executor, out = MadeUp(rates), tmp_path / "results"
    found = run_study(runs, executor, selection, out)
    assert executor.started[:10] == [(run.variant, run.seed, 1000) for run in runs]
    assert executor.started[10:] == [
        *[(name, seed, 2000) for seed in (0, 1) for name in ("slow", "quick", "late")],
        *[(name, seed, None) for seed in (0, 1) for name in ("quick", "late")],
    ], "three of five, and two of three"
    assert [(each.rung, each.variant, each.selected) for each in found.ranking] == [
        (1, "quick", True),
        (1, "late", True),
        (1, "slow", True),
        (1, "bad", False),
        (1, "broken", False),
        (2, "late", True),
        (2, "quick", True),
        (2, "slow", False),
        (3, "late", True),
        (3, "quick", False),
    ]
    assert found.ranking[0].score == pytest.approx((0.5 + 0.51) / 2)
    assert found.ranking[0].std == pytest.approx(0.01 / 2**0.5)
    assert found.ranking[4].score is None
    status = {job.run.variant: job.status for job in found.jobs}
    assert status == {"quick": "done", "late": "done", "slow": "dropped", "bad": "dropped", "broken": "failed"}
    head, first, *rest = (out / "selection.csv").read_text().splitlines()
    assert head == "rung,steps,place,variant,score,std,seeds,selected"
    assert re.fullmatch(r"1,1000,1,quick,0\.505,0\.00707106781\d*,2,True", first)
    assert len(rest) == 9

    again = MadeUp(rates)
    assert run_study(runs, again, selection, out).ranking == found.ranking
    assert {name for name, _, _ in again.started} == {"broken"}, "what failed is tried again, and all else is known"
    collect(runs, out)
    elsewhere = [replace(run, directory=tmp_path / "elsewhere" / run.variant / str(run.seed)) for run in runs]
    waiting = [job for job in plan(elsewhere, selection, out).jobs if job.status == "waiting"]
    assert {(job.run.variant, job.pause_at) for job in waiting} == {("broken", 1000)}, "the tables know the others"
    assert plan(elsewhere, selection, out, failed=[run.id for run in runs if run.variant == "broken"]).ranking == (
        found.ranking
    )
    assert waiting[0].run.command(1000)[-2:] == ["--pause-at", "1000"]


def test_selection_averages_levels_and_evaluations(tmp_path):
    runs = [StudyRun(name, 0, tmp_path / name / "seed-0", ("dr",)) for name in ("up", "down")]
    for run, rates in zip(runs, ([0.0, 0.2, 0.9], [0.9, 0.6, 0.5]), strict=True):
        evaluated(run, 3000, rates)

    def scores(**options) -> dict[str, float | None]:
        return {each.variant: each.score for each in plan(runs, Selection(**options)).ranking}

    assert scores(levels=("Maze",)) == pytest.approx({"up": 0.9, "down": 0.5})
    assert scores(levels=("Maze",), evaluations=3) == pytest.approx({"down": 2 / 3, "up": 1.1 / 3})
    assert scores(levels=("Labyrinth",)) == pytest.approx({"down": 0.5, "up": 0.1})
    assert scores() == pytest.approx({"up": 0.5, "down": 0.5}), "all levels"
    assert scores(metric="return") == {"up": 0, "down": 0}
    for run in runs:
        finish(run, 2)
    with pytest.raises(InputError, match="No variant was evaluated until 500 steps"):
        plan(runs, Selection(rungs=(500,)))


def test_a_stop_reaches_what_runs_and_what_waits(tmp_path, monkeypatch):
    monkeypatch.setattr("tutelage.studies.jobs.POLL", 0.0)
    requests, asked = list[int](), list[str]()

    class Running(Ended):
        def poll(self):
            requests.append(signal.SIGINT)
            return 130 if asked else None

        def stop(self):
            asked.append("stop")

    tasks = [Running(0)]

    class One:
        def start(self, run, pause_at):
            return tasks.pop() if tasks else None

    jobs = [Job(StudyRun("dr", seed, tmp_path / f"seed-{seed}", ("dr",))) for seed in range(2)]
    run_jobs(jobs, One(), requests=requests)
    assert [job.status for job in jobs] == ["stopped", "stopped"]
    assert asked == ["stop"]


def test_two_runs_do_not_claim_the_same_core(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # a study that runs beside the tests has claims, too
    allowed = os.sched_getaffinity(0)
    with claimed_cores(1) as one, claimed_cores(1) as other:
        assert len(one) == len(other) == 1
        assert one <= allowed
        assert one != other or len(allowed) == 1
        with claimed_cores(len(allowed)) as all_of_them:
            assert all_of_them == allowed, "shared if there are no others"


def study_process(*words: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tutelage", "study", *words]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def tables(directory: Path) -> dict[str, list[dict[str, str]]]:
    return {path.name: list(csv.DictReader(path.read_text().splitlines())) for path in sorted(directory.glob("*.csv"))}


@pytest.mark.slow
def test_a_study_that_was_stopped_goes_on_to_the_same_results(tmp_path, capsys, monkeypatch):
    path = study_of(SMALL, tmp_path)
    process = study_process("run", path.name, "--processes", "2", cwd=tmp_path)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("runs/small/*/*/checkpoints/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Continue with: tutelage study run small.toml" in said
    monkeypatch.chdir(tmp_path)
    Commands(Path("small.toml")).run()
    printed = capsys.readouterr().out.splitlines()
    assert 1 <= len(printed) <= 4
    assert all(line.startswith(("tutelage train ", "tutelage resume ")) for line in printed)
    Status(Path("small.toml")).run()
    assert capsys.readouterr().out.count("begun") == sum(line.startswith("tutelage resume ") for line in printed) >= 1

    said, _ = study_process("run", path.name, "--processes", "2", cwd=tmp_path).communicate(timeout=300)
    assert "4 done." in said, said
    Status(Path("small.toml")).run()
    assert capsys.readouterr().out.count("done") == 4
    said, _ = study_process("results", path.name, cwd=tmp_path).communicate(timeout=120)
    found = tables(tmp_path / "small")
    assert sorted(found) == ["episodes.csv", "eval.csv", "evaluations.csv", "runs.csv", "training.csv"], said
    assert {(row["variant"], row["seed"], row["finished"]) for row in found["runs.csv"]} == {
        (variant, seed, "True") for variant in ("dr", "plr-warm") for seed in "01"
    }
    assert {row["method"] for row in found["evaluations.csv"] if row["variant"] == "plr-warm"} == {"plr"}
    assert {row["level"] for row in found["evaluations.csv"]} == {"SixteenRooms"}
    assert all(float(row["entropy"]) > 0 for row in found["training.csv"] if row["variant"] == "dr")

    whole = tmp_path / "whole"
    whole.mkdir()
    study_of(SMALL.replace("seeds = 2", "seeds = 1"), whole)  # one is enough to compare
    said, _ = study_process("run", path.name, "--processes", "2", cwd=whole).communicate(timeout=300)
    study_process("results", path.name, cwd=whole).communicate(timeout=120)
    again = tables(whole / "small")
    for name in ("evaluations.csv", "training.csv"):
        assert again[name] == [row for row in found[name] if row["seed"] == "0"], name


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path):
    path = study_of(SMALL.replace("seeds = 2", "seeds = 1"), tmp_path)
    (tmp_path / "runs/small/dr/seed-0").mkdir(parents=True)
    (tmp_path / "runs/small/dr/seed-0/thesis.txt").write_text("long work")
    process = study_process("run", path.name, cwd=tmp_path)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "1 failed" in said
    assert "1 done" in said
    assert "holds no run" in (tmp_path / "runs/small/dr/seed-0.log").read_text()


@pytest.mark.slow
def test_the_studies_that_come_with_the_project_can_be_run():
    """Every variant is a command that can be parsed, and what it evaluates on is there."""
    files = sorted((Path(__file__).parent.parent / "studies").rglob("*.toml"))
    assert len(files) >= 6
    for file in files:
        for words in Study.read(file).variants.values():
            config = parse(words).config
            levels = [level.name for level in config.test_levels(domain_of(config.setup))]
            if file.parent.name == "grids":
                assert levels in (["SixteenRooms", "Labyrinth", "Maze"], ["Italy", "Singapore", "Germany"])


@cache
def domain_of(setup):
    return setup.domain()
