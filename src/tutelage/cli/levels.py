"""`tutelage levels`: what a domain's zero-shot benchmark looks like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jax
from tyro.conf import Positional

from tutelage.domains.maze.image import draw, png, sheet
from tutelage.domains.maze.level import Level
from tutelage.domains.maze.oracle import fewest_actions, shortest_path
from tutelage.domains.maze.suite import suite

SIDE = 315
"""About how many pixels wide each maze is drawn; the largest are wider, so that their corridors can be seen."""


@dataclass(frozen=True)
class Levels:
    """List a domain's test levels, and draw them on one sheet."""

    domain: Positional[Literal["maze"]]
    """Whose levels to show."""
    out: Path = Path("mazes.png")
    """Where to write the picture."""
    seed: int = 0
    """Which of the random levels to draw."""

    def run(self) -> None:
        """Print one line for each level and write the sheet."""
        pictures, titles = [], []
        print(f"{'level':20} {'size':>4} {'path':>5} {'actions':>7} {'limit':>6}")
        for index, entry in enumerate(suite()):
            level = jax.jit(entry.draw)(jax.random.fold_in(jax.random.key(self.seed), index))
            path, actions, picture = _inspect(level)
            print(f"{entry.name:20} {level.walls.shape[0]:4} {path:5} {actions:7} {entry.env.horizon:6}", flush=True)
            pictures.append(picture)
            titles.append(entry.name)
        png(self.out, sheet(pictures, titles))
        print(f"A picture of each is in {self.out}.")


@jax.jit
def _inspect(level: Level) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Path, fewest actions and picture; compiled once for each size."""
    return shortest_path(level), fewest_actions(level), draw(level, max(3, SIDE // level.walls.shape[0]))
