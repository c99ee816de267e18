"""Figures of runs and comparisons, for a report 900 pixels wide and for print.

Functions return matplotlib's `Figure` and leave no state behind. `svg` and `png` turn one into the content of a file,
which is the same each time.
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
from tutelage.analysis.results import UNITS, Clock, Curve, Entry, Results, Study, align, display
from tutelage.analysis.statistics import Scores, Summary, mean, rank_correlation, standard_error
from tutelage.types import InputError


@style.drawn
def training_curves(
    results: Results,
    metrics: Sequence[str],
    against: Clock = "steps",
    title: str = "While training",
    width: float = style.WIDTH,
) -> Figure:
    """Metrics of training, a panel each: every method's mean over runs, with its standard error as a band.

    Where there are percentiles of a metric (its name with _p10 and _p90), their means are dotted lines.
    """
    logs = {label: [run.metrics for run in group] for label, group in results.groups.items()}
    known = sorted({name for group in logs.values() for log in group for name in log})
    if not metrics:
        raise InputError("There is nothing to draw: name at least one metric.")
    if unknown := [metric for metric in metrics if metric not in known]:
        raise InputError(f"No run has measured {unknown[0]!r}; they have: {', '.join(known) or 'nothing yet'}.")
    figure, panels = style.panels(len(metrics), 3, 2.1 if len(metrics) > 1 else 3.2, width, sharex=True)

    def curves(metric: str) -> dict[str, list[Curve]]:
        return {label: [(log[against], log[metric]) for log in g if metric in log] for label, g in logs.items()}

    for metric, axes in zip(metrics, panels, strict=True):
        _curves(axes, curves(metric))
        axes.set_title(style.words(metric))
        if {f"{metric}_p10", f"{metric}_p90"} <= {*known}:
            axes.set_title(f"{style.words(metric)}, 10–90 %")
            for percentile in ("p10", "p90"):
                _curves(axes, curves(f"{metric}_{percentile}"), dotted=True)
    figure.supxlabel(UNITS[against], fontsize="medium")
    style.legend(figure, [*logs], title)
    return figure


@style.drawn
def levels_over_time(study: Study, against: Clock = "steps", title: str = "", width: float = style.WIDTH) -> Figure:
    """How each method does on all test levels together and on each, as it is trained."""
    rates = study.metric == "solved"
    figure, panels = style.panels(len(study.levels) + 1, 4, 1.75, width, sharex=True, sharey=rates)
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
    style.legend(figure, [*study.histories], title or study.title)
    return figure


@style.drawn
def bars(comparison: Comparison, title: str = "", width: float = style.WIDTH) -> Figure:
    """The paper's chart: a group of bars for each test level, a bar for each method.

    Lines on the bars are 95 % intervals of solved rates, and the standard errors of returns.
    """
    labels, groups = [*comparison.scores], [ALL, *comparison.study.levels]
    rates = comparison.study.metric == "solved"
    most = round(max(3, min(9, 50 // len(labels))) * width / style.WIDTH) or 1  # so that bars stay broad enough
    rows = math.ceil(len(groups) / max(most, 2))
    across = math.ceil(len(groups) / rows)
    crowded = across * style.WIDTH / width > 6
    breadth = 0.84 / len(labels)
    figure, panels = style.panels(rows, 1, 1.9, width, sharey=True)
    for row, axes in enumerate(panels):
        shown = groups[row * across : (row + 1) * across]
        for i, (label, look) in enumerate(style.looks(labels).items()):
            summaries = [comparison.summaries[label][level] for level in shown]
            axes.bar(
                [x + (i - (len(labels) - 1) / 2) * breadth for x in range(len(shown))],
                [s.mean for s in summaries],
                0.9 * breadth,
                yerr=np.array([_errors(s, rates) for s in summaries]).T,
                error_kw={"elinewidth": 1, "capsize": 2, "ecolor": style.INK},
                color=look["color"],
            )
        names = [style.folded(level) for level in shown] if crowded else shown
        axes.set_xticks(range(len(shown)), names, fontsize=8 if crowded else 9)
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set_xlim(-0.6, across - 0.4)
        axes.set_ylabel("solved rate" if rates else comparison.study.metric)
        if rates:
            axes.set_ylim(0, 1.03)
    style.legend(figure, labels, title or comparison.title, linewidth=6)
    return figure


def iqm_intervals(*comparisons: Comparison, title: str = "", width: float = style.WIDTH) -> Figure:
    """Each method's interquartile mean over runs and levels with its interval, a panel for each comparison."""
    looks = style.looks([*comparisons[0].scores])

    def draw(axes: Axes, comparison: Comparison) -> None:
        for y, (label, look) in enumerate(looks.items()):
            summary = comparison.summaries[label][ALL]
            _interval(axes, y, (summary.iqm, summary.iqm_low, summary.iqm_high), look["color"])
        axes.set_xlabel(f"interquartile mean of {comparison.study.metric}, 95 % interval")

    return _interval_panels(comparisons, [display(label) for label in looks], draw, title, width)


def improvements(*comparisons: Comparison, title: str = "", width: float = style.WIDTH) -> Figure:
    """How likely a run of one method beats one of another, with its interval; a panel for each comparison."""
    looks = style.looks([*comparisons[0].scores])
    pairs = [(test.first, test.second) for test in comparisons[0].tests if test.level == ALL]
    if not pairs:
        raise InputError("There is only one method to compare: give runs of two methods or more.")

    def draw(axes: Axes, comparison: Comparison) -> None:
        for y, test in enumerate(test for test in comparison.tests if test.level == ALL):
            _interval(axes, y, test.improvement, looks[test.first]["color"])
        axes.axvline(0.5, color=style.INK, linewidth=0.9, linestyle=":")
        axes.set(xlabel="P(first > second), 95 % interval", xlim=(-0.02, 1.02))

    names = [f"{display(first)} > {display(second)}" for first, second in pairs]
    return _interval_panels(comparisons, names, draw, title, width)


@style.drawn
def score_against_regret(entries: Sequence[Entry], title: str = "", width: float = 6.0) -> Figure:
    """The curator's score against the true regret: a point for each level of a snapshot, and their rank correlation."""
    known = scores_and_regrets(entries)
    if not len(known):
        raise InputError("No level here has both a score and an optimal return, so there is no true regret to show.")
    score, regret = known.T
    rho, _ = rank_correlation(regret, score)
    figure, [axes] = style.panels(1, 1, 3.3, width)
    axes.scatter(regret, score, s=24, color=style.COLORS["plr"], alpha=0.55, linewidths=0)
    axes.set(xlabel="true regret", ylabel="score")
    strength = "not defined" if math.isnan(rho) else f"{rho:.2f}"
    text = f"{title + ': ' if title else ''}rank correlation {strength}, {len(known)} levels"
    axes.set_title(style.wrapped(text, width - 0.6), fontsize=11)
    return figure


def scores_and_regrets(entries: Sequence[Entry]) -> Scores:
    """f64[n, 2]: score and true regret, the oracle's return minus the student's, of the levels where both are known."""
    needed = ("score", "return", "optimal_return")
    known = [[e[name] for name in needed] for e in entries if all(e.get(name) is not None for name in needed)]
    score, value, best = np.array(known, np.float64).reshape(-1, 3).T
    return np.stack([score, best - value], axis=1)


def svg(figure: Figure) -> str:
    """An SVG element: a file by itself, or a part of an HTML page."""
    content = io.StringIO()
    with mpl.rc_context(style.RC):
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    text = content.getvalue()
    return text[text.index("<svg") :]


def png(figure: Figure) -> bytes:
    """A PNG file about 1,400 pixels wide."""
    content = io.BytesIO()
    with mpl.rc_context(style.RC):
        figure.savefig(content, format="png", metadata={"Software": None})
    return content.getvalue()


def _curves(axes: Axes, curves: Mapping[str, Sequence[Curve]], *, dotted: bool = False) -> None:
    """Each label's mean curve with its standard error; or without, thin and dotted."""
    for label, look in style.looks([*curves]).items():
        x, y = align(curves[label])
        if x.size and dotted:
            axes.plot(x, mean(y), color=look["color"], linewidth=0.8, linestyle=":")
        elif x.size:
            middle, error = mean(y), np.nan_to_num(standard_error(y))
            axes.plot(x, middle, marker="o" if len(x) < 20 else "", markersize=3, **look)
            axes.fill_between(x, middle - error, middle + error, color=look["color"], alpha=0.2, linewidth=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.margins(x=0.02)


@style.drawn
def _interval_panels(
    comparisons: Sequence[Comparison],
    names: Sequence[str],
    draw: Callable[[Axes, Comparison], None],
    title: str,
    width: float,
) -> Figure:
    """A panel for each comparison, with names beside its rows, the first on top."""
    figure, panels = style.panels(len(comparisons), 2, 0.5 + 0.29 * len(names), width, sharex=True, sharey=True)
    for comparison, axes in zip(comparisons, panels, strict=True):
        axes.use_sticky_edges = False  # bars would otherwise touch the edge
        draw(axes, comparison)
        axes.set_title(comparison.when)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
    figure.suptitle(style.wrapped(title or comparisons[0].study.title, width), x=0.01, ha="left", fontsize=11)
    return figure


def _errors(summary: Summary, rates: bool) -> tuple[float, float]:
    """How far a line on a bar reaches below and above it; nothing where that is not known."""
    if rates:
        return max(0.0, summary.mean - summary.wilson_low), max(0.0, summary.wilson_high - summary.mean)
    return (0.0, 0.0) if math.isnan(summary.standard_error) else (summary.standard_error, summary.standard_error)


def _interval(axes: Axes, y: int, estimate: tuple[float, float, float], color: str) -> None:
    value, low, high = estimate
    if not math.isnan(low):
        axes.barh(y, high - low, left=low, height=0.62, color=color, alpha=0.75)
    axes.plot([value, value], [y - 0.38, y + 0.38], color="#222222", linewidth=1.6)
