"""`tutelage train` and `tutelage resume`: every option is explained, every mistake gets a sentence."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tutelage.cli import _parse, main
from tutelage.cli.train import Group, default_config
from tutelage.curriculum.curator import Curator
from tutelage.curriculum.methods import METHODS, Method
from tutelage.learning.ppo import PPO
from tutelage.training.config import Config, Evaluation, Storage
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.run import Run

SHORT = ("--total-steps", "512", "--suite", "", "--snapshot-levels", "4")


def refused(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    said = capsys.readouterr()
    return " ".join((said.err + said.out).replace("│", " ").split())


def test_every_option_is_explained(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for group in (Config, MazeSetup, Method, Curator, PPO, Evaluation, Storage):
        for field in dataclasses.fields(group):
            if not dataclasses.is_dataclass(field.default) and field.name not in (
                "setup",
                "method",
                "generator",
                "curator",
            ):
                option = "--" + field.name.replace("_", "-")
                assert option in text, option
    assert "(paper: 0.3; CarRacing 1.0)" in text


@pytest.mark.parametrize("method", METHODS)
def test_a_preset_gives_the_defaults_and_options_change_them(method):
    config = default_config([method, "--preset", "paper", "--seed", "3"])
    assert config == MazeSetup.preset("paper", method)
    assert default_config([method, "--preset=tiny", "--domain=maze"]) == MazeSetup.preset("tiny", method)


@pytest.mark.parametrize("blocks", [("--blocks", "50"), ("--blocks=50",)])
def test_fifty_blocks_choose_the_papers_other_defaults_and_options_still_win(blocks):
    assert _parse(["train", "paired", "--preset", "paper", *blocks]).config == MazeSetup.preset("paper", "paired", 50)
    own = ["--total-steps", "1000", "--teacher-lstm"]
    config = _parse(["train", "paired", *own, "--preset", "paper", *blocks]).config
    assert (config.setup.blocks, config.total_steps, config.setup.teacher_lstm) == (50, 1000, True)


def test_a_number_of_blocks_that_is_none_is_refused(capsys):
    for words in (["--blocks"], ["--blocks", "many"], ["--blocks", "-3"]):
        assert "blocks" in refused(["train", "dr", "--preset", "paper", *words], capsys)


def test_a_word_that_looks_like_a_method_does_not_choose_the_preset():
    verb = _parse(["train", "plr", "--preset", "tiny", "--out", "dr"])
    assert verb.config == MazeSetup.preset("tiny", "plr")


@pytest.mark.slow
def test_it_trains_resumes_and_runs_a_saved_configuration_again(tmp_path, capsys):
    first, again = tmp_path / "first", tmp_path / "again"
    main(["train", "dr", "--preset", "tiny", *SHORT, "--learning-rate", "0.01", "--out", str(first)])
    run = Run.load(first)
    assert run.config.ppo.learning_rate == 0.01
    assert run.config.evaluation.suite == ""
    main(["train", "--config", str(first / "config.json"), "--out", str(again)])
    assert (again / "metrics.csv").read_bytes() == (first / "metrics.csv").read_bytes()
    assert (again / "policy.safetensors").read_bytes() == (first / "policy.safetensors").read_bytes()
    main(["resume", str(first), "--total-steps", "768"])
    assert Run.load(first).metrics()["steps"][-1] == 768
    assert f"tutelage report {first}" in capsys.readouterr().out


def test_seeds_are_refused_before_the_first_is_trained(tmp_path, capsys):
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / "thesis.txt").write_text("long work")
    said = refused(["train", "dr", "--preset", "tiny", *SHORT, "--seeds", "2", "--out", str(tmp_path)], capsys)
    assert "seed-1 is not empty and holds no run" in said
    assert not (tmp_path / "seed-0").exists()


def test_seeds_do_not_go_into_a_run_nor_among_those_of_another_configuration(tmp_path, capsys):
    options = ["train", "dr", "--preset", "tiny", "--seed", "5", "--seeds", "2", "--out", str(tmp_path)]
    (tmp_path / "config.json").write_text("{}")
    assert f"{tmp_path} is itself a run" in refused(options, capsys)
    (tmp_path / "config.json").unlink()
    group = Group(tmp_path, MazeSetup.preset("tiny", "plr"), (0, 1), cpus=2)
    group.write()
    before = (tmp_path / "seeds.json").read_text()
    assert "holds seeds of another configuration" in refused(options, capsys)
    assert (tmp_path / "seeds.json").read_text() == before


def test_seeds_join_those_that_were_trained_before(tmp_path):
    config = MazeSetup.preset("tiny", "dr")
    Group(tmp_path, config, (0, 1), cpus=2).write()
    Group(tmp_path, replace(config, seed=1), (1, 2), cpus=1).with_earlier(()).write()
    group = Group.read(tmp_path, ())
    assert (group.seeds, group.cpus) == ((0, 1, 2), 2)
    other = Group(tmp_path, replace(config, total_steps=1), (0, 1, 2), cpus=1)
    assert other.with_earlier(()) == other, "all of them are replaced"


def test_a_full_or_forbidden_place_gets_a_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    said = refused(["train", "dr", "--preset", "tiny", "--out", str(tmp_path / "file" / "r")], capsys)
    assert f"{tmp_path / 'file'} is not a directory. Give --out another place." in said


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core seeds are trained one after the other")
def test_seeds_get_a_directory_each_and_are_resumed_together(tmp_path, capsys):
    out = tmp_path / "runs"
    options = ["train", "dr", "--preset", "tiny", *SHORT, "--seeds", "2", "--seed", "5", "--out", str(out)]
    main([*options, "--pause-at", "1"])
    said = capsys.readouterr().out
    assert "2 seeds, 2 at a time with" in said
    assert f"2 paused.\nContinue with: tutelage resume {out}\n" in said
    first = Run.load(out / "seed-5")
    assert first.metrics()["iteration"].tolist() == [1]
    shutil.rmtree(out / "seed-6")  # as if it had not begun
    main(["resume", str(out)])
    runs = [Run.load(out / f"seed-{seed}") for seed in (5, 6)]
    assert [run.config.seed for run in runs] == [5, 6]
    assert [run.saved().progress.finished(run.config) for run in runs] == [True, True]
    assert runs[0].config.devices == len(os.sched_getaffinity(0)) // 2
    assert "already holds a run" in refused(options, capsys)
    assert "one by one" in refused(["resume", str(out), "--total-steps", "999"], capsys)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["dr", "--replay-rate", "0.5"], "dr has no curator, so --replay-rate means nothing"),
        (["plr", "--min-fill", "40"], "min_fill must lie in [0, 1]"),
        (["plr", "--score", "best"], "There is no 'best' in tutelage"),
        (["plr", "--score", "nowhere:score"], "nowhere:score cannot be imported"),
        (["plr", "--domain", ":"], "is named module:Class"),
        (["plr", "--seed", "99999999999999999999"], "A seed is a number from 0"),
        (["plr", "--edits", "-1"], "edits is at least 0"),
        (["plr", "--temperature", "inf"], "temperature must be above 0 and finite"),
        (["plr", "--score", "rank"], "This configuration cannot run (TypeError: "),
        (["plr", "--prioritization", "max-mc"], "This configuration cannot run (TypeError: "),
        (["plr", "--hidden", "10000000000"], "This configuration cannot run (OverflowError"),
        (["plr", "--num-envs", "1" + "0" * 22], "num_envs must be below 2³¹"),
        (["plr", "--name", "../../up"], "A method's name goes into tables and paths"),
        (["plr", "--name", ""], "A method's name goes into tables and paths"),
        (["dr", "--no-with-replacement"], "dr has no curator, so --no-with-replacement means nothing"),
        (["--out", "dr", "plr"], "Which method?"),
        (["--name", "plr", "dr"], "Which method?"),
        (["dr", "--levels-per-env", "0"], "levels_per_env is at least 1"),
        ([], "Which method?"),
        (["plr", "--num-minibatches", "3"], "num_minibatches = 3 does not divide"),
        (["plr", "--suite", "f1"], "There is no suite of maze 'f1'"),
        (["plr", "--seeds", "0"], "seeds must be at least 1"),
        (["plr", "--preset", "huge"], "There is no preset 'huge'"),
        (["plr", "--domain", "chess"], "The domain 'chess' does not come with tutelage"),
        (["plr", "--domain", "nowhere:Setup"], "nowhere:Setup cannot be imported"),
        (["plr", "--config", "nowhere.json"], "nowhere.json cannot be read"),
        (["--config", "any.json", "--preset", "paper"], "leave --preset and --domain out"),
        (["plr", "--total-updates", "0"], "total_updates must be at least 1"),
        (["plr-perb"], "Did you mean plr-perp?"),
        (["plr", "--colour", "3"], "--colour"),
        (["plr", "--learning-rate", "fast"], "fast"),
    ],
)
def test_a_mistake_gets_a_sentence_and_writes_nothing(arguments, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    preset = [] if {"--preset", "--config"} & {*arguments} else ["--preset", "tiny"]
    assert sentence in refused(["train", *arguments, *preset], capsys)
    assert not list(tmp_path.iterdir())


def test_a_configuration_with_an_unknown_field_is_refused(tmp_path, capsys):
    content = {"config": MazeSetup.preset("tiny", "dr").to_json() | {"colour": "red"}}
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert "There is no option colour" in refused(["train", "--config", str(tmp_path / "config.json")], capsys)


def test_there_is_nothing_to_resume_where_there_is_no_run(tmp_path, capsys):
    assert "is not a run: it has no config.json" in refused(["resume", str(tmp_path)], capsys)


def test_a_tracker_that_is_not_installed_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    said = refused(
        ["train", "dr", "--preset", "tiny", *SHORT, "--track", "wandb", "--out", str(tmp_path / "r")], capsys
    )
    assert "Tracking with wandb needs its package: pip install wandb" in said
    assert not (tmp_path / "r").exists()


@pytest.mark.slow
def test_a_request_to_terminate_ends_cleanly_and_with_the_exit_code_that_shells_expect(tmp_path):
    run = tmp_path / "run"
    command = ["train", "dr", "--preset", "tiny", "--total-steps", "100000000", "--suite", "", "--out", str(run)]
    program = f"from tutelage.cli import main; main({command!r})"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while not (run / "checkpoints").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, errors.decode()
    assert f"Continue with: tutelage resume {run}" in said.decode()


def test_a_configuration_file_keeps_its_method(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"config": MazeSetup.preset("tiny", "plr").to_json()}))
    said = refused(["train", "dr", "--config", str(tmp_path / "config.json")], capsys)
    assert "dr is not the method of this configuration, plr" in said


def test_outputs_do_not_overwrite_a_run(tmp_path, capsys):
    for name in ("config.json", "metrics.csv", "policy.safetensors"):
        (tmp_path / name).write_text("long work")
        said = refused(["levels", "--out", str(tmp_path / name)], capsys)
        assert f"{name} belongs to the run in" in said
        assert (tmp_path / name).read_text() == "long work"
