"""A run on disk, and how to read it: its configuration, its logs, and the policy it learned.

    RUN/
      config.json             the full configuration, and the versions of what it ran with
      metrics.csv             a row for each iteration
      timing.csv              how long each took: separate, because it differs between equal runs
      evaluations.csv         a row for each test level and evaluation
      episodes.csv            a row for each of their episodes
      levels/00000120.json    a snapshot of the curriculum after iteration 120
      checkpoints/, archive/  everything that resume needs
      policy.safetensors      the student's parameters, and what the logs held when they were saved
      report.html             written by `tutelage report`
      eval-*.csv, *.gif       written by `tutelage eval` and `tutelage play`; episodes-*.csv: each episode of eval
      tensorboard/            written with `--track tensorboard`

run = Run.load("runs/maze-plr-perp")
policy, carry = run.policy, run.policy.initial_carry()
action, carry = policy.act(obs, carry, key)
"""

from __future__ import annotations

import csv
import json
import math
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from tutelage.files import (
    DamagedError,
    Mark,
    Tally,
    csv_text,
    marked,
    numbered,
    parse_csv,
    read,
    read_json,
    write_atomically,
)
from tutelage.learning.network import Network, Params
from tutelage.learning.policy import Policy, fresh_params
from tutelage.training import (
    checkpoints,
    presets,  # noqa: F401, registers the domains' setups
)
from tutelage.training.config import Config, checked_name
from tutelage.types import Domain, InputError, Json

CONFIG, METRICS, TIMING = "config.json", "metrics.csv", "timing.csv"
EVALUATIONS, EPISODES = "evaluations.csv", "episodes.csv"
LEVELS, CHECKPOINTS, ARCHIVE, POLICY, REPORT = "levels", "checkpoints", "archive", "policy.safetensors", "report.html"

PUBLISHED = ".tutelage-published"
"""The directory of a new run while it replaces an old one (see `run_writer`)."""

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The trained agents that come with the package: a directory for each, with its configuration and its policy."""

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy")


class Progress(NamedTuple):
    """How far a run has come."""

    iteration: int = 0
    steps: int = 0
    """Environment steps of the protagonist."""
    updates: int = 0
    """Its gradient updates."""

    def finished(self, config: Config[Any]) -> bool:
        """Whether the run has reached its planned length."""
        return self.steps >= config.total_steps or self.updates >= (config.total_updates or math.inf)

    def share(self, config: Config[Any]) -> float:
        """How much of its planned length the run has done, from 0 to 1."""
        return min(1.0, max(self.steps / config.total_steps, self.updates / (config.total_updates or math.inf)))

    def beyond(self, config: Config[Any]) -> bool:
        """Whether the run has come further than that."""
        return self.steps > config.total_steps or self.updates > (config.total_updates or math.inf)


PROGRESS = Progress._fields
"""The first columns of metrics and evaluations."""

CRC = "crc32"
"""The checksum in each row of the timing, for which checkpoints store no digest."""

_KINDS: Mapping[str, Mapping[str, Callable[[str], Any]]] = {
    METRICS: dict.fromkeys(PROGRESS, int),
    TIMING: {"iteration": int, "seconds": float, "steps_per_second": float},
    EVALUATIONS: {
        **dict.fromkeys(PROGRESS, int),
        **{"suite": str, "level": str, "episodes": int, "greedy": "True".__eq__},
        **{"solved": lambda cell: float(cell) if cell else None, "return": float, "length": float},
    },
    EPISODES: {"iteration": int, "suite": str, "level": str, "episode": int, "return": float, "length": int},
}
"""How to parse the columns of each log. All other columns (metrics, measures) are floats, NaN if empty."""

EVALUATION_COLUMNS, EPISODE_COLUMNS = tuple(_KINDS[EVALUATIONS]), tuple(_KINDS[EPISODES])

SNAPSHOT_ENTRY = {"id", "parent", "generation", "score", "return", "about", "level"}
"""Keys that every entry of a snapshot has."""

Row = dict[str, Any]


class Saved(NamedTuple):
    """What a checkpoint or a policy records of its run."""

    progress: Progress
    logs: Mapping[str, Mark]
    """The marks of each log, and of the directory of snapshots."""

    @classmethod
    def parse(cls, path: Path, about: Mapping[str, Json]) -> Saved:
        """From the description in the file at `path`, or a `DamagedError`."""
        try:
            progress = Progress(*about["progress"])
            # runs of older versions have no log of episodes
            logs = {EPISODES: Mark(0, None)} | {name: Mark(*mark) for name, mark in about["logs"].items()}
            counts = (*progress, *(mark.size for mark in logs.values()))
            if not all(isinstance(x, int) and x >= 0 for x in counts) or not logs.keys() >= {*_KINDS, LEVELS}:
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DamagedError(f"{path} does not say how far its run had come.") from None
        return cls(progress, logs)


@dataclass(frozen=True)
class Run:
    """A run directory. Whenever logs are read, they are compared with the marks in the checkpoint."""

    directory: Path
    config: Config[Any]

    @classmethod
    def load(cls, directory: str | Path, allow: Iterable[str] = ()) -> Run:
        """Open a run. Modules of your own that its configuration names are imported only if they are in `allow`."""
        directory = Path(directory)
        try:
            content = read_json(config_file(directory))
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{directory} is not a run: it has no {CONFIG}.") from None
        return cls(directory, read_config(content, allow))

    @classmethod
    def pretrained(cls, name: str) -> Run:
        """An agent that comes with the package, such as "maze". It has a policy, but no logs."""
        known = sorted(path.parent.name for path in PRETRAINED.glob(f"*/{CONFIG}"))
        return cls.load(PRETRAINED / checked_name("pretrained agent", name, known))

    @property
    def title(self) -> str:
        """Its name in tables."""
        return f"{self.config.method.name}, seed {self.config.seed}"

    @cached_property
    def domain(self) -> Domain:
        """The domain of the run."""
        return self.config.setup.domain()

    @cached_property
    def network(self) -> Network:
        """The student's."""
        return self.config.setup.student(self.domain)

    @cached_property
    def params(self) -> Params:
        """The protagonist's parameters."""
        path = self.directory / POLICY
        if not path.exists():
            raise InputError(f"{path} is not there yet: a run has a policy from its first checkpoint on.")
        shapes = jax.eval_shape(partial(fresh_params, self.domain, self.network), jax.random.key(0))
        arrays = checkpoints.read(path).arrays  # in half precision in an agent that comes with the package
        full = {name: x.astype(np.float32) if x.dtype == np.float16 else x for name, x in arrays.items()}
        return checkpoints.fit(full, shapes, path)

    @cached_property
    def policy(self) -> Policy:
        """The protagonist as a policy."""
        return Policy(self.network, self.params)

    def metrics(self) -> dict[str, np.ndarray]:
        """Columns of numbers, NaN where something was not measured in an iteration."""
        rows = self._rows(METRICS)
        return {name: np.array([row[name] for row in rows], float) for name in (rows[0] if rows else ())}

    def timing(self) -> list[Row]:
        """How long each iteration took."""
        return self._rows(TIMING)

    def evaluations(self) -> list[Row]:
        """Rows of the tidy table; `solved` is None where nothing counts as solved."""
        return self._rows(EVALUATIONS)

    def episodes(self) -> list[Row]:
        """A row for each episode of the evaluations; runs of older versions have none."""
        return self._rows(EPISODES)

    def snapshots(self) -> list[dict[str, Json]]:
        """Snapshots of the curriculum, in order of time."""
        with self.advising():
            return read_snapshots(self.directory / LEVELS, self.saved())

    def command(self, verb: str, *arguments: str) -> str:
        """A `tutelage` command for this run, with the --allow options that it needs."""
        return shlex.join(["tutelage", verb, *arguments, *self.config.allowing()])

    @contextmanager
    def advising(self) -> Iterator[None]:
        """Add advice to errors about damaged logs."""
        try:
            yield
        except DamagedError as error:
            command = self.command("resume", str(self.directory), "--repair-logs")
            raise InputError(f"{error} Put back what was there, or continue without it: {command}") from None

    def _rows(self, name: str) -> list[Row]:
        with self.advising():
            path, saved = self.directory / name, self.saved()  # the marks first: a log may grow meanwhile
            data = read(path, b"")
            if saved:
                marked(path, data, saved.logs[name])
            return parse_log(path, data)

    def saved(self) -> Saved | None:
        """What the policy, or else the newest checkpoint, records of the logs; None if there is neither."""
        policy = self.directory / POLICY
        found = [policy] if policy.exists() else checkpoints.saved(self.directory / CHECKPOINTS)
        about = checkpoints.read(found[0]).about if found else {}
        return Saved.parse(found[0], about) if "logs" in about else None


def find_runs(paths: Iterable[str | Path], allow: Iterable[str] = ()) -> list[Run]:
    """Open the runs at `paths`, and those inside directories that are not runs themselves."""
    found: list[Path] = []
    for path in map(Path, paths):
        if (path / CONFIG).exists() or not path.is_dir():
            found.append(path)
        elif inside := sorted(file.parent for file in path.rglob(CONFIG) if not file.parent.name.startswith(".")):
            found += inside
        else:
            raise InputError(f"{path} is not a run and contains none: give a directory with a {CONFIG}, or of runs.")
    return [Run.load(directory, allow) for directory in found]


def config_file(directory: Path) -> Path:
    """Where the configuration of a run is, also while the run replaces an old one."""
    published = directory / PUBLISHED / CONFIG
    return published if published.exists() else directory / CONFIG


def write_config(directory: Path, config: Config[Any]) -> None:
    """Write the configuration and the versions of packages, and nothing else."""
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
    if not isinstance(content.get("packages", {}), dict):
        raise InputError('The entry "packages" of a saved configuration is not a version for each name: remove it.')
    return Config.from_json(content["config"], allow)


def log_columns(metrics: Iterable[str], measures: Iterable[str]) -> dict[str, list[str]]:
    """The columns of each log of a run with these metrics, on a domain with these measures."""
    more = {METRICS: metrics, TIMING: [CRC], EPISODES: measures}
    return {log: [*kinds, *more.get(log, ())] for log, kinds in _KINDS.items()}


def parse_log(path: Path, data: bytes) -> list[Row]:
    """The rows of a log that holds `data`, as numbers and words, or a `DamagedError`."""
    rows = []
    for line, row in enumerate(parse_csv(path, data), start=2):
        try:
            rows.append(_parsed(path.name, row))
        except (KeyError, ValueError) as error:
            raise DamagedError(f"{path} is damaged in line {line}: {error!r}.") from None
    return rows


def parse_rows(name: str, rows: Iterable[Mapping[str, str]]) -> list[Row]:
    """Rows of the log of this name, as numbers and words."""
    return [_parsed(name, row) for row in rows]


def repaired_log(path: Path, columns: Sequence[str], iteration: int) -> bytes:
    """The rows of a damaged log that can still be read, until `iteration`, under the head that it should have."""
    rows, number = list[dict[str, str]](), 0
    for line in (path.read_bytes() if path.is_file() else b"").split(b"\n")[1:-1]:
        try:
            [cells] = csv.reader([line.decode()])
            row = dict(zip(columns, cells, strict=True))
            if number <= _parsed(path.name, row)["iteration"] <= iteration:
                rows.append(row)
                number = int(row["iteration"])
        except (ValueError, csv.Error):
            continue
    return csv_text(rows, columns).encode()


def row_crc(row: Mapping[str, Any]) -> str:
    """The checksum of a row of the timing."""
    return f"{zlib.crc32(','.join(str(row[name]) for name in _KINDS[TIMING]).encode()):08x}"


def _parsed(log: str, row: Mapping[str, str]) -> Row:
    if row.get(CRC) and row[CRC] != row_crc(row):  # runs of older versions have none
        raise ValueError("its checksum does not match")
    kinds = _KINDS[log]
    others = {name: float(cell or "nan") for name, cell in row.items() if name not in kinds and name != CRC}
    return {name: kind(row[name]) for name, kind in kinds.items()} | others


def snapshots_tally(directory: Path, iteration: int) -> Tally:
    """All snapshots until `iteration`, counted and digested."""
    tally = Tally()
    for number, path in sorted(numbered(directory, ".json").items()):
        if number <= iteration:
            tally.add(path.name.encode() + path.read_bytes())
    return tally


def read_snapshots(directory: Path, saved: Saved | None) -> list[dict[str, Json]]:
    """All snapshots in order of time, compared with the marks in the checkpoint, or a `DamagedError`."""
    if saved:
        found, mark = snapshots_tally(directory, saved.progress.iteration).mark(), saved.logs[LEVELS]
        if found.size != mark.size:
            raise DamagedError(f"{directory} has {found.size} of the {mark.size} snapshots that were saved.")
        if found != mark:
            raise DamagedError(f"{directory} does not hold the snapshots that were saved: their digest does not match.")
    return [read_snapshot(path) for _, path in sorted(numbered(directory, ".json").items())]


def read_snapshot(path: Path) -> dict[str, Json]:
    content = read_json(path)
    entries = content.get("entries") if isinstance(content, dict) else None
    if (
        not isinstance(entries, list)
        or not all(isinstance(content.get(name), int) for name in PROGRESS)
        or not all(isinstance(entry, dict) and entry.keys() >= SNAPSHOT_ENTRY for entry in entries)
    ):
        raise DamagedError(f"{path} is not a snapshot of a curriculum.")
    return content
