"""A run on disk: what it was told, what it wrote down, and the policy it learned.

    RUN/
      config.json             the full configuration, and the versions of what it ran with
      metrics.csv             a row for each iteration
      timing.csv              how long each took: apart, because it is never the same twice
      evaluations.csv         a row for each test level and evaluation
      levels/00000120.json    what the curriculum looked like after iteration 120
      checkpoints/, archive/  all that is needed to go on
      policy.safetensors      the student's parameters
      report.html             what `tutelage report` makes of it
      eval-*.csv, *.gif       what `tutelage eval` and `tutelage play` found
      tensorboard/            what `--track tensorboard` was sent

run = Run.load("runs/maze-plr-perp")
policy, carry = run.policy, run.policy.initial_carry()
action, carry = policy.act(obs, carry, key)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tutelage.files import read_csv, write_atomically
from tutelage.learning.network import Network, Params
from tutelage.learning.policy import Policy, fresh_params
from tutelage.training import presets  # noqa: F401, it makes the domains' setups known
from tutelage.training.checkpoints import load_policy
from tutelage.training.config import Config
from tutelage.types import Domain, InputError, Json

CONFIG, METRICS, TIMING, EVALUATIONS = "config.json", "metrics.csv", "timing.csv", "evaluations.csv"
LEVELS, CHECKPOINTS, ARCHIVE, POLICY, REPORT = "levels", "checkpoints", "archive", "policy.safetensors", "report.html"

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")

PROGRESS = ("iteration", "steps", "updates")
"""The first columns of every log: iterations, the protagonist's environment steps and its gradient updates so far."""

EVALUATION_COLUMNS = (*PROGRESS, "suite", "level", "episodes", "greedy", "solved", "return", "length")


@dataclass(frozen=True)
class Run:
    """A run directory."""

    directory: Path
    config: Config[Any]

    @classmethod
    def load(cls, directory: str | Path, allow: Iterable[str] = ()) -> Run:
        """Open a run. One that names code of your own needs its modules in `allow`: no file decides what code runs."""
        directory = Path(directory)
        try:
            content = json.loads((directory / CONFIG).read_text())
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise InputError(f"{directory} is no run: it has no {CONFIG}.") from None
        except ValueError as error:
            raise InputError(f"{directory / CONFIG} is not JSON: {error}.") from None
        return cls(directory, read_config(content, allow))

    @property
    def title(self) -> str:
        """What to call it in a table."""
        return f"{self.config.method.name}, seed {self.config.seed}"

    @cached_property
    def domain(self) -> Domain:
        """What was practised."""
        return self.config.setup.domain()

    @cached_property
    def network(self) -> Network:
        """The student's."""
        return self.config.setup.student(self.domain)

    @cached_property
    def params(self) -> Params:
        """What the student learned."""
        return load_policy(self.directory / POLICY, student_shapes(self.domain, self.network))

    @cached_property
    def policy(self) -> Policy:
        """The student, ready to act."""
        return Policy(self.network, self.params)

    def metrics(self) -> dict[str, np.ndarray]:
        """Columns of numbers, NaN where something was not measured in an iteration."""
        rows = read_csv(self.directory / METRICS)
        names = rows[0] if rows else ()
        return {name: np.array([float(row[name] or "nan") for row in rows]) for name in names}

    def evaluations(self) -> list[dict[str, Any]]:
        """Rows of the tidy table; `solved` is None where nothing counts as solved."""
        path = self.directory / EVALUATIONS
        try:
            return [_evaluation(row) for row in read_csv(path)]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged: {error!r}. Remove the rows that are not whole.") from None

    def snapshots(self) -> list[dict[str, Json]]:
        """What the curriculum looked like, in order of time."""
        found = []
        for path in sorted((self.directory / LEVELS).glob("*.json")):
            try:
                found.append(json.loads(path.read_text()))
            except ValueError as error:
                raise InputError(f"{path} is not JSON: {error}. Remove it.") from None
        return found


def find_runs(paths: Iterable[str | Path], allow: Iterable[str] = ()) -> list[Run]:
    """Open the runs that lie at `paths`, and those inside of directories that are none themselves."""
    return [Run.load(directory, allow) for path in paths for directory in _run_directories(Path(path))]


def _run_directories(path: Path) -> list[Path]:
    """The directory itself if it is a run, or else all runs in it."""
    if (path / CONFIG).exists() or not path.is_dir():
        return [path]
    inside = sorted(file.parent for file in path.rglob(CONFIG))
    if not inside:
        raise InputError(
            f"{path} is no run and holds none: give a directory with a {CONFIG}, or one of such directories."
        )
    return inside


def write_config(directory: Path, config: Config[Any]) -> None:
    """Write down what a run is told, and what it runs with; never anything else of the process."""
    content = {
        "tutelage": metadata.version("tutelage"),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "config": config.to_json(),
    }
    write_atomically(directory / CONFIG, json.dumps(content, indent=2) + "\n")


def read_config(content: Json, allow: Iterable[str] = ()) -> Config[Any]:
    """A configuration as a run's `config.json` holds it."""
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise InputError('A saved configuration is a file with the entry "config", such as a run\'s config.json.')
    return Config.from_json(content["config"], allow)


def student_shapes(domain: Domain, network: Network) -> Params:
    """The shapes of a student's parameters."""
    return jax.eval_shape(partial(fresh_params, domain, network), jax.random.key(0))


def _evaluation(row: dict[str, str]) -> dict[str, Any]:
    return {
        "iteration": int(row["iteration"]),
        "steps": int(row["steps"]),
        "updates": int(row["updates"]),
        "suite": row["suite"],
        "level": row["level"],
        "episodes": int(row["episodes"]),
        "greedy": row["greedy"] == "True",
        "solved": float(row["solved"]) if row["solved"] else None,
        "return": float(row["return"]),
        "length": float(row["length"]),
    }
