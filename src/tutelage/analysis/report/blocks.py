"""What a page is made of: sections, and in them plots, tables, rows of pictures and sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from matplotlib.figure import Figure

from tutelage.analysis import plots


@dataclass(frozen=True)
class Heading:
    """A smaller title inside a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Note:
    """A sentence or two."""

    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class Plot:
    """A figure as SVG."""

    kind: ClassVar[str] = "plot"
    svg: str
    label: str
    """What it shows, for those who do not see it."""

    @classmethod
    def of(cls, figure: Figure, label: str) -> Plot:
        """A figure of matplotlib's."""
        return cls(plots.svg(figure), label)


@dataclass(frozen=True)
class Table:
    """Names to the left, numbers to the right. All cells are text."""

    kind: ClassVar[str] = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    words: bool = False
    """Its cells are words rather than numbers, and all stand to the left."""
    folded: bool = False
    """Show its caption only, until a reader opens it."""


@dataclass(frozen=True)
class Tile:
    """A picture with a few lines below it."""

    picture: str
    """A data URI."""
    alt: str
    lines: Sequence[str]
    still: str | None = None
    """What to show instead of a video to those who prefer less motion."""


@dataclass(frozen=True)
class Row:
    """Pictures side by side, under a line that says what they have in common."""

    kind: ClassVar[str] = "row"
    title: str
    about: str
    tiles: Sequence[Tile]
    wraps: bool = False
    """Go on in the next line instead of scrolling to the side."""
    large: bool = False
    """Twice as high, and as wide as that needs."""
    joined: bool = False
    """Each follows from the one before: put arrows between them."""


@dataclass(frozen=True)
class Columns:
    """Small tables side by side."""

    kind: ClassVar[str] = "columns"
    tables: Sequence[Table]


Block = Heading | Note | Plot | Table | Columns | Row


@dataclass(frozen=True)
class Section:
    """A chapter of the page, left out if it has nothing to say."""

    name: str
    """Its anchor."""
    title: str
    about: str
    blocks: Sequence[Block] = field(default_factory=tuple)


def number(x: Any, digits: int = 3) -> str:
    """For people: 1,234 or 0.123, and a dash for what is not known."""
    if x is None or (isinstance(x, float) and math.isnan(x)):
        return "–"
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, int):
        return f"{x:,}"
    if isinstance(x, float):
        return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.{digits}g}" if abs(x) >= 100 else f"{x:.{digits - 1}f}"
    return str(x)
