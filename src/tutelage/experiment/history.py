"""How runs of several methods fared on test levels over time, as arrays that can be compared.

    R     runs of one method, which differ in their seed only
    E     evaluations of one run
    L     test levels
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tutelage.curriculum.methods import METHODS
from tutelage.experiment.run import Run
from tutelage.experiment.statistics import Scores
from tutelage.types import InputError, Json

Metric = Literal["solved", "return"]

Clock = Literal["steps", "updates"]
"""What passes: environment steps or gradient updates of the protagonist. PLR⊥ makes fewer updates in as many steps."""


@dataclass(frozen=True)
class History:
    """One run's evaluations, in order of time."""

    run: Run
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
        raise InputError("There is nothing to compare: give at least one run.")
    groups: dict[str, list[Run]] = {}
    order = [*METHODS]
    rank = {method: order.index(method) if method in order else len(order) for method in (r.config.method for r in runs)}
    for run in sorted(runs, key=lambda run: rank[run.config.method]):
        label = ", ".join([run.config.method, *_distinctions(run, runs)])
        for other in groups.setdefault(label, []):
            if other.config.seed == run.config.seed:
                raise InputError(
                    f"{other.directory} and {run.directory} are the same run, {run.title}: two runs of one seed are no "
                    "two samples, so leave one out."
                )
        groups[label].append(run)
    return groups


def read_study(runs: Sequence[Run], suite: str | None = None, metric: Metric | None = None) -> Study:
    """Read the evaluations of runs.

    Args:
        runs: of one domain, tested on the same levels.
        suite: which benchmark; may be left out if there is only one.
        metric: the rate of solved episodes where episodes can be solved, else the return, if not said otherwise.
    """
    groups = by_method(runs)
    domain = _only({_domain(run): run for run in runs}, "practised {}", "compare runs of one domain")
    rows = {run.directory: run.evaluations() for run in runs}
    suite = suite or _one_suite(runs, {row["suite"] for each in rows.values() for row in each})
    for run in runs:
        has = sorted({row["suite"] for row in rows[run.directory]})
        if suite not in has:
            raise InputError(
                f"{run.directory} was not evaluated on the suite {suite!r}, only on: {', '.join(has) or 'nothing at all'}. "
                "Leave the run out, or choose another suite."
            )
        rows[run.directory] = [row for row in rows[run.directory] if row["suite"] == suite]
    levels = {tuple(dict.fromkeys(row["level"] for row in rows[run.directory])): run for run in runs}
    unordered = {tuple(sorted(names)): run for names, run in levels.items()}
    _only({", ".join(names): run for names, run in unordered.items()}, "was tested on {}", "compare runs of equal tests")
    manners = {row["greedy"]: run for run in runs for row in rows[run.directory]}
    named = {"the likeliest actions" if greedy else "drawn actions": run for greedy, run in manners.items()}
    _only(named, "was tested with {}", "compare runs tested in one manner")
    solvable = all(row["solved"] is not None for each in rows.values() for row in each)
    if metric == "solved" and not solvable:
        raise InputError(f"Nothing counts as solved in {domain}: compare the return instead.")
    metric = metric or ("solved" if solvable else "return")
    names = next(iter(levels))
    histories = {
        label: tuple(_history(run, rows[run.directory], names, metric) for run in group)
        for label, group in groups.items()
    }
    return Study(domain, suite, metric, names, histories)


def _history(run: Run, rows: Sequence[Mapping[str, Any]], levels: Sequence[str], metric: Metric) -> History:
    evaluations: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        evaluations.setdefault(row["iteration"], {})[row["level"]] = row
    complete = [evaluations[i] for i in sorted(evaluations) if len(evaluations[i]) == len(levels)]
    if not complete:
        raise InputError(f"{run.directory} has no evaluation on all of its levels, {', '.join(levels)}: leave it out.")
    firsts = [evaluation[levels[0]] for evaluation in complete]
    return History(
        run,
        np.array([row["steps"] for row in firsts], np.int64),
        np.array([row["updates"] for row in firsts], np.int64),
        np.array([[evaluation[level][metric] for level in levels] for evaluation in complete], np.float64),
    )


def _distinctions(run: Run, runs: Sequence[Run]) -> list[str]:
    """In what settings other runs of the same method differ from this one."""
    mine = _settings(run)
    peers = [_settings(other) for other in runs if other.config.method == run.config.method]
    names = sorted({*mine}.union(*peers))
    differing = [name for name in names if len({json.dumps(peer.get(name), sort_keys=True) for peer in peers}) > 1]
    shortened = [name.rpartition(".")[2] for name in differing]
    return [
        f"{short if shortened.count(short) == 1 else name}={mine.get(name)}"
        for name, short in zip(differing, shortened, strict=True)
    ]


def _settings(run: Run) -> dict[str, Json]:
    """All that decides what is learned, but for chance: the seed, and how many devices share and round the sums."""
    return {name: value for name, value in run.config.learning().items() if name not in ("seed", "devices")}


def _domain(run: Run) -> str:
    return str(run.config.to_json()["domain"])


def _one_suite(runs: Sequence[Run], suites: set[str]) -> str:
    if not suites:
        raise InputError(
            f"None of the {len(runs)} runs was evaluated, {runs[0].directory} among them: train with a suite to "
            "evaluate on, or wait for the first evaluation."
        )
    if len(suites) > 1:
        raise InputError(f"There are evaluations on several suites: choose one of {', '.join(sorted(suites))}.")
    return next(iter(suites))


def _only(having: Mapping[str, Run], was: str, advice: str) -> str:
    """The one thing that all runs have in common, or a sentence about two that have not."""
    (one, first), *others = having.items()
    if others:
        other, second = others[0]
        raise InputError(f"{first.directory} {was.format(one)}, {second.directory} {was.format(other)}: {advice}.")
    return one
