"""Θ for mazes: draw, build, mutate, measure and show levels (paper, section 6.1 and appendix).

Levels are made in the order walls, goal, agent, as in the paper's appendix and the released code; the paper's main text
says walls, agent, goal. Walls are a budget of cells drawn with replacement. Goal and agent go to a random empty cell if
their own is occupied (the paper's rule). Drawing among all cells and then moving to a random empty one is the same as
drawing among the empty cells, which is what `sample` does. With `clears` walls are removed instead (the released code's
rule), and only an agent on the goal moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tutelage.domains.maze import image
from tutelage.domains.maze.level import (
    AGENT_TYPE,
    EMPTY,
    GOAL,
    MAX_SIZE,
    WALL,
    Level,
    at,
    below,
    furnish,
    furnish_anywhere,
    parse,
    random_cell,
    room,
    show,
    valid,
)
from tutelage.domains.maze.oracle import shortest_path
from tutelage.types import Design, Discrete, Env, InputError, Json, Key, Step


@dataclass(frozen=True)
class MazeDesign(Design):
    """Mazes of one size, border included. The budget is `blocks` walls, or uniform in 0..blocks with `vary_blocks`.

    Goal and agent go to empty cells, or with `clears` remove the walls where they are put.
    """

    size: int = 15
    blocks: int = 25
    vary_blocks: bool = False
    clears: bool = False

    def __post_init__(self) -> None:
        if not 4 <= self.size <= MAX_SIZE:
            raise InputError(f"A maze has a size from 4 to {MAX_SIZE}, border included, not {self.size}.")
        most = (self.size - 2) ** 2 - 2  # beside agent and goal
        if not 0 <= self.blocks <= most:
            raise InputError(f"A maze of size {self.size} has room for 0 to {most} blocks, not {self.blocks}.")

    @property
    def editor(self) -> MazeEditor:
        """The teacher's MDP. The teacher always has the whole budget; a wall on a wall is wasted."""
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
        """One of ACCEL's three edits, each equally likely: add a wall, clear a cell, or move the goal.

        The first two change a random inner cell, unless agent or goal is there; the goal moves to a random empty
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
        return valid(level)

    def describe(self, level: Level) -> dict[str, jax.Array]:
        """The paper's metrics: walls inside the border, shortest path (0 if unsolvable, as in the paper), solvable."""
        path = shortest_path(level)
        blocks = jnp.sum(level.walls[1:-1, 1:-1], dtype=jnp.int32)
        return {"blocks": blocks, "shortest_path": path, "solvable": path > 0}

    def image(self, level: Level) -> jax.Array:
        """u8[H·16, W·16, 3]: a picture of the level."""
        return image.draw(level)

    def to_json(self, level: Level) -> Json:
        """The rows of the level's drawing (`level.show`), which can be edited by hand."""
        return show(level).splitlines()

    def from_json(self, value: Json) -> Level:
        """Read a drawing no larger than `size`."""
        if not isinstance(value, list) or not all(isinstance(row, str) for row in value):
            raise InputError(f"A maze in JSON is a list of strings, one for each row; got {value!r:.80}.")
        return parse("\n".join(value), self.size)


NOISE = 50
"""How many uniform random numbers the teacher sees at each step."""


class EditorObs(NamedTuple):
    """What the teacher sees: the whole grid, the time step, and noise."""

    grid: jax.Array  # u8[H, W, 3]: row, column, MiniGrid's code; the agent as (10, 0, direction) once it is placed
    time: jax.Array  # i32[]
    noise: jax.Array  # f32[50], uniform in [0, 1), drawn again at each step


class EditorState(NamedTuple):
    """A maze under construction. Goal and agent are at (0, 0), in the border, until they are placed."""

    walls: jax.Array  # bool[H, W]
    goal: jax.Array  # i32[2]
    agent: jax.Array  # i32[2]
    direction: jax.Array  # i32[]: the agent's heading; drawn at reset, not chosen by the teacher
    time: jax.Array  # i32[]


@dataclass(frozen=True)
class MazeEditor(Env):
    """The teacher's MDP: place walls, the goal, the agent, one a step. Action a is the a-th inner cell, row by row."""

    size: int
    blocks: int
    clears: bool = False

    @property
    def actions(self) -> Discrete:
        """One action for each inner cell."""
        return Discrete((self.size - 2) ** 2)

    @property
    def horizon(self) -> int:
        """Every episode lasts exactly this long: B walls, the goal, the agent."""
        return self.blocks + 2

    def reset(self, key: Key, scene: tuple[()] = ()) -> tuple[EditorState, EditorObs]:
        """Begin with an empty room."""
        heading_key, noise_key = jax.random.split(key)
        nowhere = jnp.zeros(2, jnp.int32)
        direction = below(heading_key, 4)
        state = EditorState(room(self.size), nowhere, nowhere, direction, jnp.int32(0))
        return state, self._observe(noise_key, state)

    def step(self, key: Key, scene: tuple[()], state: EditorState, action: jax.Array) -> tuple[EditorState, Step]:
        """Place the next object in a cell. A wall on a wall does nothing."""
        cell_key, noise_key = jax.random.split(key)
        cell = 1 + jnp.stack(jnp.divmod(jnp.asarray(action, jnp.int32), self.size - 2))
        here = at(cell, self.size)
        taken = at(state.goal, self.size)
        empty = ~state.walls & ~taken
        free = ~taken if self.clears else empty
        landing = jnp.where(jnp.any(here & free), cell, random_cell(cell_key, empty))
        cleared = state.walls & ~at(landing, self.size)  # unchanged if it lands on an empty cell
        state = EditorState(
            walls=jnp.where(state.time < self.blocks, state.walls | here, cleared),
            goal=jnp.where(state.time == self.blocks, landing, state.goal),
            agent=jnp.where(state.time == self.blocks + 1, landing, state.agent),
            direction=state.direction,
            time=state.time + 1,
        )
        done = state.time >= self.horizon
        return state, Step(self._observe(noise_key, state), jnp.float32(0), done, jnp.array(False))

    def _observe(self, noise_key: Key, state: EditorState) -> EditorObs:
        agent = jnp.stack([jnp.uint8(AGENT_TYPE), jnp.uint8(0), state.direction.astype(jnp.uint8)])
        grid = jnp.where(state.walls[..., None], WALL, EMPTY)
        # An object that is still at (0, 0) must not be drawn there, over the border.
        grid = jnp.where((at(state.goal, self.size) & ~state.walls)[..., None], GOAL, grid)
        grid = jnp.where((at(state.agent, self.size) & ~state.walls)[..., None], agent, grid)
        return EditorObs(grid, state.time, jax.random.uniform(noise_key, (NOISE,)))
