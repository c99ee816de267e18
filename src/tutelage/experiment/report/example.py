"""One run of a method, which stands for all of its seeds where levels are shown."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tutelage.experiment.report.blocks import Tile
from tutelage.experiment.report.pictures import Levels
from tutelage.experiment.run import Run
from tutelage.types import Json

Snapshot = dict[str, Json]

Entry = dict[str, Json]
"""One level of a snapshot."""


class Example:
    """A run whose snapshots are read once, and each of whose levels is drawn once."""

    def __init__(self, run: Run, title: str) -> None:
        self.run, self.title = run, title

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
