"""`tutelage levels`: what a domain's zero-shot benchmark looks like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from tyro.conf import Positional

from tutelage.domains import maze, racing
from tutelage.domains.maze.image import draw
from tutelage.domains.maze.oracle import fewest_actions, shortest_path
from tutelage.domains.racing import track
from tutelage.domains.racing.image import birds_eye
from tutelage.evaluation.images import png, sheet
from tutelage.types import Key

SIDE = 315
"""About how many pixels wide each maze is drawn; the largest are wider, so that their corridors can be seen."""


@dataclass(frozen=True)
class Levels:
    """List a domain's test levels, and draw them on one sheet."""

    domain: Positional[Literal["maze", "racing"]]
    """Whose levels to show."""
    out: Path | None = None
    """Where to write the picture: maze.png or racing.png here, if not said otherwise."""
    seed: int = 0
    """Which of the random levels to draw."""

    def run(self) -> None:
        """Print one line for each level and write the sheet."""
        pictures, titles = [], []
        show = {"maze": _mazes, "racing": _tracks}[self.domain]
        for title, line, picture in show(jax.random.key(self.seed)):
            print(line, flush=True)
            if picture is not None:
                titles.append(title)
                pictures.append(np.asarray(picture))
        out = self.out or Path(f"{self.domain}.png")
        png(out, sheet(pictures, titles))
        print(f"A picture of each is in {out}.")


Row = tuple[str, str, Any]
"""A level's name, its line of the table, and its picture; the table's head has none."""


def _mazes(key: Key) -> Iterator[Row]:
    @jax.jit
    def inspect(level: maze.Level) -> tuple[jax.Array, jax.Array, jax.Array]:
        return shortest_path(level), fewest_actions(level), draw(level, max(3, SIDE // level.walls.shape[0]))

    yield "", f"{'level':20} {'size':>4} {'path':>5} {'actions':>7} {'limit':>6}", None
    for index, entry in enumerate(maze.domain().suites["maze"]):
        level = jax.jit(entry.draw)(jax.random.fold_in(key, index))
        path, actions, picture = inspect(level)
        size = level.walls.shape[0]
        yield entry.name, f"{entry.name:20} {size:4} {path:5} {actions:7} {entry.env.horizon:6}", picture


def _tracks(key: Key) -> Iterator[Row]:
    @jax.jit
    def inspect(line: track.CenterLine) -> tuple[jax.Array, jax.Array]:
        return track.steps(line).sum(), abs(track.curvature(line)).max()

    yield "", f"{'suite':9} {'level':12} {'tiles':>5} {'length':>7} {'tightest bend':>13} {'limit':>11}", None
    suites = racing.domain().suites
    # the released code's circuits are the same, with other limits
    shown = [(name, entry) for name in ("f1", "bezier", "original") for entry in suites[name]]
    for index, (name, entry) in enumerate(shown):
        level = jax.jit(entry.draw)(jax.random.fold_in(key, index))
        line = track.road(level)
        length, curvature = inspect(line)
        reach = float(np.abs(line.points).max()) + 2 * track.HALF_WIDTH
        bend = f"{1 / curvature:.0f} m"
        assert isinstance(entry.env, racing.RacingEnv)
        limit = f"{entry.env.frames} frames"
        text = f"{name:9} {entry.name:12} {line.n:5} {length:5.0f} m {bend:>13} {limit:>11}"
        yield entry.name, text, birds_eye(line, extent=reach)
