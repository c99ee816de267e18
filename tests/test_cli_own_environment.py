"""An environment of one's own on the command line: its devices, its levels, its report."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tutelage.cli import main, options
from tutelage.types import InputError

MODULE = """
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp

from tutelage.training.presets.maze import MazeSetup

MOVES = jnp.array([[0, 1], [1, 0]])  # makes JAX ask for its devices
print("devices", jax.device_count())


@dataclass(frozen=True)
class OwnSetup(MazeSetup):
    name: ClassVar[str] = "own"

    def domain(self):
        maze = super().domain()
        few = [level for level in maze.suites["maze"] if level.name in ("SimpleCrossing", "Labyrinth")]
        return replace(maze, name="own", suites={"tests": tuple(few)})

    @classmethod
    def preset(cls, name, method):
        config = super().preset(name, method)
        return replace(config, setup=cls(**vars(config.setup)))
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "own_maze.py").write_text(MODULE)
    return tmp_path


def test_devices_are_made_before_the_users_module_is_imported(monkeypatch):
    calls = []

    def load(*_):
        calls.append("modules")
        raise InputError("enough")

    monkeypatch.setattr(options, "use_cores", lambda: calls.append("devices"))
    monkeypatch.setattr("tutelage.training.run.Run.load", load)
    for verb in ("eval", "play", "report", "compare"):
        with pytest.raises(SystemExit):
            main([verb, "run", "--allow", "mine"])
    assert calls == ["devices", "modules"] * 4


@pytest.mark.slow
def test_its_levels_are_listed_and_drawn(module):
    environment = {name: x for name, x in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-m", "tutelage", "levels", "--domain", "own_maze:OwnSetup"]
    asked = subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True, timeout=300)
    assert asked.returncode == 0, asked.stderr
    devices, head, *lines, _, last = asked.stdout.splitlines()
    assert devices == f"devices {len(os.sched_getaffinity(0))}"
    assert head.split() == ["level", "suites", "blocks", "shortest", "path", "solvable", "time", "limit"]
    assert {line.split()[0]: line.split()[1] for line in lines} == {"Labyrinth": "tests", "SimpleCrossing": "tests"}
    assert last == "A picture of each is in own.png."
    assert (module / "own.png").exists()
