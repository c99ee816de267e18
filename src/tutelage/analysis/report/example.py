"""One run of a method, which stands for all of its seeds where levels are shown."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tutelage.analysis.report.blocks import Block, Heading, Tile
from tutelage.analysis.report.pictures import Levels
from tutelage.training.run import Run
from tutelage.types import Json

Snapshot = dict[str, Json]

Entry = dict[str, Json]
"""One level of a snapshot."""


class Example:
    """A run whose snapshots are read once, and each of whose levels is drawn once."""

    def __init__(self, run: Run, title: str, *, alone: bool) -> None:
        """`alone`: it is the only one in the page, and nobody needs to be told which it is."""
        self.run, self.title, self.alone = run, title, alone

    @property
    def heading(self) -> list[Block]:
        """What to put above all that is about it."""
        return [] if self.alone else [Heading(self.title)]

    @cached_property
    def snapshots(self) -> Sequence[Snapshot]:
        """In order of time, without those that show nothing."""
        return [snapshot for snapshot in self.run.snapshots() if snapshot["entries"]]

    def tile(self, entry: Entry, lines: Sequence[str]) -> Tile:
        """The picture of a level, with lines below it."""
        about = [f"{name} {value}" for name, value in entry["about"].items()]
        return Tile(self._draw(entry["level"]), ", ".join([f"level {entry['name']}", *about]), lines)

    @cached_property
    def _draw(self) -> Levels:
        return Levels(self.run.domain.design)
