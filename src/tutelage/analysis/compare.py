"""Which method is better? Runs compared after equal environment steps or equal gradient updates.

Neither equality is fair alone: PLR⊥ and REPAIRED learn from replayed levels only, so that in as many steps they make
about half as many updates. The paper shows both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, Literal

import numpy as np

from tutelage.analysis.results import UNITS, Clock, History, Metric, read_study
from tutelage.analysis.statistics import (
    Estimate,
    Scores,
    Summary,
    Welch,
    bootstrap,
    holm,
    probability_of_improvement,
    summarise,
    welch,
)
from tutelage.analysis.tables import aligned
from tutelage.training.run import Run
from tutelage.types import InputError

ALL = "all levels"
"""Stands where a level's name would, for all of them together."""

WIDTH = 100
"""Columns of a terminal that tables keep to, as far as names let them."""


@dataclass(frozen=True)
class Test:
    """One method against another, on a level or on all."""

    __test__ = False  # pytest should not take it for a test

    first: str
    second: str
    level: str
    welch: Welch
    """Of the runs' scores; on all levels, of their means over levels."""
    corrected_p: float
    """Holm's, for as many tests as there are pairs of methods."""
    improvement: Estimate
    """P(first > second), and its interval."""


@dataclass(frozen=True)
class Comparison:
    """Runs of several methods after equal environment steps or gradient updates."""

    domain: str
    suite: str
    metric: Metric
    at: Clock
    limit: int
    """What all runs have reached."""
    reached: Mapping[str, tuple[int, ...]]
    """When each run's last evaluation up to there was made, by method."""
    levels: tuple[str, ...]
    scores: Mapping[str, Scores]
    """f64[R, L] by method."""
    summaries: Mapping[str, Mapping[str, Summary]]
    """By method and by level, `ALL` being the last."""
    tests: tuple[Test, ...]
    """Of all pairs of methods, on each level and on `ALL`."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each method and level."""
        return [
            {
                **self._place(),
                "method": method,
                "earliest": min(self.reached[method]),
                "latest": max(self.reached[method]),
                "level": level,
                **summary._asdict(),
            }
            for method, summaries in self.summaries.items()
            for level, summary in summaries.items()
        ]

    def test_rows(self) -> list[dict[str, Any]]:
        """A row for each pair of methods and level."""
        return [
            {
                **self._place(),
                "first": test.first,
                "second": test.second,
                "level": test.level,
                **test.welch._asdict(),
                "corrected_p": test.corrected_p,
                "improvement": test.improvement.value,
                "improvement_low": test.improvement.low,
                "improvement_high": test.improvement.high,
            }
            for test in self.tests
        ]

    def table(self) -> str:
        """All that `rows` and the tests on all levels say, for a terminal."""
        parts = [[self.heading()], *self._level_tables(), self._overall_table()]
        if len(self.scores) > 1:
            parts.append(self._test_table())
        return "\n\n".join("\n".join(lines) for lines in parts)

    def heading(self) -> str:
        """What is compared, and when."""
        return f"{self.domain}, suite {self.suite}: {self.metric} {self.when()}"

    def when(self) -> str:
        """After how much of training runs were looked at: a range, if they were evaluated at different times."""
        times = [time for each in self.reached.values() for time in each]
        span = f"{min(times):,}" if min(times) == max(times) else f"{min(times):,} to {max(times):,}"
        return f"after {span} {UNITS[self.at]}"

    def _place(self) -> dict[str, Any]:
        return {
            "domain": self.domain,
            "suite": self.suite,
            "metric": self.metric,
            "at": self.at,
            "limit": self.limit,
        }

    def _level_tables(self) -> Iterator[list[str]]:
        """Mean ± standard error, a line for each level and a column for each method, as many as the width allows."""
        digits = self._digits()
        columns = [
            [method, *(f"{_text(s.mean, digits)} ± {_text(s.standard_error, digits)}" for s in summaries.values())]
            for method, summaries in self.summaries.items()
        ]
        head = ["mean ± standard error", *self.levels, ALL]
        used, block = 0, [head]
        for column in columns:
            width = 2 + max(map(len, column))
            if len(block) > 1 and used + width > WIDTH - max(map(len, head)):
                yield aligned(zip(*block, strict=True))
                used, block = 0, [head]
            used += width
            block.append(column)
        yield aligned(zip(*block, strict=True))

    def _overall_table(self) -> list[str]:
        digits = self._digits()
        rows = [[ALL, "runs", "mean ± error", "median [quartiles]", "IQM [95 % interval]"]]
        for method, summaries in self.summaries.items():
            s = summaries[ALL]
            rows.append(
                [
                    method,
                    str(s.runs),
                    f"{_text(s.mean, digits)} ± {_text(s.standard_error, digits)}",
                    _interval(s.median, s.lower_quartile, s.upper_quartile, digits),
                    _interval(s.iqm, s.iqm_low, s.iqm_high, digits),
                ]
            )
        return aligned(rows)

    def _test_table(self) -> list[str]:
        digits = self._digits()
        rows = [["first − second", "difference", "t", "ν", "p", "p (Holm)", "P(first > second)"]]
        for test in self.tests:
            if test.level == ALL:
                rows.append(
                    [
                        f"{test.first} − {test.second}",
                        _text(test.welch.difference, digits, "+"),
                        _text(test.welch.t, 2),
                        _text(test.welch.degrees, 1),
                        _probability(test.welch.p),
                        _probability(test.corrected_p),
                        _interval(*test.improvement, 2),
                    ]
                )
        return aligned(rows)

    def _digits(self) -> int:
        """Decimals that suit the numbers: two for rates, none for returns in the hundreds."""
        largest = max(float(np.abs(np.nan_to_num(scores)).max()) for scores in self.scores.values())
        return 2 if largest < 10 else 1 if largest < 100 else 0


def compare(
    runs: Sequence[Run],
    at: Clock = "steps",
    suite: str | None = None,
    metric: Metric | None = None,
    *,
    whole_runs: bool = False,
    seed: int = 0,
) -> Comparison:
    """Compare the methods of several runs, each run at its last evaluation up to what all have reached.

    Args:
        runs: of one domain, tested on the same levels; those that differ in their seed only belong together.
        at: compare after equal environment steps or after equal gradient updates.
        suite: which benchmark; may be left out if there is only one.
        metric: the rate of solved episodes where episodes can be solved, else the return, if not said otherwise.
        whole_runs: how intervals are made; see `statistics.bootstrap`.
        seed: of their resamples.
    """
    study = read_study(runs, suite, metric)
    shortest = min(chain(*study.histories.values()), key=lambda history: history.clock(at)[-1])
    scores, reached = {}, {}
    for label, group in study.histories.items():
        last = [(history, _last_until(history, shortest, at)) for history in group]
        scores[label] = np.stack([history.scores[i] for history, i in last])
        reached[label] = tuple(int(history.clock(at)[i]) for history, i in last)

    def parts(x: Scores) -> dict[str, Scores]:
        """f64[R, 1] for each level, and f64[R, L] for all."""
        return {level: x[:, [i]] for i, level in enumerate(study.levels)} | {ALL: x}

    def generator() -> np.random.Generator:
        """A new one for each interval, so that none depends on what else is compared."""
        return np.random.default_rng(seed)

    summaries = {
        label: {level: summarise(part, generator(), whole_runs=whole_runs) for level, part in parts(x).items()}
        for label, x in scores.items()
    }
    # the later method against the earlier, so that what has been added to the family comes first
    pairs = [(first, second) for second, first in combinations(scores, 2)]
    tests = []
    for level in (*study.levels, ALL):
        samples = [(parts(scores[first])[level], parts(scores[second])[level]) for first, second in pairs]
        results = [welch(x.mean(axis=1), y.mean(axis=1)) for x, y in samples]
        corrected = holm(np.array([result.p for result in results]))
        improvements = [
            bootstrap(probability_of_improvement, pair, generator(), whole_runs=whole_runs) for pair in samples
        ]
        tests += [
            Test(first, second, level, result, float(p), improvement)
            for (first, second), result, p, improvement in zip(pairs, results, corrected, improvements, strict=True)
        ]
    return Comparison(
        study.domain,
        study.suite,
        study.metric,
        at,
        int(shortest.clock(at)[-1]),
        reached,
        study.levels,
        scores,
        summaries,
        tuple(tests),
    )


def _last_until(history: History, shortest: History, at: Clock) -> int:
    """Which evaluation is the last that was made no later than the last of the shortest run."""
    limit = shortest.clock(at)[-1]
    until = np.flatnonzero(history.clock(at) <= limit)
    if until.size == 0:
        raise InputError(
            f"{history.directory} was first evaluated after {history.clock(at)[0]:,} {at}, but {shortest.directory} "
            f"last after {limit:,}: train that one for longer, or evaluate both more often."
        )
    return int(until[-1])


def _text(x: float, digits: int, sign: Literal["+", "-"] = "-") -> str:
    """A number with so many decimals, its sign always shown or only if negative; a dash for what is not known."""
    return "–" if np.isnan(x) else f"{x:{sign}.{digits}f}"


def _probability(p: float) -> str:
    return "<.0001" if p < 0.0001 else _text(p, 4)


def _interval(value: float, low: float, high: float, digits: int) -> str:
    return f"{_text(value, digits)} [{_text(low, digits)}, {_text(high, digits)}]"
