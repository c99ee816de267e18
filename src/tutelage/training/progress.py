"""Progress on standard error: a bar in a terminal, and a plain line from time to time elsewhere.

The bar takes one line of 80 columns; a second line has the latest metrics, separately for new and for replayed levels.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

FIRST, EVERY = 10.0, 60.0
"""Seconds until the first plain line, and between the others."""

WINDOW = 60.0
"""Seconds over which the rate is measured."""


class ProgressBar:
    """Shows the progress of some work.

    with ProgressBar("plr-perp, seed 0", config.total_steps) as bar:
        bar.update(steps, metrics)  # of one more iteration
    """

    def __init__(self, title: str, total: int, done: int = 0, quiet: bool = False, unit: str = "steps") -> None:
        """Work of `total` units, of which some may be `done` already; shown unless `quiet`."""
        from rich.console import Console  # here, so that `import tutelage` does not load it

        self.total, self.title, self.unit, self.done, self.quiet = total, title, unit, done, quiet
        self.facts: dict[str, str] = {}
        self._stage = ""
        self._console = Console(file=sys.stderr, highlight=False)
        self._live: Any = None
        self._seen = deque([(time.monotonic(), done)])
        self._next_line = time.monotonic() + FIRST
        if self._console.is_terminal and not quiet:
            from rich.live import Live

            self._live = Live(get_renderable=self._drawn, console=self._console, refresh_per_second=4)
            self._live.start()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def stage(self, text: str) -> None:
        """Show what takes long now, until the next update: next to the bar, or in a plain line."""
        self._stage = text
        if not self._live:
            self.write(f"{self.title}: {text}")

    def update(self, count: int, metrics: Mapping[str, float] | None = None) -> None:
        """Add `count` units of work, done in an iteration with these metrics."""
        self.done += count
        self._stage = ""
        self.facts |= latest(metrics or {})
        now = time.monotonic()
        self._seen.append((now, self.done))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW:
            self._seen.popleft()
        if not (self.quiet or self._live) and now >= self._next_line and self.done < self.total:
            self._next_line = now + EVERY
            self.write(self.line())

    def write(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        if not self.quiet:
            self._console.print(line, markup=False, soft_wrap=True)

    def line(self) -> str:
        share = f"{self.done:,} of {self.total:,} {self.unit} ({self.done / max(self.total, 1):.0%})"
        return "; ".join([f"{self.title}: {share}, {self._pace(short=False)}", *self._facts()])

    def _pace(self, *, short: bool) -> str:
        (start, before), (now, done) = self._seen[0], self._seen[-1]
        rate = (done - before) / (now - start) if now > start else 0.0
        if self._stage or not rate:
            return self._stage or "starting"
        left = duration(max(0.0, (self.total - self.done) / rate))
        speed = shortened(rate) if short else f"{rate:,.3g} {self.unit}"
        return f"{speed}/s, {left} left"

    def _facts(self) -> list[str]:
        return [f"{name}: {fact}" for name, fact in sorted(self.facts.items())]

    def _drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        count = f"{shortened(self.done)}/{shortened(self.total)} {self.unit}, {self._pace(short=True)}"
        room = min(self._console.width, 100) - len(self.title) - len(count) - 2
        bar = ProgressBar(max(self.total, 1), self.done, width=max(8, room))
        grid.add_row(Text(self.title), bar, Text(count, no_wrap=True))
        if not self.facts:
            return grid
        return Group(grid, Text(" · ".join(self._facts()), style="dim", no_wrap=True, overflow="ellipsis"))


def latest(metrics: Mapping[str, float]) -> dict[str, str]:
    """The protagonist's main metrics of an iteration, by the kind of levels that it played."""
    kind = "replayed" if metrics.get("replay") else "new"
    shown = ("solved", "return", "score")
    found = [f"{name} {metrics[f'{kind}/{name}']:.2f}" for name in shown if f"{kind}/{name}" in metrics]
    return {kind: ", ".join(found)} if found else {}


def shortened(x: float) -> str:
    """A number of at least 0 in about three digits: 950, 35.1k, 1.20M."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= 0.9995 * size:
            return f"{x / size:#.3g}".rstrip(".") + letter
    return f"{x:.0f}" if x >= 10 or x == int(x) else f"{x:.1f}"


def duration(seconds: float) -> str:
    """Two units at most: 45 s, 2 min 24 s, 3 h 5 min, 2 d 4 h."""
    rest, parts = round(seconds), list[str]()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(filter(None, parts[:2])) or "0 s"
