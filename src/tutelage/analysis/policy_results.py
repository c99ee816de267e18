"""Results of policies on test levels: rows of one table, from episodes or from the file that `tutelage eval` writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.analysis.statistics import wilson
from tutelage.analysis.tables import Table, interval, plus_minus
from tutelage.evaluation.evaluate import LevelResult
from tutelage.files import read_csv
from tutelage.types import InputError

WORST = (0.1, 0.01, 0.001)
"""The shares of episodes over which the worst regret is averaged."""

BASELINES = ("untrained", "random", "optimal")
"""Policies that no run has trained."""


@dataclass(frozen=True)
class PolicyResult:
    """A policy on one test level. The fields are the columns of the file; `value` is the column `return`."""

    policy: str
    """A run's directory, or a baseline."""
    steps: int | None
    """The environment steps of its training; None for a baseline."""
    suite: str
    level: str
    episodes: int
    greedy: bool | None
    """None where no policy played."""
    solved: float | None
    """The share of solved episodes; None if the domain has no `solved_above`."""
    solved_low: float | None
    solved_high: float | None
    """Wilson's 95 % interval."""
    value: float
    """The mean undiscounted return."""
    return_error: float
    """Its standard error; NaN for a single episode."""
    length: float | None
    """The mean steps of an episode; None where no policy played."""
    regret: float | None
    """The mean of optimal − actual return; None if the domain has no oracle."""
    regret_worst_10: float | None
    regret_worst_1: float | None
    regret_worst_01: float | None
    """The same over the worst 10 %, 1 % and 0.1 % of episodes (CVaR); None where that is less than one episode."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Means of the domain's measures, further columns of the file."""

    @classmethod
    def of(
        cls, result: LevelResult, policy: str, suite: str, greedy: bool | None, steps: int | None = None
    ) -> PolicyResult:
        """Summarize the episodes of an evaluation on one level."""
        about = policy, steps, suite, result.level, result.episodes, greedy
        low, high = (None, None) if result.solved is None else wilson(result.solved, result.episodes)[1:]
        means = result.mean_return, result.return_error, result.mean_length
        mean, ten, one, tenth = map(result.regret, (1.0, *WORST))
        measures = {name: float(np.mean(x)) for name, x in result.measures.items()}
        return cls(*about, result.solved, low, high, *means, mean, ten, one, tenth, measures)

    @property
    def is_baseline(self) -> bool:
        """Whether no run has trained it; a run's directory may have the same name."""
        return self.policy in BASELINES and self.steps is None

    def row(self) -> dict[str, Any]:
        """The values by column of the file."""
        return {column: getattr(self, name) for name, column in COLUMNS.items()} | dict(self.measures)


COLUMNS = {x.name: "return" if x.name == "value" else x.name for x in fields(PolicyResult) if x.name != "measures"}
"""The columns of the file, by field; those of measures follow."""


def episodes_file(path: Path) -> Path:
    """The file of all episodes that belongs to a table of `tutelage eval`: episodes-f1.csv to eval-f1.csv."""
    return path.with_name(f"episodes-{path.name.removeprefix('eval-')}")


def parse_policy_results(rows: Iterable[Mapping[str, str]]) -> list[PolicyResult]:
    """The rows of a file that `tutelage eval` wrote."""
    flag = {"True": True, "False": False}.__getitem__
    kinds: dict[str, Callable[[str], Any]] = {"policy": str, "suite": str, "level": str}
    kinds |= {"steps": int, "episodes": int, "greedy": flag}

    def parsed(row: Mapping[str, str]) -> PolicyResult:
        values: dict[str, Any] = {
            name: kinds.get(name, float)(row[column]) if row[column] else None for name, column in COLUMNS.items()
        }
        if values["episodes"] is None or values["value"] is None:
            raise ValueError("the episodes or the return are missing")
        measures = {name: float(x) for name, x in row.items() if x and name not in COLUMNS.values()}
        return PolicyResult(**values | {"return_error": float(row["return_error"] or "nan")}, measures=measures)

    return [*map(parsed, rows)]


def read_policy_results(path: Path) -> list[PolicyResult]:
    """All of a file that `tutelage eval` wrote."""
    try:
        if results := parse_policy_results(read_csv(path)):
            return results
        raise ValueError("it has no rows")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is damaged, or another version wrote it: {error!r}. Remove it, or run tutelage eval again."
        ) from None


def policy_tables(named: Sequence[tuple[str, Sequence[PolicyResult]]]) -> list[Table]:
    """One table for a single policy, a row for each level; or a table for each metric, a column for each policy.

    The policies come with their names, and all with the same levels.
    """
    columns = [column for _, column in named]
    levels = [result.level for result in columns[0]]
    side = [*levels, f"mean of {len(levels)}"]
    digits = 3 if max(abs(result.value) for column in columns for result in column) < 10 else 1
    metrics = {"return": ("Return ± standard error", [_returns(column, digits) for column in columns])}
    if columns[0][0].solved is not None:
        cells = [[*map(_rate, column), _mean_rate(column)] for column in columns]
        metrics = {"solved": ("Solved episodes, with Wilson's 95 % interval", cells)} | metrics
    if any(result.regret is not None for column in columns for result in column):
        caption = "True regret, optimal − actual return: the mean, and the means of the worst 10 %, 1 % and 0.1 %"
        metrics["regret"] = caption, [[*map(_regrets, column), _mean_regret(column)] for column in columns]
    if len(named) == 1:
        cells = [column for _, (column,) in metrics.values()]
        captions = ". ".join(caption for caption, _ in metrics.values())
        return [Table([named[0][0], *metrics], [*zip(side, *cells, strict=True)], captions)]
    heads = [name for name, _ in named]
    tables = metrics.items()
    return [Table([metric, *heads], [*zip(side, *cells, strict=True)], about) for metric, (about, cells) in tables]


def _rate(result: PolicyResult) -> str:
    if result.solved is None or result.solved_low is None or result.solved_high is None:
        return "–"
    return interval(result.solved, result.solved_low, result.solved_high, 2)


def _regrets(result: PolicyResult) -> str:
    """The mean and the worst shares, as far as there are enough episodes for them."""
    known = result.regret, result.regret_worst_10, result.regret_worst_1, result.regret_worst_01
    return " / ".join(f"{x:.3f}" for x in known if x is not None) or "–"


def _mean_regret(results: Sequence[PolicyResult]) -> str:
    known = [result.regret for result in results if result.regret is not None]
    return f"{np.mean(known):.3f}" if known else "–"


def _mean_rate(results: Sequence[PolicyResult]) -> str:
    """With Wilson's interval for the episodes on all levels, which is a little too wide since levels differ."""
    rate = sum(result.solved or 0.0 for result in results) / len(results)
    return interval(*wilson(rate, sum(result.episodes for result in results)), 2)


def _returns(results: Sequence[PolicyResult], digits: int) -> list[str]:
    """On each level, and their mean; levels are independent, so their variances add up."""
    error = math.sqrt(sum(result.return_error**2 for result in results)) / len(results)
    center = sum(result.value for result in results) / len(results)
    returns = [(result.value, result.return_error) for result in results]
    return [plus_minus(*each, digits) for each in (*returns, (center, error))]
