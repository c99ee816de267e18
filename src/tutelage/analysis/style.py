"""The style of figures: one color for each method, readable names, panels with one legend above them all."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tutelage.analysis.results import display

WIDTH, NARROW = 9.0, 3.75
"""Inches: 864 pixels in a browser, and 360 for a phone."""

COLORS: Mapping[str, str] = {
    "dr": "#888888",
    "minimax": "#aa3377",
    "paired": "#ccbb44",
    "plr": "#4477aa",
    "plr-perp": "#228833",
    "repaired": "#ee6677",
    "accel": "#66ccee",
}
"""Paul Tol's bright palette, safe for color-blind readers."""

OTHERS = ("#332288", "#44aa99", "#999933", "#882255", "#dd7733", "#117733", "#6699cc", "#661100")
"""Colors of methods with other names, in turn."""

INK = "#333333"

P = ParamSpec("P")

RC: dict[str, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.title_fontsize": 11,
    "lines.linewidth": 1.6,
    "figure.dpi": 160,
    "text.hinting": "none",  # letters are as wide in the picture as in the layout, at any resolution
    "svg.hashsalt": "tutelage",  # identifiers inside the file would be random
    "svg.fonttype": "path",  # letters look the same wherever the picture is shown
    "text.parse_math": False,  # a level's name may hold a dollar sign
}
"""For matplotlib's `rc_context`, while a figure is drawn and while it is written."""


def drawn(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw in this style, and lay the figure out once: a second layout would move things a little."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(RC):
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return figure

    return styled


WORDS: Mapping[str, str] = {
    "solved": "solved rate",
    "length": "episode length in steps",
    "action_complexity": "action complexity (LZW codes)",
    "fill": "share of the buffer filled",
    "age": "age of scores in iterations",
    "utility": "reward of the teacher",
    "approx_kl": "KL divergence of an update",
    "clip_fraction": "share of clipped ratios",
    "grad_norm": "norm of the gradient",
}
"""Metrics whose names alone are not clear."""


def words(metric: str) -> str:
    """A metric's name in words: "new/solved_shortest_path" is "shortest path of solved levels, new"."""
    *kinds, name = metric.split("/")
    if name.startswith("solved_"):
        name = f"{name.removeprefix('solved_').replace('_', ' ')} of solved levels"
    return ", ".join([WORDS.get(name, name.replace("_", " ")), *kinds])


def folded(name: str, limit: int = 13) -> str:
    """A long name of several Words in two lines of similar length."""
    breaks = [match.start() for match in re.finditer(r"(?<=[a-z])(?=[A-Z])", name)]
    if len(name) <= limit or not breaks:
        return name
    best = min(breaks, key=lambda i: abs(i - len(name) / 2))
    return f"{name[:best]}\n{name[best:]}"


def wrapped(text: str, width: float) -> str:
    """A title broken into lines that fit a figure of this width in inches."""
    return textwrap.fill(text, int(12.5 * width), break_long_words=True)


def looks(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The color of each label's method; further settings of one method are lighter, and dashed."""
    seen: dict[str, int] = {}
    out = {}
    for label in labels:
        method = label.partition(",")[0]
        nth = seen[method] = seen.get(method, -1) + 1
        others = [name for name in seen if name not in COLORS]
        base = np.array(colors.to_rgb(COLORS.get(method) or OTHERS[others.index(method) % len(OTHERS)]))
        out[label] = {
            "color": colors.to_hex(base + (1 - base) * (1 - 0.68**nth)),
            "linestyle": ("-", "--", "-.", ":")[nth % 4],
        }
    return out


def panels(
    n: int, columns: int, height: float, width: float, *, sharex: bool = False, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with n panels of the given height in inches.

    Rows have `columns` panels, or one less if that is neater, and fewer if the figure is narrower than usual.
    """
    columns = min(n, max(1, round(columns * width / WIDTH)))
    if columns > 2 and -n % (columns - 1) < -n % columns:
        columns -= 1
    rows = math.ceil(n / columns)
    figure = Figure(figsize=(width, 0.75 + rows * height), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False)
    for spare in grid.flat[n:]:
        spare.remove()
    for last in grid.flat[max(0, n - columns) : n]:
        last.tick_params(labelbottom=True)  # also above a spare place
    return figure, [*grid.flat[:n]]


def legend(figure: Figure, labels: Sequence[str], title: str, linewidth: float = 1.6) -> None:
    """The figure's title, and below it the color of each label."""
    handles = [
        Line2D([], [], label=display(label), linewidth=linewidth, solid_capstyle="butt", **look)
        for label, look in looks(labels).items()
    ]
    figure.legend(
        handles=handles,
        title=wrapped(title, figure.get_figwidth()),
        loc="outside upper left",
        alignment="left",
        ncols=_legend_columns([display(label) for label in labels], 105 * figure.get_figwidth() / WIDTH),
        borderaxespad=0.2,
    )


def _legend_columns(names: Sequence[str], letters: float) -> int:
    """The most columns of names, filled one after the other, whose widest names fit a line of so many letters."""
    for columns in range(len(names), 1, -1):
        if sum(max(map(len, column)) + 6 for column in np.array_split(names, columns)) <= letters:
            return columns
    return 1
