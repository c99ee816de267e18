"""Θ for mazes: draw, edit, mutate, measure and show levels.

Domain randomisation draws a budget of walls with replacement, then the goal, then the agent (paper, section 5.1
and appendix). Drawing the goal among all cells and moving it to a random empty one if it hits a wall is the same as
drawing it among the empty cells, which is what `sample` does. In the released code the wall gives way instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tutelage.domains.maze import image
from tutelage.domains.maze import level as text
from tutelage.domains.maze.editor import EditorState, MazeEditor
from tutelage.domains.maze.level import Level, at, below, furnish, furnish_anywhere, random_cell, room, valid
from tutelage.domains.maze.oracle import shortest_path
from tutelage.types import Design, InputError, Json, Key


@dataclass(frozen=True)
class MazeDesign(Design):
    """Mazes of one size, border included. The budget is `blocks` walls, or uniform in 0..blocks with `vary_blocks`.

    Goal and agent go around walls, or with `clears` walls give way to them.
    """

    size: int = 15
    blocks: int = 25
    vary_blocks: bool = False
    clears: bool = False

    def __post_init__(self) -> None:
        if self.size < 4:
            raise InputError(f"A maze needs a size of at least 4, border included, not {self.size}.")
        if not 0 <= self.blocks <= (self.size - 2) ** 2 - 2:
            raise InputError(
                f"A maze of size {self.size} has room for 0 to {(self.size - 2) ** 2 - 2} blocks "
                f"beside agent and goal, not {self.blocks}."
            )

    @property
    def editor(self) -> MazeEditor:
        """The teacher's MDP. A teacher always has the whole budget, and may waste it."""
        return MazeEditor(self.size, self.blocks, self.clears)

    def sample(self, key: Key) -> Level:
        """Draw walls, then the goal, then the agent and its heading."""
        wall_key, count_key, place_key = jax.random.split(key, 3)
        inner = self.size - 2
        cells = below(wall_key, inner**2, (self.blocks,))
        if self.vary_blocks:
            count = below(count_key, self.blocks + 1)
            cells = jnp.where(jnp.arange(self.blocks) < count, cells, inner**2)  # one past the end: no cell
        hit = jnp.any(cells[:, None] == jnp.arange(inner**2), axis=0).reshape(inner, inner)
        place = furnish_anywhere if self.clears else furnish
        return place(place_key, jnp.pad(hit, 1, constant_values=True))

    def build(self, key: Key, state: EditorState) -> Level:
        """The maze that an editor has finished."""
        return Level(state.walls, state.agent, state.direction, state.goal)

    def mutate(self, key: Key, level: Level) -> Level:
        """One of ACCEL's three edits, each as likely: put a wall, clear a cell, or move the goal.

        The first two strike a random inner cell and leave agent and goal alone; the goal moves to a random empty
        cell. As in ACCEL there is no budget.
        """
        kind_key, cell_key, goal_key = jax.random.split(key, 3)
        kind = below(kind_key, 3)
        taken = at(level.agent, self.size) | at(level.goal, self.size)
        here = at(random_cell(cell_key, ~room(self.size)), self.size)
        walls = jnp.where(kind == 0, level.walls | (here & ~taken), level.walls)
        walls = jnp.where(kind == 1, walls & ~here, walls)
        empty = ~level.walls & ~taken
        moves = (kind == 2) & jnp.any(empty)
        return level._replace(walls=walls, goal=jnp.where(moves, random_cell(goal_key, empty), level.goal))

    def valid(self, level: Level) -> jax.Array:
        """bool[]: closed border, agent and goal on two different empty cells."""
        return valid(level)

    def describe(self, level: Level) -> dict[str, jax.Array]:
        """The paper's measures: walls inside the border, shortest path (0 if there is none), whether there is one."""
        path = shortest_path(level)
        blocks = jnp.sum(level.walls[1:-1, 1:-1], dtype=jnp.int32)
        return {"blocks": blocks, "shortest_path": path, "solvable": path > 0}

    def image(self, level: Level) -> jax.Array:
        """u8[H·16, W·16, 3]: a picture for people."""
        return image.draw(level)

    def to_json(self, level: Level) -> Json:
        """The rows of the drawing."""
        return text.to_json(level)

    def from_json(self, value: Json) -> Level:
        """Read a drawing no larger than `size`."""
        return text.from_json(value, self.size)
