"""Sections on zero-shot tests: over time, and the methods compared after equal steps and equal updates."""

from __future__ import annotations

from collections.abc import Sequence

from tutelage.analysis import plots, style
from tutelage.analysis.compare import ALL, Comparison, compare
from tutelage.analysis.report.blocks import Block, Heading, Note, Plot, Section, Table, number
from tutelage.training.run import Run
from tutelage.types import InputError


def testing(runs: Sequence[Run]) -> Section:
    """For each suite that runs were evaluated on."""
    suites: dict[str, list[Run]] = {}
    for run in runs:
        for suite in dict.fromkeys(row["suite"] for row in run.evaluations()):
            suites.setdefault(suite, []).append(run)
    blocks: list[Block] = []
    for suite, tested in suites.items():
        if len(suites) > 1:
            blocks.append(Heading(f"Suite {suite}"))
        try:
            blocks += _suite(tested, suite)
        except InputError as error:  # what cannot be compared can be looked at all the same
            blocks.append(Note(f"There is no comparison on the suite {suite}. {error}"))
    about = (
        "On levels that no student has been trained on. Means over the runs of a method, with their standard error; a "
        "single run has none."
    )
    return Section("tests", "Zero-shot tests", about, blocks)


def _suite(runs: Sequence[Run], suite: str) -> list[Block]:
    steps = compare(runs, "steps", suite)
    blocks: list[Block] = [Plot.of(plots.bars(steps), f"Bars: {steps.heading()}, by test level and method")]
    if any(len({row["iteration"] for row in run.evaluations() if row["suite"] == suite}) > 1 for run in runs):
        figure = plots.levels_over_time(runs, "steps", suite, title="Over time")
        blocks.append(Plot.of(figure, f"Curves: {steps.metric} on each test level against environment steps"))
    blocks.append(_levels(steps))
    if len(steps.scores) > 1:
        blocks += _contest(runs, steps)
    return blocks


def _contest(runs: Sequence[Run], steps: Comparison) -> list[Block]:
    """Which method is better, after as many steps and after as many updates."""
    comparisons, notes = [steps], []
    try:
        comparisons.append(compare(runs, "updates", steps.suite))
    except InputError as error:  # a run may have made fewer updates by its end than another by its first evaluation
        notes.append(Note(f"There is no comparison after equal updates. {error}"))
    return [
        Plot.of(plots.iqm_intervals(*comparisons, title="Interquartile means"), "Interquartile means of the methods"),
        Plot.of(plots.improvements(*comparisons, title="Which is better?"), "How likely one method beats another"),
        *map(_tests, comparisons),
        *notes,
    ]


def _levels(comparison: Comparison) -> Table:
    """A line for each level, a column for each method."""
    summaries = comparison.summaries.values()
    rows = [
        [level, *(_plus_minus(each[level].mean, each[level].standard_error) for each in summaries)]
        for level in (*comparison.levels, ALL)
    ]
    runs = [f"{style.display(label)} ({len(scores)})" for label, scores in comparison.scores.items()]
    return Table(["level", *runs], rows, f"{comparison.heading()}; the number of runs in brackets")


def _tests(comparison: Comparison) -> Table:
    head = ["first − second", "difference", "t", "ν", "p", "p (Holm)", "P(first > second)", "95 % interval"]
    rows = [
        [
            f"{style.display(test.first)} − {style.display(test.second)}",
            f"{test.welch.difference:+.3g}",
            number(test.welch.t),
            number(test.welch.degrees, 2),
            number(test.welch.p, 4),
            number(test.corrected_p, 4),
            number(test.improvement.value),
            f"{number(test.improvement.low)} to {number(test.improvement.high)}",
        ]
        for test in comparison.tests
        if test.level == ALL
    ]
    return Table(head, rows, f"Welch's test, and the probability of improvement, {comparison.when()}")


def _plus_minus(value: float, error: float) -> str:
    return number(value) if error != error else f"{number(value)} ± {number(error)}"
