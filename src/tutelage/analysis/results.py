"""What runs wrote, read once, and brought into arrays that can be compared.

R     runs of one method, which differ in their seed only
E     evaluations of one run
L     test levels
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tutelage.analysis.policies import PolicyScore, read_policy_scores
from tutelage.analysis.statistics import Scores
from tutelage.curriculum.methods import METHODS
from tutelage.training.run import Run
from tutelage.training.serialization import flat
from tutelage.types import InputError, Json

Rows = Sequence[Mapping[str, Any]]
"""As `Run.evaluations` gives them."""

Metric = Literal["solved", "return"]

Clock = Literal["steps", "updates"]
"""Environment steps or gradient updates of the protagonist. PLR⊥ makes fewer updates in as many steps."""

UNITS: Mapping[Clock, str] = {"steps": "environment steps", "updates": "gradient updates"}

Snapshot = Mapping[str, Json]
"""The curriculum's levels at one moment."""

Entry = Mapping[str, Json]
"""One level of a snapshot."""

ID = "name"
"""The key of an entry's number."""

Curve = tuple[np.ndarray[Any, Any], Scores]
"""Times x[N], which never fall, and values y[N]; NaN where nothing was measured."""


NAMES: Mapping[str, str] = {
    "dr": "DR",
    "minimax": "Minimax",
    "paired": "PAIRED",
    "plr": "PLR",
    "plr-perp": "PLR⊥",
    "repaired": "REPAIRED",
    "accel": "ACCEL",
}
"""The paper's names of the methods."""


@dataclass(frozen=True, eq=False)
class RunResults:
    """The files of one run. Each is read when it is first needed, and never again."""

    run: Run

    @property
    def directory(self) -> Path:
        """Where it is."""
        return self.run.directory

    @property
    def seed(self) -> int:
        """What sets it apart from other runs of its method."""
        return self.run.config.seed

    @property
    def method(self) -> str:
        """Its name, as on the command line."""
        return self.run.config.method.name

    @cached_property
    def options(self) -> dict[str, Json]:
        """The configuration by dotted name."""
        return flat(self.run.config.to_json())

    @cached_property
    def settings(self) -> dict[str, Json]:
        """What decides the course of learning, except for the seed and the rounding on several devices."""
        return {name: x for name, x in self.run.config.learning().items() if name not in ("seed", "devices")}

    @cached_property
    def metrics(self) -> dict[str, np.ndarray]:
        """Columns of numbers, NaN where something was not measured in an iteration."""
        return self.run.metrics()

    @cached_property
    def evaluations(self) -> Rows:
        """The evaluations during training, a row for each level."""
        return self.run.evaluations()

    @cached_property
    def seconds(self) -> float:
        """How long all iterations took."""
        return float(sum(row["seconds"] for row in self.run.timing()))

    @cached_property
    def tests(self) -> list[PolicyScore]:
        """The results of `tutelage eval` on this run, with those of its baselines."""
        return [score for path in sorted(self.directory.glob("eval-*.csv")) for score in read_policy_scores(path)]

    @cached_property
    def snapshots(self) -> list[Snapshot]:
        """In order of time, without empty ones."""
        return [checked for snapshot in self.run.snapshots() if (checked := _checked(snapshot, self.directory))]


class Results:
    """The results of several runs, by method."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.groups = by_method(runs)
        """Runs that differ in their seed only, in the order of the paper's methods."""

    @property
    def runs(self) -> list[RunResults]:
        """All of them."""
        return [run for group in self.groups.values() for run in group]

    @property
    def titles(self) -> dict[Path, str]:
        """What to call each run, by its directory."""
        return {
            run.directory: f"{display(label)}, seed {run.seed}" for label, group in self.groups.items() for run in group
        }

    @property
    def suites(self) -> list[str]:
        """The benchmarks that any run was evaluated on."""
        return [*dict.fromkeys(row["suite"] for run in self.runs for row in run.evaluations)]

    def study(self, suite: str | None = None, metric: Metric | None = None, *, partly: bool = False) -> Study:
        """The evaluations during training, as arrays.

        Args:
            suite: which benchmark; may be omitted if there is only one.
            metric: by default the solved rate where episodes can be solved, else the return.
            partly: leave out runs that were not evaluated on this suite, instead of refusing them.
        """
        domain = _only(
            {run.run.config.setup.name: run.directory for run in self.runs}, "trained on {}", "runs of one domain"
        )
        suite = suite or self._only_suite()
        rows = {run.directory: [row for row in run.evaluations if row["suite"] == suite] for run in self.runs}
        if partly:
            rows = {path: each for path, each in rows.items() if each}
        levels = _common_levels(rows, suite)
        actions = {"greedy" if row["greedy"] else "drawn": path for path, each in rows.items() for row in each}
        _only(actions, "was tested with {} actions", "runs tested with the same kind of actions")
        solvable = all(row["solved"] is not None for each in rows.values() for row in each)
        if metric == "solved" and not solvable:
            raise InputError(f"Episodes of {domain} do not count as solved: compare the return instead.")
        metric = metric or ("solved" if solvable else "return")
        histories = {
            label: tuple(_history(run.directory, rows[run.directory], levels, metric) for run in tested)
            for label, group in self.groups.items()
            if (tested := [run for run in group if run.directory in rows])
        }
        return Study(domain, suite, metric, levels, histories)

    def _only_suite(self) -> str:
        if not self.suites:
            raise InputError(
                f"None of the {len(self.runs)} runs was evaluated: train with a suite to evaluate on, or wait for the "
                "first evaluation."
            )
        if len(self.suites) > 1:
            raise InputError(
                f"There are evaluations on several suites: choose one of {', '.join(sorted(self.suites))}."
            )
        return self.suites[0]


@dataclass(frozen=True)
class History:
    """One run's evaluations, in order of time."""

    directory: Path
    steps: np.ndarray[Any, Any]  # i64[E]
    updates: np.ndarray[Any, Any]  # i64[E]
    episodes: np.ndarray[Any, Any]  # i64[E]: on each level
    scores: Scores  # f64[E, L]

    def clock(self, name: Clock) -> np.ndarray[Any, Any]:
        """i64[E]: when each evaluation was made."""
        return self.steps if name == "steps" else self.updates


@dataclass(frozen=True)
class Study:
    """Runs tested in the same manner on the same levels."""

    domain: str
    suite: str
    metric: Metric
    levels: tuple[str, ...]
    histories: Mapping[str, tuple[History, ...]]
    """By method; see `by_method`."""

    @property
    def title(self) -> str:
        """What was measured."""
        return f"{self.domain}, suite {self.suite}: {'solved rate' if self.metric == 'solved' else self.metric}"


def by_method(runs: Sequence[Run]) -> dict[str, list[RunResults]]:
    """Runs that differ in their seed only, by method, and in the order of the paper's methods.

    Where a method was run with several settings, its name is followed by those that differ: "plr, replay_rate=0.8".
    """
    if not runs:
        raise InputError("There are no runs to show or to compare: give at least one.")
    results = [RunResults(run) for run in runs]
    groups: dict[str, list[RunResults]] = {}
    for method in dict.fromkeys([*METHODS, *(run.method for run in results)]):
        peers = [run for run in results if run.method == method]
        for run, distinctions in zip(peers, _distinctions([run.settings for run in peers]), strict=True):
            group = groups.setdefault(", ".join([method, *distinctions]), [])
            for other in group:
                if other.seed == run.seed:
                    raise InputError(
                        f"{other.directory} and {run.directory} are the same run, {run.run.title}: two runs of one "
                        "seed are not two samples, so leave one out."
                    )
            group.append(run)
    return groups


def display(label: str) -> str:
    """The paper's name of a method, with the settings that may follow it."""
    method, comma, settings = label.partition(",")
    return NAMES.get(method, method) + comma + settings


def align(curves: Sequence[Curve], points: int = 120) -> tuple[Scores, Scores]:
    """Common times [n] and each run's values then [R, n], over the span in which all R runs were measured.

    Runs measured at the same few times keep them. Otherwise the span is cut into n ≤ `points` cells: a run's values in
    a cell are averaged, and its value at the cell's middle is read off the line through these averages. n is 0 if the
    runs have no time in common; runs without any value are left out.
    """
    measured = [(x[known], y[known]) for x, y in curves if (known := np.isfinite(y)).any()]
    if not measured:
        return np.empty(0), np.empty((0, 0))
    x, _ = measured[0]
    if len(x) <= points and all(np.array_equal(x, other) for other, _ in measured) and (np.diff(x) > 0).all():
        return x.astype(np.float64), np.stack([y for _, y in measured])
    start, end = max(x[0] for x, _ in measured), min(x[-1] for x, _ in measured)
    if start > end:
        return np.empty(0), np.empty((len(measured), 0))
    cells = max(1, min(points, *(int(((x >= start) & (x <= end)).sum()) for x, _ in measured)))
    edges = np.linspace(start, end, cells + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    return middles, np.stack([np.interp(middles, *_averages(x, y, edges)) for x, y in measured])


def _averages(x: np.ndarray[Any, Any], y: Scores, edges: Scores) -> tuple[Scores, Scores]:
    """The mean time and the mean value of each cell that has any; what lies outside has a cell on either side."""
    cell = np.searchsorted(edges[1:-1], x, side="right") + 1
    cell = np.where(x < edges[0], 0, np.where(x > edges[-1], len(edges), cell))
    _, cell, count = np.unique(cell, return_inverse=True, return_counts=True)
    return np.bincount(cell, x) / count, np.bincount(cell, y) / count


def _history(directory: Path, rows: Rows, levels: Sequence[str], metric: Metric) -> History:
    evaluations: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        evaluations.setdefault(row["iteration"], {})[row["level"]] = row
    complete = [evaluations[i] for i in sorted(evaluations) if len(evaluations[i]) == len(levels)]
    if not complete:
        raise InputError(f"{directory} has no evaluation on all of its levels, {', '.join(levels)}: leave it out.")
    firsts = [evaluation[levels[0]] for evaluation in complete]
    steps, updates, episodes = np.array([[row[x] for x in ("steps", "updates", "episodes")] for row in firsts]).T
    scores = np.array([[evaluation[level][metric] for level in levels] for evaluation in complete], np.float64)
    return History(directory, steps, updates, episodes, scores)


def _distinctions(settings: Sequence[Mapping[str, Json]]) -> list[list[str]]:
    """The settings of each run that are not the same in all."""
    names = sorted(set[str]().union(*settings))
    differing = [name for name in names if len({json.dumps(each.get(name)) for each in settings}) > 1]
    last = [name.rpartition(".")[2] for name in differing]
    short = {name: tail if last.count(tail) == 1 else name for name, tail in zip(differing, last, strict=True)}
    return [[f"{short[name]}={each.get(name)}" for name in differing] for each in settings]


def _common_levels(rows: Mapping[Path, Rows], suite: str) -> tuple[str, ...]:
    for path, each in rows.items():
        if not each:
            raise InputError(
                f"{path} was not evaluated on the suite {suite!r}: leave the run out, or choose another suite."
            )
    levels = {path: tuple(dict.fromkeys(row["level"] for row in each)) for path, each in rows.items()}
    _only(
        {", ".join(sorted(names)): path for path, names in levels.items()}, "was tested on {}", "runs with equal tests"
    )
    return next(iter(levels.values()))


def _only(having: Mapping[str, Path], was: str, these: str) -> str:
    """The one value that all runs have in common, or a sentence about two runs that differ."""
    (one, first), *others = having.items()
    if others:
        other, second = others[0]
        raise InputError(f"{first} {was.format(one)}, {second} {was.format(other)}: compare {these}.")
    return one


def _checked(snapshot: Json, directory: Path) -> Snapshot | None:
    """A snapshot, if it is one; None if it is empty."""
    moment = {"iteration": int, "steps": int, "updates": int, "source": str, "size": int, "capacity": int}
    number, maybe = (int, float), (int, float, type(None))
    entry = {ID: int, "parent": int, "generation": int, "return": number, "score": maybe, "optimal_return": maybe}
    if not _has(snapshot, moment | {"entries": list}):
        found = f"it is {json.dumps(snapshot):.40}"
    elif bad := [each for each in snapshot["entries"] if not (_has(each, entry | {"about": dict}) and "level" in each)]:
        found = f"one of its levels is {json.dumps(bad[0]):.40}"
    else:
        return snapshot if snapshot["entries"] else None
    raise InputError(f"A file in {directory / 'levels'} is no snapshot of a curriculum: {found}. Remove the file.")


def _has(value: Json, types: Mapping[str, Any]) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(name), kind) and not isinstance(value.get(name), bool) for name, kind in types.items()
    )
