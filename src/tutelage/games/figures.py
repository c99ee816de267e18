"""Two figures: worst-case regret against p (Corollary 1), and over time for the six methods."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tutelage.files import write_atomically
from tutelage.games.dual import WorstCase
from tutelage.games.matrix import Matrix

# Color-blind safe. The methods that tend to minimax regret are drawn solid, the others dashed.
_STYLES: Mapping[str, tuple[str, str]] = {
    "DR": ("#888888", "--"),
    "Minimax": ("#aa3377", "--"),
    "PAIRED": ("#ccbb44", "-"),
    "PLR": ("#4477aa", "--"),
    "PLR⊥": ("#228833", "-"),
    "REPAIRED": ("#ee6677", "-"),
}


def draw_sweep(shares: Sequence[float], cases: Sequence[WorstCase], title: str) -> Figure:
    """Worst-case regret at PLR's equilibrium for each p, between R* and the bound of Corollary 1."""
    worst, optimum, bound = np.array(cases).T
    figure, axes = _figure(title)
    axes.plot(shares, bound, color="#888888", linestyle="--", label="bound R* + 2(B⁺−B⁻)(1−p)")
    axes.plot(shares, optimum, color="#228833", linewidth=3, label="R*, the least possible")
    axes.plot(shares, worst, color="#4477aa", marker="o", markersize=2.5, label="PLR's equilibrium")
    axes.fill_between(shares, optimum, worst, color="#4477aa", alpha=0.12, linewidth=0)
    axes.set(
        xlabel="p, the share of levels that the curator chooses",
        ylabel="worst-case regret of the student",
        xlim=(0, 1),
        ylim=(0, 1.25 * worst.max() or 1),  # the bound may lie far above
    )
    axes.legend(frameon=False)
    return figure


def draw_dynamics(curves: Mapping[str, Matrix], optimum: float, title: str) -> Figure:
    """Each method's mean worst-case regret, with quartiles as a band; curves are [runs, iterations]."""
    figure, axes = _figure(title)
    iterations = next(iter(curves.values())).shape[1]
    time = np.arange(1, iterations + 1)
    for name, curve in curves.items():
        color, line = _STYLES[name]
        axes.plot(time, curve.mean(axis=0), label=name, color=color, linestyle=line)
        axes.fill_between(time, *np.quantile(curve, (0.25, 0.75), axis=0), color=color, alpha=0.12, linewidth=0)
    axes.axhline(optimum, color="black", linewidth=0.8, linestyle=":", label="R*")
    axes.set(
        xscale="log",
        xlabel="iterations",
        ylabel="worst-case regret of the average student",
        xlim=(1, max(2, iterations)),
    )
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def save(figure: Figure, path: Path) -> None:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=160)
    write_atomically(path, content.getvalue())


def _figure(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    return figure, axes
