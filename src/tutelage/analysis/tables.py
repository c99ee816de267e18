"""Tables as text, Markdown and LaTeX, and the formats of numbers in them."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

WIDTH = 100
"""The width of a table in characters where there is no terminal; long names may exceed it."""


@dataclass(frozen=True)
class Table:
    """Names to the left, numbers to the right. All cells are text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    words: bool = False
    """Its cells are words rather than numbers, and all are aligned to the left."""
    bold: Collection[tuple[int, int]] = ()
    """Cells that stand out, by row and column."""
    collapsed: bool = False
    """A page shows the caption only, until a reader opens it."""

    def records(self) -> list[dict[str, str]]:
        """The rows by the names of their columns."""
        return [dict(zip(self.head, row, strict=True)) for row in self.rows]


def show(*tables: Table) -> None:
    """Print tables; in a terminal in its width and with a bold head."""
    from rich.console import Console

    console = Console(highlight=False)
    width = console.width if console.is_terminal else WIDTH
    print("\n\n".join(text(table, width, color=console.is_terminal) for table in tables), flush=True)


def text(table: Table, width: int = WIDTH, *, color: bool = False) -> str:
    """A table as lines. Columns that do not fit the width follow below, with the first column repeated."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text  # plain text: a level's name may look like markup

    file = io.StringIO()
    console = Console(file=file, width=10_000, force_terminal=color, highlight=False, legacy_windows=False)
    for i, part in enumerate(_split(table, width)):
        rich = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for j, name in enumerate(part.head):
            rich.add_column(Text(name), justify="left" if j == 0 or table.words else "right", no_wrap=True)
        for row in part.rows:
            rich.add_row(*map(Text, row))
        if i:
            console.print()
        elif table.caption:
            console.print(Text(table.caption, style="dim"))
        console.print(rich)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def markdown(table: Table) -> str:
    """A Markdown table with its caption above."""
    rule = ["---", *("---" if table.words else "---:" for _ in table.head[1:])]
    rows = [table.head, rule, *_marked(table, lambda text: text.replace("|", r"\|"), "**{}**")]
    return "\n".join([table.caption, "", *(f"| {' | '.join(row)} |" for row in rows), ""])


SIGNS = {"⊥": r"$\perp$", "±": r"$\pm$", "−": "$-$", "–": "--", ">": "$>$", "<": "$<$", "ν": r"$\nu$"}
SIGNS |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\^{}"} | {x: f"\\{x}" for x in "&%$#_{}"}
"""What LaTeX needs in place of some letters."""


def latex(table: Table) -> str:
    """A head and rows for a LaTeX table with booktabs; the caption is a comment."""
    signs = str.maketrans(SIGNS)
    cells = _marked(table, lambda text: text.translate(signs), r"\textbf{{{}}}")
    head, *rows = [" & ".join(row) + r" \\" for row in ([name.translate(signs) for name in table.head], *cells)]
    return "\n".join([f"% {table.caption}", head, r"\midrule", *rows, ""])


def _marked(table: Table, escape: Callable[[str], str], bold: str) -> list[list[str]]:
    """The cells with letters escaped, and those in bold that stand out."""
    return [
        [bold.format(escape(text)) if (i, j) in table.bold else escape(text) for j, text in enumerate(row)]
        for i, row in enumerate(table.rows)
    ]


def number(x: Any, digits: int = 3) -> str:
    """A number as text: 1,234 or 0.123; a dash for what is not known."""
    if x is None or (isinstance(x, float) and math.isnan(x)):
        return "–"
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, int):
        return f"{x:,}"
    if isinstance(x, float):
        return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.{digits}g}" if abs(x) >= 100 else f"{x:.{digits - 1}f}"
    return str(x)


def decimal(x: float, digits: int, sign: Literal["+", "-"] = "-") -> str:
    """A number with `digits` decimals, its sign always shown or only if negative; a dash for what is not known."""
    return "–" if math.isnan(x) else f"{x:{sign}.{digits}f}"


def interval(value: float, low: float, high: float, digits: int) -> str:
    """A value and its interval: 0.30 [0.15, 0.51]."""
    return f"{decimal(value, digits)} [{decimal(low, digits)}, {decimal(high, digits)}]"


def plus_minus(value: float, error: float, digits: int) -> str:
    """A value and its standard error: 0.30 ± 0.02. The error is left out if it is 0 or not known."""
    return decimal(value, digits) + (f" ± {decimal(error, digits)}" if error > 0 else "")


def probability(p: float) -> str:
    """A p-value with four decimals, or "<.0001"."""
    return "<.0001" if p < 0.0001 else decimal(p, 4)


def _split(table: Table, width: int) -> Iterator[Table]:
    """Parts that fit, each with the first column."""
    columns = [*zip(table.head, *table.rows, strict=True)]
    first, block, used = columns[0], [columns[0]], 0
    room = width - max(map(len, first))

    def part() -> Table:
        head, *rows = zip(*block, strict=True)
        return replace(table, head=head, rows=rows)

    for column in columns[1:]:
        needed = 2 + max(map(len, column))
        if len(block) > 1 and used + needed > room:
            yield part()
            block, used = [first], 0
        block.append(column)
        used += needed
    yield part()
