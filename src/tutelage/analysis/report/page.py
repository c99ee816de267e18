"""The parts of a page (sections of figures, tables, rows of pictures and notes), and how they become one file."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from tutelage.analysis import plots, style
from tutelage.analysis.tables import Table


@dataclass(frozen=True)
class Heading:
    """A smaller title inside a section."""

    text: str


@dataclass(frozen=True)
class Note:
    """A sentence or two."""

    text: str


@dataclass(frozen=True)
class Plot:
    """A figure as SVG, drawn once for a wide window and once for a narrow one."""

    wide: str
    narrow: str
    label: str
    """What it shows, for screen readers."""

    @classmethod
    def of(cls, draw: Callable[..., Figure], label: str, *arguments: Any, **options: Any) -> Plot:
        """A figure of matplotlib, drawn in both widths by `draw`."""
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
    """Pictures in a row, under a line about all of them."""

    title: str
    about: str
    tiles: Sequence[Tile]
    wraps: bool = False
    """Continue in the next line instead of scrolling sideways."""
    large: bool = False
    joined: bool = False
    """Put arrows between the pictures."""


@dataclass(frozen=True)
class Columns:
    """Small tables side by side."""

    tables: Sequence[Table]


Block = Heading | Note | Plot | Table | Columns | Row


@dataclass(frozen=True)
class Section:
    """A chapter of the page, left out if it has no blocks."""

    name: str
    """Its anchor."""
    title: str
    about: str
    blocks: Sequence[Block] = ()


def render(title: str, about: str, sections: Sequence[Section]) -> str:
    """The HTML of a page, with those sections that have any blocks."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tutelage.analysis.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers = itertools.count(1)

    def embed(svg: str, label: str) -> Markup:
        """An SVG element whose identifiers no other element of the page has."""
        name = f"plot-{next(numbers)}-"
        svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->\n?", "", svg, flags=re.DOTALL)
        svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}", svg)
        return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1))

    shown = [section for section in sections if section.blocks]
    template = environment.get_template("page.html")
    return template.render(title=title, about=about, sections=shown, embed=embed)
