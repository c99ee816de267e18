"""What mattered: the figure of the second and the fourth round, from `trials.csv`.

    python studies/recipe/figure.py docs/images/recipe.png

A point for each run, a bar for the mean of each change: the solved rate on the suite `validation`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

from matplotlib.figure import Figure

from tutelage.analysis import style
from tutelage.analysis.plots import png
from tutelage.files import read_csv, write_atomically

Rates = dict[str, list[float]]
"""The solved rate of each run, by what was changed."""


def read() -> tuple[Rates, Rates]:
    """The second round, one option at a time; and the fourth, cheaper steps."""
    levels = defaultdict[tuple[str, int, int, int], list[float]](list)
    for row in read_csv(Path(__file__).with_name("trials.csv")):
        if row["suite"] == "validation" and not row["change"].startswith("accel"):
            run = row["change"], int(row["steps"]), int(row["seed"]), int(row["episodes"])
            levels[run].append(float(row["solved"]))
    second, fourth = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for (change, steps, _, episodes), solved in levels.items():
        if episodes == 20:
            second[change].append(mean(solved))
        else:
            fourth[f"{change}, {steps / 1e6:.0f} M steps"].append(mean(solved))
    return second, fourth


@style.drawn
def draw(rounds: dict[str, Rates]) -> Figure:
    """A panel for each round, the best change on top."""
    figure, panels = style.panels(len(rounds), len(rounds), 3.6, style.WIDTH, sharex=True)
    for axes, (title, rates) in zip(panels, rounds.items(), strict=True):
        changes = sorted(rates, key=lambda change: mean(rates[change]))
        for y, change in enumerate(changes):
            color = style.INK if change == "none" else style.COLORS["plr-perp"]
            axes.plot(rates[change], [y] * len(rates[change]), "o", color=color, alpha=0.6, markersize=6)
            axes.plot([mean(rates[change])] * 2, [y - 0.3, y + 0.3], color=color, linewidth=2.5)
        axes.set(title=title, xlabel="solved, suite validation", yticks=range(len(changes)), yticklabels=changes)
        axes.tick_params(axis="y", length=0)
    return figure


if __name__ == "__main__":
    [out] = sys.argv[1:]
    second, fourth = read()
    titles = "One option changed, 10 M steps", "Cheaper steps, more of them"
    write_atomically(out, png(draw(dict(zip(titles, (second, fourth), strict=True)))))
