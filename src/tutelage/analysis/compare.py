"""Which method is better: runs compared after equal environment steps or equal gradient updates.

Neither is fair alone: PLR⊥ and REPAIRED learn from replayed levels only, so they make about half as many
updates in as many steps. The paper shows both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from tutelage.analysis.policy_results import PolicyResult
from tutelage.analysis.results import CLOCKS, Clock, EvaluationTable, Results, grouped
from tutelage.analysis.statistics import (
    Interval,
    Summary,
    Values,
    Welch,
    bootstrap,
    hedges_g,
    holm,
    mean,
    probability_of_improvement,
    standard_error,
    summarize,
    welch,
)
from tutelage.analysis.tables import Table, decimal, interval, plus_minus, probability
from tutelage.types import InputError

ALL = "all levels"
"""In place of a level's name: the mean over all levels."""

REGRETS = {1.0: "regret", 0.1: "regret_worst_10", 0.01: "regret_worst_1", 0.001: "regret_worst_01"}
"""Fields of a `PolicyResult`, by the share of the worst episodes that each is the mean of."""


@dataclass(frozen=True)
class Test:
    """One method against another, on a level or on all."""

    __test__ = False  # pytest should not take it for a test

    first: str
    second: str
    level: str
    welch: Welch
    """Of the runs' values; on all levels, of their means over levels."""
    effect: float
    """Hedges' g."""
    corrected_p: float
    """Holm's, for as many tests as there are pairs of methods."""
    improvement: Interval
    """P(first > second), and its interval."""


@dataclass(frozen=True)
class Comparison:
    """Runs of several methods after equal environment steps or gradient updates."""

    evaluations: EvaluationTable
    at: Clock
    times: Mapping[str, int]
    """After how many steps or updates, by method."""
    values: Mapping[str, Values]
    """f64[R, L] by method."""
    summaries: Mapping[str, Mapping[str, Summary]]
    """By method and by level, `ALL` being the last."""
    tests: tuple[Test, ...]
    """Of all pairs of methods, on each level and on `ALL`."""

    @property
    def title(self) -> str:
        return f"{self.evaluations.title} {self.when}"

    @property
    def when(self) -> str:
        """After how much training runs were compared; a range if methods differ in that."""
        first, last = min(self.times.values()), max(self.times.values())
        return f"after {first:,}{f' to {last:,}' if last > first else ''} {CLOCKS[self.at]}"

    def rows(self) -> list[dict[str, Any]]:
        """The summaries: a row for each method and level."""
        return [
            self._place() | {"method": method, "time": self.times[method], "level": level} | summary._asdict()
            for method, summaries in self.summaries.items()
            for level, summary in summaries.items()
        ]

    def test_rows(self) -> list[dict[str, Any]]:
        """The tests: a row for each pair of methods and level."""
        return [
            self._place()
            | {"first": test.first, "second": test.second, "level": test.level}
            | test.welch._asdict()
            | {"effect": test.effect, "corrected_p": test.corrected_p}
            | dict(zip(("improvement", "improvement_low", "improvement_high"), test.improvement, strict=True))
            for test in self.tests
        ]

    def tables(self, name: Callable[[str], str] = str) -> list[Table]:
        """By level, over all levels, and, of several methods, their tests; `name` maps methods to shown names."""
        tables = [self._level_table(name), self._overall_table(name), self._test_table(name)]
        return tables if len(self.values) > 1 else tables[:2]

    def _place(self) -> dict[str, Any]:
        return {
            "domain": self.evaluations.domain,
            "suite": self.evaluations.suite,
            "metric": self.evaluations.metric,
            "at": self.at,
        }

    def _level_table(self, name: Callable[[str], str]) -> Table:
        rates = self.evaluations.metric == "solved"

        def cell(s: Summary) -> str:
            if rates:
                return interval(s.mean, s.wilson_low, s.wilson_high, 2)
            return plus_minus(s.mean, s.standard_error, self.digits)

        measured = "mean [95 % interval]" if rates else "mean ± standard error"
        heads = [f"{name(method)} ({len(values)})" for method, values in self.values.items()]
        columns = [[*map(cell, summaries.values())] for summaries in self.summaries.values()]
        rows = [*zip((*self.evaluations.levels, ALL), *columns, strict=True)]
        return Table([measured, *heads], rows, f"{self.title}; the number of runs in parentheses")

    def _overall_table(self, name: Callable[[str], str]) -> Table:
        digits, rows = self.digits, []
        for method, summaries in self.summaries.items():
            s = summaries[ALL]
            mean_error = f"{decimal(s.mean, digits)} ± {decimal(s.standard_error, digits)}"
            intervals = (s.median, s.lower_quartile, s.upper_quartile), (s.iqm, s.iqm_low, s.iqm_high)
            rows.append([name(method), str(s.runs), mean_error, *(interval(*each, digits) for each in intervals)])
        head = ["", "runs", "mean ± standard error", "median [quartiles]", "IQM [95 % interval]"]
        return Table(head, rows, f"All levels together, {self.when}")

    def _test_table(self, name: Callable[[str], str]) -> Table:
        rows = [
            [
                f"{name(test.first)} − {name(test.second)}",
                decimal(test.welch.difference, self.digits, "+"),
                decimal(test.effect, 2, "+"),
                decimal(test.welch.t, 2),
                decimal(test.welch.degrees, 1),
                probability(test.welch.p),
                probability(test.corrected_p),
                interval(*test.improvement, 2),
            ]
            for test in self.tests
            if test.level == ALL
        ]
        head = ["first − second", "difference", "g", "t", "ν", "p", "p (Holm)", "P(first > second)"]
        return Table(head, rows, f"Welch's test, Hedges' g and the probability of improvement, {self.when}")

    @property
    def digits(self) -> int:
        """Decimals that suit the numbers: two for rates, none for returns in the hundreds."""
        largest = max(float(np.abs(np.nan_to_num(values)).max()) for values in self.values.values())
        return 2 if largest < 10 else 1 if largest < 100 else 0


def compare(
    evaluations: EvaluationTable, at: Clock = "steps", *, ends: bool = False, whole_runs: bool = False, seed: int = 0
) -> Comparison:
    """Compare methods at the last point that all runs have reached; values are interpolated between evaluations.

    Args:
        evaluations: `Results(runs).evaluation_table()`.
        at: compare after equal environment steps or after equal gradient updates.
        ends: compare the last evaluations of all runs, whenever they were.
        whole_runs: how intervals are made; see `statistics.bootstrap`.
        seed: of their resamples.
    """
    values, times, episodes = {}, {}, {}
    for label, group in evaluations.histories.items():
        shortest = min(
            group if ends else chain(*evaluations.histories.values()), key=lambda each: int(each.clock(at)[-1])
        )
        time = times[label] = int(shortest.clock(at)[-1])
        found, played = [], []
        for history in group:
            clock = history.clock(at)
            point = int(clock[-1]) if ends else time
            if (reached := history.at(point, at)) is None:
                raise InputError(
                    f"{history.directory} was first evaluated after {clock[0]:,} {at}, but {shortest.directory} last "
                    f"after {time:,}: train that one for longer, or evaluate both more often."
                )
            found.append(reached)
            played.append(int(history.episodes[np.searchsorted(clock, point, side="right") - 1]))
        values[label] = np.stack(found)
        episodes[label] = min(played) if evaluations.metric == "solved" else None

    def parts(x: Values) -> dict[str, Values]:
        """f64[R, 1] for each level, and f64[R, L] for all."""
        return {level: x[:, [i]] for i, level in enumerate(evaluations.levels)} | {ALL: x}

    # each interval has a generator of its own, so that none depends on what else is compared
    summaries = {
        label: {
            level: summarize(part, np.random.default_rng(seed), episodes=episodes[label], whole_runs=whole_runs)
            for level, part in parts(x).items()
        }
        for label, x in values.items()
    }
    # the later method minus the earlier, so that a positive difference favors the newer one
    pairs = [(first, second) for second, first in combinations(values, 2)]
    tests = []
    for level in (*evaluations.levels, ALL):
        contests = []
        for pair in pairs:
            samples = [parts(values[label])[level] for label in pair]
            x, y = (sample.mean(axis=1) for sample in samples)
            rng = np.random.default_rng(seed)
            improvement = bootstrap(probability_of_improvement, samples, rng, whole_runs=whole_runs)
            contests.append(Test(*pair, level, welch(x, y), hedges_g(x, y), math.nan, improvement))
        corrected = holm(np.array([test.welch.p for test in contests]))
        tests += [replace(test, corrected_p=float(p)) for test, p in zip(contests, corrected, strict=True)]
    return Comparison(evaluations, at, times, values, summaries, tuple(tests))


def _regrets(results: Results, method: str) -> dict[tuple[str, str], list[PolicyResult]]:
    """What `tutelage eval` found of its runs where there is an oracle, by suite and level."""
    known = [result for run in results.groups[method] for result in run.own_tests if result.regret is not None]
    return grouped(known, attrgetter("suite", "level"))


def regret_rows(results: Results) -> list[dict[str, Any]]:
    """True regret from `tutelage eval`: a row for each method, suite, level and share of the worst episodes."""
    rows = []
    for method in results.groups:
        for (suite, level), found in _regrets(results, method).items():
            for share, name in REGRETS.items():
                values = np.array([x for result in found if (x := getattr(result, name)) is not None], np.float64)
                if values.size:
                    about = {"method": method, "suite": suite, "level": level, "worst": share, "runs": len(values)}
                    rows.append(about | {"mean": float(mean(values)), "standard_error": float(standard_error(values))})
    return rows


def regret_tables(rows: Iterable[Mapping[str, Any]], name: Callable[[str], str] = str) -> list[Table]:
    """These rows as tables, one for each suite and level, with a row for each method."""
    tables = []
    for (suite, level), here in grouped(rows, itemgetter("suite", "level")).items():
        lines = []
        for (method, runs), own in grouped(here, itemgetter("method", "runs")).items():
            cells = {row["worst"]: plus_minus(row["mean"], row["standard_error"], 3) for row in own}
            lines.append([f"{name(method)} ({runs})", *(cells.get(share, "–") for share in REGRETS)])
        head = ["regret", *("mean" if share == 1 else f"worst {100 * share:g} %" for share in REGRETS)]
        about = f"True regret (optimal − actual return) on {level}, suite {suite}: mean ± standard error over runs"
        tables.append(Table(head, lines, about))
    return tables


def regret_contests(results: Results, first: str, second: str) -> list[dict[str, Any]]:
    """Welch's test and Hedges' g of the worst 1 % of true regret, on each level of the suite `robustness`."""
    x, y = (
        {
            level: np.array(worst)
            for (suite, level), found in _regrets(results, method).items()
            if suite == "robustness" and (worst := [s.regret_worst_1 for s in found if s.regret_worst_1 is not None])
        }
        for method in (first, second)
    )
    return [{"level": level} | contrast(x[level], y[level]) for level in x if level in y]


def contrast(x: Values, y: Values) -> dict[str, Any]:
    """The means of x[R] and y[R'], one for each run, with Welch's test and Hedges' g."""
    about = {"runs": len(x), "other_runs": len(y), "mean": float(mean(x)), "other_mean": float(mean(y))}
    return about | welch(x, y)._asdict() | {"effect": hedges_g(x, y)}


CONTRAST = ("runs", "means", "difference", "Hedges' g", "p")
"""The columns of `contrast_cells`."""


def contrast_cells(row: Mapping[str, Any], digits: int) -> list[str]:
    """The numbers of `contrast`, as text."""
    return [
        f"{row['runs']} and {row['other_runs']}",
        f"{decimal(row['mean'], digits)} and {decimal(row['other_mean'], digits)}",
        decimal(row["difference"], digits, "+"),
        decimal(row["effect"], 2, "+"),
        probability(row["p"]),
    ]


def regret_test_tables(results: Results) -> list[Table]:
    """A table for each pair of methods that were evaluated on the suite `robustness`, with a row for each level."""
    head = ["regret, worst 1 %", *CONTRAST]
    return [
        Table(head, rows, f"Welch's test of true regret: {first} − {second}")
        for second, first in combinations(results.groups, 2)
        if (rows := [[row["level"], *contrast_cells(row, 3)] for row in regret_contests(results, first, second)])
    ]
