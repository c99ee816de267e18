"""What a page is made of: sections, and in them figures, tables, rows of pictures and sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from matplotlib.figure import Figure

from tutelage.analysis import plots, style
from tutelage.analysis.tables import Table


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
    """A figure as SVG, drawn once for a wide window and once for a narrow one."""

    kind: ClassVar[str] = "plot"
    wide: str
    narrow: str
    label: str
    """What it shows, for screen readers."""

    @classmethod
    def of(cls, draw: Callable[..., Figure], label: str, *arguments: Any, **options: Any) -> Plot:
        """A figure of matplotlib's, which `draw` makes in any width."""
        wide, narrow = draw(*arguments, **options), draw(*arguments, **options, width=style.NARROW)
        return cls(plots.svg(wide), plots.svg(narrow), label)


@dataclass(frozen=True)
class Tile:
    """A picture with a few lines below it."""

    picture: str
    """A data URI."""
    alt: str
    lines: Sequence[str]
    still: str | None = None
    """What to show instead of a video to readers who prefer less motion."""


@dataclass(frozen=True)
class Row:
    """Pictures side by side, under a line about all of them."""

    kind: ClassVar[str] = "row"
    title: str
    about: str
    tiles: Sequence[Tile]
    wraps: bool = False
    """Continue in the next line instead of scrolling sideways."""
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
    """A chapter of the page, left out if it has no blocks."""

    name: str
    """Its anchor."""
    title: str
    about: str
    blocks: Sequence[Block] = field(default_factory=tuple)
