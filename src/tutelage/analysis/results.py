"""How runs of several methods fared on test levels over time, as arrays that can be compared.

R     runs of one method, which differ in their seed only
E     evaluations of one run
L     test levels
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tutelage.analysis.statistics import Scores
from tutelage.curriculum.methods import METHODS
from tutelage.training.run import Run
from tutelage.types import InputError, Json

Rows = Sequence[Mapping[str, Any]]
"""As `Run.evaluations` gives them."""

Metric = Literal["solved", "return"]

Clock = Literal["steps", "updates"]
"""What passes: environment steps or gradient updates of the protagonist. PLR⊥ makes fewer updates in as many steps."""

UNITS: Mapping[Clock, str] = {"steps": "environment steps", "updates": "gradient updates"}


@dataclass(frozen=True)
class History:
    """One run's evaluations, in order of time."""

    directory: Path
    """The run's."""
    steps: np.ndarray[Any, Any]  # i64[E]
    updates: np.ndarray[Any, Any]  # i64[E]
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


def by_method(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ in their seed only, by method, and in the order of the paper's methods.

    Where a method was run with several settings, its name is followed by those that differ: "plr, replay_rate=0.8".
    """
    if not runs:
        raise InputError("There is nothing to show or to compare: give at least one run.")
    groups: dict[str, list[Run]] = {}
    names = {run.config.method.name for run in runs}
    for method in [*(name for name in METHODS if name in names), *sorted(names - METHODS.keys())]:
        peers = [run for run in runs if run.config.method.name == method]
        for run, distinctions in zip(peers, _distinctions([_settings(run) for run in peers]), strict=True):
            group = groups.setdefault(", ".join([method, *distinctions]), [])
            for other in group:
                if other.config.seed == run.config.seed:
                    raise InputError(
                        f"{other.directory} and {run.directory} are the same run, {run.title}: two runs of one seed "
                        "are no two samples, so leave one out."
                    )
            group.append(run)
    return groups


def read_study(runs: Sequence[Run], suite: str | None = None, metric: Metric | None = None) -> Study:
    """Read the evaluations of runs.

    Args:
        runs: of one domain, tested on the same levels.
        suite: which benchmark; may be left out if there is only one.
        metric: the rate of solved episodes where episodes can be solved, else the return, if not said otherwise.
    """
    groups = by_method(runs)
    domain = _only({run.config.setup.name: run.directory for run in runs}, "practiced {}", "runs of one domain")
    rows: dict[Path, Rows] = {run.directory: run.evaluations() for run in runs}
    suite = suite or _only_suite(rows)
    rows = {path: [row for row in each if row["suite"] == suite] for path, each in rows.items()}
    levels = _common_levels(rows, suite)
    manners = {"the likeliest" if row["greedy"] else "drawn": path for path, each in rows.items() for row in each}
    _only(manners, "was tested with {} actions", "runs tested in one manner")
    solvable = all(row["solved"] is not None for each in rows.values() for row in each)
    if metric == "solved" and not solvable:
        raise InputError(f"Nothing counts as solved in {domain}: compare the return instead.")
    metric = metric or ("solved" if solvable else "return")
    histories = {
        label: tuple(_history(run.directory, rows[run.directory], levels, metric) for run in group)
        for label, group in groups.items()
    }
    return Study(domain, suite, metric, levels, histories)


def _history(directory: Path, rows: Rows, levels: Sequence[str], metric: Metric) -> History:
    evaluations: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        evaluations.setdefault(row["iteration"], {})[row["level"]] = row
    complete = [evaluations[i] for i in sorted(evaluations) if len(evaluations[i]) == len(levels)]
    if not complete:
        raise InputError(f"{directory} has no evaluation on all of its levels, {', '.join(levels)}: leave it out.")
    firsts = [evaluation[levels[0]] for evaluation in complete]
    return History(
        directory,
        np.array([row["steps"] for row in firsts], np.int64),
        np.array([row["updates"] for row in firsts], np.int64),
        np.array([[evaluation[level][metric] for level in levels] for evaluation in complete], np.float64),
    )


def _distinctions(settings: Sequence[Mapping[str, Json]]) -> list[list[str]]:
    """Of each run's settings those that are not the same in all."""
    names = sorted(set[str]().union(*settings))
    differing = [name for name in names if len({json.dumps(each.get(name)) for each in settings}) > 1]
    last = [name.rpartition(".")[2] for name in differing]
    short = {name: tail if last.count(tail) == 1 else name for name, tail in zip(differing, last, strict=True)}
    return [[f"{short[name]}={each.get(name)}" for name in differing] for each in settings]


def _settings(run: Run) -> dict[str, Json]:
    """All that decides what is learned, but for chance: the seed, and how many devices share and round the sums."""
    return {name: value for name, value in run.config.learning().items() if name not in ("seed", "devices")}


def _only_suite(rows: Mapping[Path, Rows]) -> str:
    suites = {row["suite"] for each in rows.values() for row in each}
    if not suites:
        raise InputError(
            f"None of the {len(rows)} runs was evaluated: train with a suite to evaluate on, or wait for the first "
            "evaluation."
        )
    if len(suites) > 1:
        raise InputError(f"There are evaluations on several suites: choose one of {', '.join(sorted(suites))}.")
    return str(suites.pop())


def _common_levels(rows: Mapping[Path, Rows], suite: str) -> tuple[str, ...]:
    for path, each in rows.items():
        if not each:
            raise InputError(
                f"{path} was not evaluated on the suite {suite!r}: leave the run out, or choose another suite."
            )
    levels = {path: tuple(dict.fromkeys(row["level"] for row in each)) for path, each in rows.items()}
    _only({", ".join(sorted(names)): path for path, names in levels.items()}, "was tested on {}", "runs of equal tests")
    return next(iter(levels.values()))


def _only(having: Mapping[str, Path], was: str, these: str) -> str:
    """The one thing that all runs have in common, or a sentence about two that have not."""
    (one, first), *others = having.items()
    if others:
        other, second = others[0]
        raise InputError(f"{first} {was.format(one)}, {second} {was.format(other)}: compare {these}.")
    return one
