"""Metrics reach the trackers that are asked for, and no tracker is imported otherwise."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tutelage.training.run import PUBLISHED
from tutelage.training.run_writer import writing
from tutelage.training.trackers import tracker
from tutelage.types import InputError


def test_tensorboard_gets_every_scalar(tmp_path, monkeypatch):
    got, places = [], []

    class Writer:
        def __init__(self, place):
            places.append(place)

        def add_scalar(self, name, value, step):
            got.append((name, value, step))

        def close(self):
            got.append("closed")

    monkeypatch.setitem(sys.modules, "tensorboard", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tensorboard.summary", SimpleNamespace(Writer=Writer))
    tracking = tracker("tensorboard", tmp_path, {})
    tracking.log(256, {"loss": 0.5, "new/solved": 0.25})
    tracking.close()
    assert got == [("loss", 0.5, 256), ("new/solved", 0.25, 256), "closed"]
    assert places == [str(tmp_path / "tensorboard")]


def test_wandb_gets_the_configuration_and_every_scalar(tmp_path, monkeypatch):
    got = []
    session = SimpleNamespace(
        log=lambda scalars, step: got.append((scalars, step)), finish=lambda: got.append("closed")
    )

    def init(**options):
        got.append(options["config"])
        sessions.append((options["id"], options["resume"]))
        return session

    sessions = []
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    tracking = tracker("wandb", tmp_path, {"seed": 3})
    tracking.log(256, {"loss": 0.5})
    tracking.close()
    assert got == [{"seed": 3}, ({"loss": 0.5}, 256), "closed"]
    tracker("wandb", tmp_path, {})
    (tmp_path / PUBLISHED).mkdir()
    (tmp_path / PUBLISHED / "config.json").write_text("of a new run that replaces this one")
    with writing(tmp_path):
        tracker("wandb", tmp_path, {})
    (first, _), resumed, (other, _) = sessions
    assert resumed == (first, "allow"), "a resumed run continues its curves"
    assert other != first


def test_one_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary", None)
    with pytest.raises(InputError, match="needs its package: pip install tensorboard"):
        tracker("tensorboard", tmp_path, {})


def test_none_is_imported_unless_asked_for():
    program = "import sys, tutelage.cli; print({'wandb', 'tensorboard', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
