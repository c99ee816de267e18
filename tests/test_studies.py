"""Studies: one file becomes many commands, runs go on after a stop, and results are tidy."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from made_up_runs import made_up_config, write_run

from tutelage.cli.study import Commands, RunStudy, Status, _checked
from tutelage.cli.train import parse
from tutelage.files import Tally
from tutelage.studies.local import last_steps
from tutelage.studies.results import collect, finished_in
from tutelage.studies.study import Study, StudyRun
from tutelage.training import checkpoints
from tutelage.training.run import EVALUATIONS, LEVELS, METRICS, POLICY, TIMING, Progress
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
    assert runs[3].command[-4:] == ["--seed", "1", "--out", "here/plr-warm/seed-1"]
    assert _checked(study, runs) == [1280] * 4


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
        ('allow = 5\n[[variants]]\nmethod = "dr"', "allow is a list of modules"),
        ('[[variants]]\nmethod = "dr"\n[[variants]]\nmethod = "dr"', "Two variants are called 'dr'"),
        ('[[variants]]\nmethod = "dr"\nname = "../up"', "becomes a directory's"),
        ('[[variants]]\nmethod = "dr"\nseed = 3', "The study decides the seed"),
        ('[[variants]]\nmethod = "dr"\nteacher_ppo = {epochs = 2}', "write nested options with a dot"),
        ('[[variants]]\nmethod = "dr"\n[grid]\ntemperature = 1', "is a list of values"),
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
    ],
)
def test_options_are_checked_before_anything_runs(options, sentence, tmp_path):
    study = Study.read(study_of(f'preset = "tiny"\n[[variants]]\n{options}', tmp_path))
    with pytest.raises(InputError, match=re.escape(sentence)):
        _checked(study, study.runs(tmp_path))


def test_the_end_of_a_log_says_how_far_a_run_has_come(tmp_path):
    log = tmp_path / "metrics.csv"
    assert last_steps(log) == 0
    log.write_text("iteration,steps,updates\n")
    assert last_steps(log) == 0
    log.write_text("iteration,steps,updates\n" + "".join(f"{i},{256 * i},0\n" for i in range(1, 9000)) + "9000,23")
    assert last_steps(log) == 256 * 8999, "a row that is still being written does not count"


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
    assert finished_in(out, here) == {("dr", 0)}

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
    assert finished_in(out, changed) == {("dr", 0), ("dr", 1)}, "a variant with other options is another run"
    (out / "runs.csv").write_text("name,age\nme,5\n")
    with pytest.raises(InputError, match="is no table of a study's results"):
        collect(here, out)


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
    assert "Go on with: tutelage study run small.toml" in said
    monkeypatch.chdir(tmp_path)
    Commands(Path("small.toml")).run()
    printed = capsys.readouterr().out.splitlines()
    assert 1 <= len(printed) <= 4
    assert all(line.startswith(("tutelage train ", "tutelage resume ")) for line in printed)

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
    study_of(SMALL, whole)
    said, _ = study_process("run", path.name, "--processes", "2", cwd=whole).communicate(timeout=300)
    study_process("results", path.name, cwd=whole).communicate(timeout=120)
    again = tables(whole / "small")
    for name in ("evaluations.csv", "training.csv"):
        assert again[name] == found[name], name


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
