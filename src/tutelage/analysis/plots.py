"""Figures of runs and comparisons, for a report 900 pixels wide and for print.

Functions return matplotlib's `Figure` and leave no state behind. `svg` and `png` turn one into the content of a file,
which is the same each time.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from tutelage.analysis import style
from tutelage.analysis.compare import ALL, Comparison
from tutelage.analysis.results import CLOCKS, Clock, Curve, Entry, EvaluationTable, History, Results, align, display
from tutelage.analysis.statistics import Summary, Values, mean, median, quartiles, rank_correlation, standard_error
from tutelage.types import InputError

Center = Literal["median", "mean"]
"""The median over runs with the interquartile range, as in the paper; or the mean with its standard error."""

CENTERS: Mapping[Center, str] = {"median": "median and interquartile range", "mean": "mean ± standard error"}


@dataclass(frozen=True)
class Panel:
    """Curves of several methods, a `Curve` for each run."""

    title: str
    curves: Mapping[str, Sequence[Curve]]
    """By method."""
    at: Clock = "steps"
    dotted: Sequence[Mapping[str, Sequence[Curve]]] = ()
    """More curves by method, drawn thin and dotted."""
    reference: tuple[str, float] | None = None
    """The label and height of a horizontal line."""
    rates: bool = False


@style.drawn
def curve_panels(
    panels: Sequence[Panel],
    title: str,
    width: float = style.WIDTH,
    *,
    columns: int = 3,
    height: float = 2.1,
    center: Center = "mean",
) -> Figure:
    """Panels of curves, with one legend for all."""
    clocks, rates = {panel.at for panel in panels}, all(panel.rates for panel in panels)
    size = height if len(panels) > 1 else 3.2
    figure, places = style.panels(len(panels), columns, size, width, sharex=len(clocks) == 1, sharey=rates)
    for panel, axes in zip(panels, places, strict=True):
        for i, curves in enumerate((panel.curves, *panel.dotted)):
            _curves(axes, curves, center, dotted=i > 0)
        _reference(axes, panel.reference)
        axes.set_title(panel.title, fontweight="bold" if panel.title == ALL else "normal")
        if panel.rates:
            axes.set_ylim(-0.03, 1.03)  # with room for a line on either edge
        if len(clocks) > 1:
            axes.set_xlabel(CLOCKS[panel.at])
    if len(clocks) == 1:
        figure.supxlabel(CLOCKS[panels[0].at], fontsize="medium")
    style.legend(figure, [*dict.fromkeys(label for panel in panels for label in panel.curves)], title)
    return figure


def panel_rows(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """The numbers of `curve_panels`, a row for each point of a line."""
    columns = ("median", "lower_quartile", "upper_quartile", "mean", "standard_error")
    rows = []
    for panel in panels:
        for i, curves in enumerate((panel.curves, *panel.dotted)):
            for label, group in curves.items():
                x, y = align(group)
                about = {"panel": panel.title + (", dotted" if i else ""), "at": panel.at, "method": label}
                numbers = zip(median(y), *quartiles(y), mean(y), standard_error(y), strict=True) if x.size else ()
                for time, point in zip(x, numbers, strict=True):
                    rows.append(about | {"time": time, "runs": len(y)} | dict(zip(columns, point, strict=True)))
    return rows


def metric_curves(results: Results, metric: str, at: Clock) -> dict[str, list[Curve]]:
    """Each run's curve of a training metric, by method."""
    return {
        label: [(run.metrics[at], run.metrics[metric]) for run in group if metric in run.metrics]
        for label, group in results.groups.items()
    }


def training_curves(
    results: Results,
    metrics: Sequence[str],
    at: Clock = "steps",
    title: str = "While training",
    width: float = style.WIDTH,
) -> Figure:
    """Metrics of training, a panel each: every method's mean over runs, with its standard error as a band.

    Where a metric has percentiles (its name with _p10 and _p90), these are dotted lines.
    """
    known = sorted({name for run in results.runs for name in run.metrics})
    if not metrics:
        raise InputError("There is nothing to draw: name at least one metric.")
    if unknown := [metric for metric in metrics if metric not in known]:
        raise InputError(f"No run has measured {unknown[0]!r}; they have: {', '.join(known) or 'nothing yet'}.")

    def panel(metric: str) -> Panel:
        percentiles = [name for name in (f"{metric}_p10", f"{metric}_p90") if name in known]
        dotted = [metric_curves(results, name, at) for name in percentiles]
        title = style.words(metric) + (", 10–90 %" if percentiles else "")
        return Panel(title, metric_curves(results, metric, at), at, dotted)

    return curve_panels([*map(panel, metrics)], title, width)


def level_panels(
    evaluations: EvaluationTable, at: Clock = "steps", titles: Mapping[str, str] | None = None
) -> list[Panel]:
    """A panel for all test levels together (`ALL`) and for each; or only for those that have `titles`."""

    def panel(level: str, title: str) -> Panel:
        def values(history: History) -> Values:
            return history.values.mean(axis=1) if level == ALL else history.values[:, evaluations.levels.index(level)]

        curves = {label: [(h.clock(at), values(h)) for h in group] for label, group in evaluations.histories.items()}
        return Panel(title, curves, at, rates=evaluations.metric == "solved")

    titles = titles or {level: level for level in (ALL, *evaluations.levels)}
    return [panel(level, title) for level, title in titles.items()]


def levels_over_time(
    evaluations: EvaluationTable, at: Clock = "steps", title: str = "", width: float = style.WIDTH
) -> Figure:
    """How each method does on all test levels together and on each, as it is trained."""
    return curve_panels(level_panels(evaluations, at), title or evaluations.title, width, columns=4, height=1.75)


@style.drawn
def bars(
    comparison: Comparison,
    title: str = "",
    width: float = style.WIDTH,
    *,
    center: Center = "median",
    names: Mapping[str, str] | None = None,
    reference: tuple[str, float] | None = None,
) -> Figure:
    """The paper's chart: a group of bars for each test level, a bar for each method.

    Levels are shown under other `names`. `reference` is the label and height of a horizontal line.
    """
    labels, groups = [*comparison.values], [ALL, *comparison.evaluations.levels]
    rates = comparison.evaluations.metric == "solved"
    most = round(max(3, min(9, 50 // len(labels))) * width / style.WIDTH) or 1  # so that bars stay broad enough
    rows = math.ceil(len(groups) / max(most, 2))
    across = math.ceil(len(groups) / rows)
    crowded = across * style.WIDTH / width > 6
    breadth = 0.84 / len(labels)
    figure, panels = style.panels(rows, 1, 1.9, width, sharey=True)
    for row, axes in enumerate(panels):
        shown = groups[row * across : (row + 1) * across]
        for i, (label, look) in enumerate(style.looks(labels).items()):
            values = np.array([_centered(comparison.summaries[label][level], center) for level in shown])
            axes.bar(
                [x + (i - (len(labels) - 1) / 2) * breadth for x in range(len(shown))],
                values[:, 0],
                0.9 * breadth,
                yerr=np.nan_to_num(values[:, 1:].T),
                error_kw={"elinewidth": 1, "capsize": 2, "ecolor": style.INK},
                color=look["color"],
            )
        _reference(axes, reference)
        known = [(names or {}).get(level, level) for level in shown]
        known = [*map(style.folded, known)] if crowded else known
        axes.set_xticks(range(len(shown)), known, fontsize=8 if crowded else 9)
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set_xlim(-0.6, across - 0.4)
        axes.set_ylabel("solved rate" if rates else comparison.evaluations.metric)
        if rates:
            axes.set_ylim(0, 1.03)
    style.legend(figure, labels, title or f"{comparison.title}; {CENTERS[center]}", linewidth=6)
    return figure


@style.drawn
def gallery(rows: Mapping[str, Sequence[Any]], title: str, width: float = style.WIDTH) -> Figure:
    """Pictures u8[h, w, 3], a row for each name; in a narrow figure the first four."""
    columns = min(max(map(len, rows.values())), 8 if width >= style.WIDTH else 4)
    side = width / columns
    figure = Figure(figsize=(width, 0.5 + (side + 0.2) * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for line, (name, pictures) in zip(grid, rows.items(), strict=True):
        line[0].set_title(name, fontsize=9)
        for axes, picture in zip(line, pictures, strict=False):
            axes.imshow(picture, interpolation="nearest")
    figure.suptitle(style.wrapped(title, width), x=0.01, ha="left", fontsize=11)
    return figure


def iqm_intervals(*comparisons: Comparison, title: str = "", width: float = style.WIDTH) -> Figure:
    """Each method's interquartile mean over runs and levels with its interval, a panel for each comparison."""
    looks = style.looks([*comparisons[0].values])

    def draw(axes: Axes, comparison: Comparison) -> None:
        for y, (label, look) in enumerate(looks.items()):
            summary = comparison.summaries[label][ALL]
            _interval(axes, y, (summary.iqm, summary.iqm_low, summary.iqm_high), look["color"])
        axes.set_xlabel(f"interquartile mean of {comparison.evaluations.metric}, 95 % interval")

    return _interval_panels(comparisons, [display(label) for label in looks], draw, title, width)


def improvements(*comparisons: Comparison, title: str = "", width: float = style.WIDTH) -> Figure:
    """How likely a run of one method beats one of another, with its interval; a panel for each comparison."""
    looks = style.looks([*comparisons[0].values])
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


def scores_and_regrets(entries: Sequence[Entry]) -> Values:
    """f64[n, 2]: score and true regret, the oracle's return minus the student's, of the levels where both are known."""
    needed = ("score", "return", "optimal_return")
    known = [[e[name] for name in needed] for e in entries if all(e.get(name) is not None for name in needed)]
    score, value, best = np.array(known, np.float64).reshape(-1, 3).T
    return np.stack([score, best - value], axis=1)


def svg(figure: Figure) -> str:
    """An SVG element: a file by itself, or a part of an HTML page."""
    text = _saved(figure, "svg", "Date", "Creator").decode()
    return text[text.index("<svg") :]


def png(figure: Figure) -> bytes:
    """A PNG file about 1,400 pixels wide."""
    return _saved(figure, "png", "Software")


def _saved(figure: Figure, form: str, *unsaid: str) -> bytes:
    content = io.BytesIO()
    with mpl.rc_context(style.RC):
        figure.savefig(content, format=form, metadata=dict.fromkeys(unsaid))
    return content.getvalue()


def _curves(axes: Axes, curves: Mapping[str, Sequence[Curve]], center: Center, *, dotted: bool = False) -> None:
    """Each label's curve with its band; or without, thin and dotted."""
    for label, look in style.looks([*curves]).items():
        x, y = align(curves[label])
        if not x.size:
            continue
        middle = median(y) if center == "median" else mean(y)
        if dotted:
            axes.plot(x, middle, color=look["color"], linewidth=0.8, linestyle=":")
            continue
        error = np.nan_to_num(standard_error(y))
        low, high = quartiles(y) if center == "median" else (middle - error, middle + error)
        axes.plot(x, middle, marker="o" if len(x) < 20 else "", markersize=3, **look)
        axes.fill_between(x, low, high, color=look["color"], alpha=0.2, linewidth=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.margins(x=0.02)


def _reference(axes: Axes, line: tuple[str, float] | None) -> None:
    if line:
        name, value = line
        axes.axhline(value, color=style.INK, linewidth=0.9, linestyle=":")
        axes.annotate(name, (0.01, value), xycoords=("axes fraction", "data"), fontsize=7, va="bottom")


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
    figure.suptitle(style.wrapped(title or comparisons[0].evaluations.title, width), x=0.01, ha="left", fontsize=11)
    return figure


def _centered(summary: Summary, center: Center) -> tuple[float, float, float]:
    """How high a bar is, and how far the line on it reaches below and above."""
    if center == "mean":
        return summary.mean, summary.standard_error, summary.standard_error
    return summary.median, summary.median - summary.lower_quartile, summary.upper_quartile - summary.median


def _interval(axes: Axes, y: int, estimate: tuple[float, float, float], color: str) -> None:
    value, low, high = estimate
    if not math.isnan(low):
        axes.barh(y, high - low, left=low, height=0.62, color=color, alpha=0.75)
    axes.plot([value, value], [y - 0.38, y + 0.38], color="#222222", linewidth=1.6)
