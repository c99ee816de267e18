"""Figures of runs and comparisons, for a report some 900 pixels wide and for print.

Functions return matplotlib's `Figure` and leave no state behind; `svg` and `png` turn one into the content of a file,
always the same for the same figure.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from tutelage.analysis import style
from tutelage.analysis.compare import ALL, Comparison
from tutelage.analysis.curves import Curve, align
from tutelage.analysis.results import UNITS, Clock, Metric, by_method, read_study
from tutelage.analysis.statistics import mean, rank_correlation, standard_error
from tutelage.training.run import Run
from tutelage.types import InputError, Json


@style.drawn
def training_curves(
    runs: Sequence[Run], metrics: Sequence[str], against: Clock = "steps", title: str = "While training"
) -> Figure:
    """Metrics of training, a panel each: every method's mean over runs, with its standard error as a band.

    Where there are percentiles of a metric (its name with _p10 and _p90), their means are dotted lines.
    """
    logs = {label: [run.metrics() for run in group] for label, group in by_method(runs).items()}
    known = sorted({name for group in logs.values() for log in group for name in log})
    if not metrics:
        raise InputError("There is nothing to draw: name at least one metric.")
    if unknown := [metric for metric in metrics if metric not in known]:
        raise InputError(f"No run has measured {unknown[0]!r}; they have: {', '.join(known) or 'nothing yet'}.")
    figure, panels = style.panels(len(metrics), columns=3, height=2.1 if len(metrics) > 1 else 3.2, sharex=True)

    def curves(metric: str) -> dict[str, list[Curve]]:
        return {label: [(log[against], log[metric]) for log in g if metric in log] for label, g in logs.items()}

    for metric, axes in zip(metrics, panels, strict=True):
        _curves(axes, curves(metric))
        axes.set_title(metric)
        if {f"{metric}_p10", f"{metric}_p90"} <= {*known}:
            axes.set_title(f"{metric}, and its 10 and 90 %")
            for percentile in ("p10", "p90"):
                _percentiles(axes, curves(f"{metric}_{percentile}"))
    figure.supxlabel(UNITS[against], fontsize="medium")
    style.legend(figure, [*logs], title)
    return figure


@style.drawn
def levels_over_time(
    runs: Sequence[Run],
    against: Clock = "steps",
    suite: str | None = None,
    metric: Metric | None = None,
    title: str = "",
) -> Figure:
    """How each method fares on all test levels together and on each, as it is trained."""
    study = read_study(runs, suite, metric)
    rates = study.metric == "solved"
    figure, panels = style.panels(len(study.levels) + 1, columns=4, height=1.75, sharex=True, sharey=rates)
    for i, (level, axes) in enumerate(zip((ALL, *study.levels), panels, strict=True)):
        _curves(
            axes,
            {
                label: [(h.clock(against), h.scores[:, i - 1] if i else h.scores.mean(axis=1)) for h in group]
                for label, group in study.histories.items()
            },
        )
        axes.set_title(level, fontweight="normal" if i else "bold")
        if rates:
            axes.set_ylim(-0.03, 1.03)  # with room for a line on either edge
    figure.supxlabel(UNITS[against], fontsize="medium")
    style.legend(figure, [*study.histories], title or f"{study.domain}, suite {study.suite}: {study.metric}")
    return figure


@style.drawn
def bars(comparison: Comparison, title: str = "") -> Figure:
    """The paper's chart: a group of bars for each test level, a bar for each method, with its standard error."""
    labels, groups = [*comparison.scores], [ALL, *comparison.levels]
    rows = math.ceil(len(groups) / max(3, min(9, 50 // len(labels))))  # so that a bar stays broad enough to be seen
    across = math.ceil(len(groups) / rows)
    width = 0.84 / len(labels)
    figure, panels = style.panels(rows, columns=1, height=1.9, sharey=True)
    for row, axes in enumerate(panels):
        shown = groups[row * across : (row + 1) * across]
        for i, (label, look) in enumerate(style.looks(labels).items()):
            summaries = [comparison.summaries[label][level] for level in shown]
            axes.bar(
                [x + (i - (len(labels) - 1) / 2) * width for x in range(len(shown))],
                [s.mean for s in summaries],
                0.9 * width,
                yerr=[s.standard_error for s in summaries],
                error_kw={"elinewidth": 1, "capsize": 2, "ecolor": style.INK},
                color=look["color"],
            )
        names = [style.folded(level) for level in shown] if across > 6 else shown
        axes.set_xticks(range(len(shown)), names, fontsize=8 if across > 6 else 9)
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set_xlim(-0.6, across - 0.4)
        axes.set_ylabel("solved rate" if comparison.metric == "solved" else comparison.metric)
        if comparison.metric == "solved":
            axes.set_ylim(0, 1.03)
    style.legend(figure, labels, title or comparison.heading(), linewidth=6)
    return figure


def iqm_intervals(*comparisons: Comparison, title: str = "") -> Figure:
    """Each method's interquartile mean over runs and levels with its interval, a panel for each comparison."""
    looks = style.looks([*comparisons[0].scores])

    def draw(axes: Axes, comparison: Comparison) -> None:
        for y, (label, look) in enumerate(looks.items()):
            summary = comparison.summaries[label][ALL]
            _interval(axes, y, (summary.iqm, summary.iqm_low, summary.iqm_high), look["color"])
        axes.set_xlabel(f"interquartile mean of {comparison.metric}, 95 % interval")

    return _interval_panels(comparisons, [style.display(label) for label in looks], draw, title)


def improvements(*comparisons: Comparison, title: str = "") -> Figure:
    """How likely a run of one method beats one of another, with its interval; a panel for each comparison."""
    looks = style.looks([*comparisons[0].scores])
    pairs = [(test.first, test.second) for test in comparisons[0].tests if test.level == ALL]
    if not pairs:
        raise InputError("There is only one method, and nothing to improve on: give runs of two methods or more.")

    def draw(axes: Axes, comparison: Comparison) -> None:
        for y, test in enumerate(test for test in comparison.tests if test.level == ALL):
            _interval(axes, y, test.improvement, looks[test.first]["color"])
        axes.axvline(0.5, color=style.INK, linewidth=0.9, linestyle=":")
        axes.set(xlabel="P(first > second), 95 % interval", xlim=(-0.02, 1.02))

    names = [f"{style.display(first)} > {style.display(second)}" for first, second in pairs]
    return _interval_panels(comparisons, names, draw, title)


@style.drawn
def score_against_regret(entries: Sequence[Mapping[str, Json]], title: str = "") -> Figure:
    """Does the curator's score know the true regret? A point for each entry of a snapshot, and their rank correlation.

    True regret is the oracle's return on a level less the student's.
    """
    needed = ("score", "return", "optimal_return")
    known = [entry for entry in entries if all(entry.get(name) is not None for name in needed)]
    if not known:
        raise InputError("No level here has both a score and an optimal return, so there is no true regret to show.")
    score, value, best = (np.array([entry[name] for entry in known], np.float64) for name in needed)
    rho = rank_correlation(best - value, score)
    figure, [axes] = style.panels(1, columns=1, height=3.3, width=6.0)
    axes.scatter(best - value, score, s=24, color=style.COLOURS["plr"], alpha=0.55, linewidths=0)
    axes.set(xlabel="true regret: the optimal return less the student's", ylabel="score")
    strength = "not defined" if math.isnan(rho) else f"{rho:.2f}"
    axes.set_title(f"{title + ': ' if title else ''}rank correlation {strength}, {len(known)} levels", fontsize=11)
    return figure


def svg(figure: Figure) -> str:
    """An SVG element: a file by itself, or a part of an HTML page."""
    content = io.StringIO()
    with mpl.rc_context(style.RC):
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    text = content.getvalue()
    return text[text.index("<svg") :]


def png(figure: Figure) -> bytes:
    """A PNG file some 1,400 pixels wide."""
    content = io.BytesIO()
    with mpl.rc_context(style.RC):
        figure.savefig(content, format="png", metadata={"Software": None})
    return content.getvalue()


def _curves(axes: Axes, curves: Mapping[str, Sequence[Curve]]) -> None:
    """Each label's mean curve with its standard error."""
    for label, look in style.looks([*curves]).items():
        x, y = align(curves[label])
        if x.size:
            middle, error = mean(y), np.nan_to_num(standard_error(y))
            axes.plot(x, middle, marker="o" if len(x) < 20 else "", markersize=3, **look)
            axes.fill_between(x, middle - error, middle + error, color=look["color"], alpha=0.2, linewidth=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.margins(x=0.02)


def _percentiles(axes: Axes, curves: Mapping[str, Sequence[Curve]]) -> None:
    """Each label's mean curve, thin and dotted."""
    for label, look in style.looks([*curves]).items():
        x, y = align(curves[label])
        if x.size:
            axes.plot(x, mean(y), color=look["color"], linewidth=0.8, linestyle=":")


@style.drawn
def _interval_panels(
    comparisons: Sequence[Comparison], names: Sequence[str], draw: Callable[[Axes, Comparison], None], title: str
) -> Figure:
    """A panel for each comparison, with names beside its rows, the first on top."""
    figure, panels = style.panels(len(comparisons), columns=2, height=0.5 + 0.29 * len(names), sharex=True, sharey=True)
    for comparison, axes in zip(comparisons, panels, strict=True):
        axes.use_sticky_edges = False  # bars would otherwise touch the edge
        draw(axes, comparison)
        axes.set_title(comparison.when())
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
    head = title or f"{comparisons[0].domain}, suite {comparisons[0].suite}: {comparisons[0].metric}"
    figure.suptitle(head, x=0.01, ha="left", fontsize=11)
    return figure


def _interval(axes: Axes, y: int, estimate: tuple[float, float, float], colour: str) -> None:
    value, low, high = estimate
    if not math.isnan(low):
        axes.barh(y, high - low, left=low, height=0.62, color=colour, alpha=0.75)
    axes.plot([value, value], [y - 0.38, y + 0.38], color="#222222", linewidth=1.6)
