"""Which method is better: runs compared after equal environment steps or equal gradient updates.

Neither is fair alone: PLR⊥ and REPAIRED learn from replayed levels only, so they make about half as many
updates in as many steps. The paper shows both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any

import numpy as np

from tutelage.analysis.policies import PolicyScore
from tutelage.analysis.results import UNITS, Clock, History, Results, Study
from tutelage.analysis.statistics import (
    Estimate,
    Scores,
    Summary,
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
"""Fields of a `PolicyScore`, by the share of the worst episodes that each is the mean of."""


@dataclass(frozen=True)
class Test:
    """One method against another, on a level or on all."""

    __test__ = False  # pytest should not take it for a test

    first: str
    second: str
    level: str
    welch: Welch
    """Of the runs' scores; on all levels, of their means over levels."""
    effect: float
    """Hedges' g."""
    corrected_p: float
    """Holm's, for as many tests as there are pairs of methods."""
    improvement: Estimate
    """P(first > second), and its interval."""


@dataclass(frozen=True)
class Comparison:
    """Runs of several methods after equal environment steps or gradient updates."""

    study: Study
    at: Clock
    times: Mapping[str, int]
    """After how many steps or updates, by method."""
    scores: Mapping[str, Scores]
    """f64[R, L] by method."""
    summaries: Mapping[str, Mapping[str, Summary]]
    """By method and by level, `ALL` being the last."""
    tests: tuple[Test, ...]
    """Of all pairs of methods, on each level and on `ALL`."""

    @property
    def title(self) -> str:
        return f"{self.study.title} {self.when}"

    @property
    def when(self) -> str:
        """After how much training runs were compared; a range if methods differ in that."""
        first, last = min(self.times.values()), max(self.times.values())
        return f"after {first:,}{f' to {last:,}' if last > first else ''} {UNITS[self.at]}"

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
        """Tables by level, overall, and of the tests on all levels together; `name` maps methods to shown names."""
        tables = [self._level_table(name), self._overall_table(name)]
        return [*tables, self._test_table(name)] if len(self.scores) > 1 else tables

    def _place(self) -> dict[str, Any]:
        return {"domain": self.study.domain, "suite": self.study.suite, "metric": self.study.metric, "at": self.at}

    def _level_table(self, name: Callable[[str], str]) -> Table:
        measured = "mean [95 % interval]" if self.study.metric == "solved" else "mean ± standard error"
        heads = [f"{name(method)} ({len(scores)})" for method, scores in self.scores.items()]
        rows = [
            [level, *(self._cell(summaries[level]) for summaries in self.summaries.values())]
            for level in (*self.study.levels, ALL)
        ]
        return Table([measured, *heads], rows, f"{self.title}; the number of runs in parentheses")

    def _cell(self, summary: Summary) -> str:
        if self.study.metric == "solved":
            return interval(summary.mean, summary.wilson_low, summary.wilson_high, 2)
        return plus_minus(summary.mean, summary.standard_error, self.digits)

    def _overall_table(self, name: Callable[[str], str]) -> Table:
        digits = self.digits
        rows = [
            [
                name(method),
                str(s.runs),
                f"{decimal(s.mean, digits)} ± {decimal(s.standard_error, digits)}",
                interval(s.median, s.lower_quartile, s.upper_quartile, digits),
                interval(s.iqm, s.iqm_low, s.iqm_high, digits),
            ]
            for method, s in ((method, summaries[ALL]) for method, summaries in self.summaries.items())
        ]
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
        largest = max(float(np.abs(np.nan_to_num(scores)).max()) for scores in self.scores.values())
        return 2 if largest < 10 else 1 if largest < 100 else 0


def compare(
    study: Study, at: Clock = "steps", *, ends: bool = False, whole_runs: bool = False, seed: int = 0
) -> Comparison:
    """Compare methods at the last point that all runs have reached; scores are interpolated between evaluations.

    Args:
        study: `Results(runs).study()`.
        at: compare after equal environment steps or after equal gradient updates.
        ends: compare each method at the last point that all its own runs have reached.
        whole_runs: how intervals are made; see `statistics.bootstrap`.
        seed: of their resamples.
    """
    scores, times, episodes = {}, {}, {}
    for label, group in study.histories.items():
        shortest = min(group if ends else chain(*study.histories.values()), key=lambda each: int(each.clock(at)[-1]))
        times[label] = int(shortest.clock(at)[-1])
        scores[label] = np.stack([_at(history, shortest, at) for history in group])
        until = [int(np.searchsorted(history.clock(at), times[label], side="right")) - 1 for history in group]
        played = [int(history.episodes[i]) for history, i in zip(group, until, strict=True)]
        episodes[label] = min(played) if study.metric == "solved" else None

    def parts(x: Scores) -> dict[str, Scores]:
        """f64[R, 1] for each level, and f64[R, L] for all."""
        return {level: x[:, [i]] for i, level in enumerate(study.levels)} | {ALL: x}

    def generator() -> np.random.Generator:
        """A new one for each interval, so that none depends on what else is compared."""
        return np.random.default_rng(seed)

    summaries = {
        label: {
            level: summarize(part, generator(), episodes=episodes[label], whole_runs=whole_runs)
            for level, part in parts(x).items()
        }
        for label, x in scores.items()
    }
    # the later method minus the earlier, so that a positive difference favors the newer one
    pairs = [(first, second) for second, first in combinations(scores, 2)]
    tests = []
    for level in (*study.levels, ALL):
        found = []
        for pair in pairs:
            samples = [parts(scores[label])[level] for label in pair]
            x, y = (sample.mean(axis=1) for sample in samples)
            improvement = bootstrap(probability_of_improvement, samples, generator(), whole_runs=whole_runs)
            found.append(Test(*pair, level, welch(x, y), hedges_g(x, y), math.nan, improvement))
        corrected = holm(np.array([test.welch.p for test in found]))
        tests += [replace(test, corrected_p=float(p)) for test, p in zip(found, corrected, strict=True)]
    return Comparison(study, at, times, scores, summaries, tuple(tests))


def _at(history: History, shortest: History, at: Clock) -> Scores:
    """A run's scores when the shortest run ended."""
    limit = int(shortest.clock(at)[-1])
    scores = history.at(limit, at)
    if scores is None:
        raise InputError(
            f"{history.directory} was first evaluated after {history.clock(at)[0]:,} {at}, but {shortest.directory} "
            f"last after {limit:,}: train that one for longer, or evaluate both more often."
        )
    return scores


def regret_rows(results: Results) -> list[dict[str, Any]]:
    """True regret from `tutelage eval`: a row for each method, suite, level and share of the worst episodes."""
    found: dict[tuple[str, str, str], list[PolicyScore]] = {}
    for label, group in results.groups.items():
        for run in group:
            for score in run.tests:
                if not score.is_baseline and score.regret is not None:
                    found.setdefault((label, score.suite, score.level), []).append(score)
    rows = []
    for (label, suite, level), scores in found.items():
        for share, name in REGRETS.items():
            values = np.array([x for score in scores if (x := getattr(score, name)) is not None], np.float64)
            if values.size:
                about = {"method": label, "suite": suite, "level": level, "worst": share, "runs": len(values)}
                rows.append(about | {"mean": float(mean(values)), "standard_error": float(standard_error(values))})
    return rows


def regret_contests(results: Results, first: str, second: str) -> list[dict[str, Any]]:
    """Welch's test and Hedges' g of the worst 1 % of true regret, on each level of the suite `robustness`."""
    found: tuple[dict[str, list[float]], ...] = ({}, {})
    for levels, label in zip(found, (first, second), strict=True):
        for score in (score for run in results.groups[label] for score in run.tests):
            if score.suite == "robustness" and not score.is_baseline and score.regret_worst_1 is not None:
                levels.setdefault(score.level, []).append(score.regret_worst_1)
    return [
        {"level": level} | contrast(*(np.array(levels[level]) for levels in found))
        for level in found[0]
        if level in found[1]
    ]


def contrast(x: Scores, y: Scores) -> dict[str, Any]:
    """The means of x[R] and y[R'], one for each run, with Welch's test and Hedges' g."""
    about = {"runs": len(x), "other_runs": len(y), "mean": float(mean(x)), "other_mean": float(mean(y))}
    return about | welch(x, y)._asdict() | {"effect": hedges_g(x, y)}


def regret_test_tables(results: Results) -> list[Table]:
    """A table for each pair of methods that were evaluated on the suite `robustness`, with a row for each level."""
    tables = []
    head = ["regret, worst 1 %", "runs", "means", "difference", "Hedges' g", "p"]
    for second, first in combinations(results.groups, 2):
        rows = [
            [
                row["level"],
                f"{row['runs']} and {row['other_runs']}",
                f"{decimal(row['mean'], 3)} and {decimal(row['other_mean'], 3)}",
                decimal(row["difference"], 3, "+"),
                decimal(row["effect"], 2, "+"),
                probability(row["p"]),
            ]
            for row in regret_contests(results, first, second)
        ]
        if rows:
            tables.append(Table(head, rows, f"Welch's test of true regret: {first} − {second}"))
    return tables


def regret_tables(rows: Iterable[Mapping[str, Any]], name: Callable[[str], str] = str) -> list[Table]:
    """These rows as tables, one for each suite and level, with a row for each method."""
    places: dict[tuple[str, str], dict[str, dict[float, str]]] = {}
    for row in rows:
        methods = places.setdefault((row["suite"], row["level"]), {})
        cells = methods.setdefault(f"{name(row['method'])} ({row['runs']})", {})
        cells[row["worst"]] = plus_minus(row["mean"], row["standard_error"], 3)
    return [
        Table(
            ["regret", *("mean" if share == 1 else f"worst {100 * share:g} %" for share in REGRETS)],
            [[method, *(cells.get(share, "–") for share in REGRETS)] for method, cells in methods.items()],
            f"True regret (optimal − actual return) on {level}, suite {suite}: mean ± standard error over runs",
        )
        for (suite, level), methods in places.items()
    ]
