"""What `tutelage game` draws: worst-case regret against p (Corollary 1), and over time for the six methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from tutelage.analysis import style
from tutelage.analysis.results import NAMES
from tutelage.games import WorstCase
from tutelage.games.matrix import Matrix

COLORS = {NAMES[method]: color for method, color in style.COLORS.items()}

TEND_TO_MINIMAX_REGRET = ("PAIRED", "PLR⊥", "REPAIRED")
"""Methods that are drawn solid, the others dashed."""


@style.drawn
def draw_sweep(shares: Sequence[float], cases: Sequence[WorstCase], title: str) -> Figure:
    """Worst-case regret at PLR's equilibrium for each p, between R* and the bound of Corollary 1."""
    worst, optimum, bound = np.array(cases).T
    figure, axes = _panel(title)
    axes.plot(shares, bound, color=COLORS["DR"], linestyle="--", label="bound R* + 2(B⁺−B⁻)(1−p)")
    axes.plot(shares, optimum, color=COLORS["PLR⊥"], linewidth=3, label="R*, the least possible")
    axes.plot(shares, worst, color=COLORS["PLR"], marker="o", markersize=2.5, label="PLR's equilibrium")
    axes.fill_between(shares, optimum, worst, color=COLORS["PLR"], alpha=0.12, linewidth=0)
    axes.set(xlabel="p, the share of levels that the curator chooses", ylabel="worst-case regret of the student")
    axes.set(xlim=(0, 1), ylim=(0, 1.25 * worst.max() or 1))  # the bound may lie far above
    axes.legend()
    return figure


@style.drawn
def draw_dynamics(curves: Mapping[str, Matrix], optimum: float, title: str) -> Figure:
    """Each method's mean worst-case regret, with quartiles as a band; curves are [runs, iterations]."""
    figure, axes = _panel(title)
    for name, curve in curves.items():
        time, line = np.arange(1, curve.shape[1] + 1), "-" if name in TEND_TO_MINIMAX_REGRET else "--"
        axes.plot(time, curve.mean(axis=0), label=name, color=COLORS[name], linestyle=line)
        axes.fill_between(time, *np.quantile(curve, (0.25, 0.75), axis=0), color=COLORS[name], alpha=0.12, linewidth=0)
        axes.set_xlim(1, max(2, len(time)))
    axes.axhline(optimum, color="black", linewidth=0.8, linestyle=":", label="R*")
    axes.set(xscale="log", xlabel="iterations", ylabel="worst-case regret of the average student")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter("")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _panel(title: str) -> tuple[Figure, Axes]:
    figure, [axes] = style.panels(1, 1, 3.45, 7)
    axes.set_title(style.wrapped(title, 7))
    return figure, axes
