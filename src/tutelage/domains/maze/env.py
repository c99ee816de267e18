"""MiniGrid's rules in pure JAX: egocentric partial views, turns and steps, a goal and a limit of time.

Everything equals the `minigrid` package, cell by cell and step by step; only the paper's reward 1 − T/T_max
is our own (its section 5.1; MiniGrid gives 1 − 0.9·T/T_max).

A view of V × V cells is handled as V *words*, one for each row of the view; bit i is the cell in column i.
`load` packs these words once for every cell and heading, so that a step looks up V small integers instead of
V × V cells, and occlusion is a handful of shifts on each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.domains.maze.level import EMPTY, GOAL, HEADINGS, WALL, Level
from tutelage.types import Discrete, Env, InputError, Key, Step

LEFT, RIGHT, FORWARD = 0, 1, 2
"""The actions that do something. Picking up, dropping, toggling and `done` (3 to 6) only let time pass."""


class Obs(NamedTuple):
    """What the agent sees, in MiniGrid's axis order and codes."""

    image: jax.Array  # u8[V, V, 3]: column, row, code; the agent stands at [V // 2, V - 1] and faces up
    direction: jax.Array  # u8[]


class Scene(NamedTuple):
    """A level made ready for steps. P = H + 2 (V − 1): the grid with a margin of wall as deep as a view."""

    words: jax.Array  # u8[4, P, P] (wider for V > 7): the row of a view through each cell, for each heading; 1 is wall
    level: Level


class State(NamedTuple):
    """What changes from step to step."""

    agent: jax.Array  # i32[2]: row, column
    direction: jax.Array  # i32[]
    time: jax.Array  # i32[]


@dataclass(frozen=True)
class MazeEnv(Env):
    """Mazes of any size, which comes from the shape of the level."""

    view: int = 7
    see_through: bool = True
    max_steps: int = 250
    reward: Literal["paper", "minigrid"] = "paper"

    def __post_init__(self) -> None:
        if self.view % 2 == 0 or not 3 <= self.view <= 31:
            raise InputError(f"The view must be an odd number of cells from 3 to 31, not {self.view}.")
        if self.max_steps < 1:
            raise InputError(f"max_steps must be at least 1, not {self.max_steps}.")
        if self.reward not in ("paper", "minigrid"):
            raise InputError(f"The reward must be 'paper' or 'minigrid', not {self.reward!r}.")

    @property
    def actions(self) -> Discrete:
        """MiniGrid's seven actions."""
        return Discrete(7)

    @property
    def horizon(self) -> int:
        """The limit of time."""
        return self.max_steps

    def load(self, level: Level) -> Scene:
        """Pack the rows of all views."""
        half, margin = self.view // 2, self.view - 1
        size = level.walls.shape[0] + 2 * margin
        walls = jnp.pad(level.walls, margin + half, constant_values=True).astype(_word_type(self.view))
        downwards = [walls[i : i + size, half : half + size] for i in range(self.view)]
        rightwards = [walls[half : half + size, i : i + size] for i in range(self.view)]
        # A view's columns run from the agent's left to its right: facing east, from north to south.
        east, south, west, north = downwards, rightwards[::-1], downwards[::-1], rightwards
        return Scene(jnp.stack([_pack(cells) for cells in (east, south, west, north)]), level)

    def reset(self, key: Key, scene: Scene) -> tuple[State, Obs]:
        """Begin at the level's own start; nothing is random."""
        state = State(scene.level.agent, scene.level.direction, jnp.int32(0))
        return state, self.observe(scene, state)

    def step(self, key: Key, scene: Scene, state: State, action: jax.Array) -> tuple[State, Step]:
        """Turn, or step forward unless a wall is in the way."""
        turn = (action == RIGHT).astype(jnp.int32) - (action == LEFT)
        direction = (state.direction + turn) & 3
        front = state.agent + _heading(state.direction)
        blocked = (self._word(scene, state.direction, front) >> (self.view // 2)) & 1
        moves = (action == FORWARD) & (blocked == 0)
        state = State(jnp.where(moves, front, state.agent), direction, state.time + 1)
        terminated = moves & jnp.all(front == scene.level.goal)
        truncated = state.time >= self.max_steps
        reward = jnp.where(terminated, self.reward_at(state.time), 0.0)
        return state, Step(self.observe(scene, state), reward, terminated, truncated)

    def reward_at(self, time: jax.Array) -> jax.Array:
        """f32[]: what reaching the goal with the `time`-th action earns."""
        # A table made in float64, because XLA divides by a constant inexactly: it multiplies by the inverse.
        used = np.arange(self.max_steps + 1) / self.max_steps
        rewards = 1 - used if self.reward == "paper" else 1 - 0.9 * used
        return jnp.asarray(rewards, jnp.float32)[time]

    def observe(self, scene: Scene, state: State) -> Obs:
        """What the agent sees in a state."""
        view, half = self.view, self.view // 2
        ahead = np.arange(view)[::-1]  # of each row of the view, from its top: how many cells in front of the agent
        cells = state.agent + ahead[:, None] * _heading(state.direction)
        walls = jax.vmap(self._word, (None, None, 0))(scene, state.direction, cells)

        away = scene.level.goal - state.agent
        goal_ahead = jnp.sum(away * _heading(state.direction))
        goal_column = jnp.sum(away * _heading(state.direction + 1)) + half
        here = jnp.all(away == 0)  # MiniGrid shows the agent's own cell as empty, even on the goal

        columns = np.arange(view)[:, None]
        wall = ((walls >> columns.astype(walls.dtype)) & 1).astype(bool)  # [column, row]
        goal = (columns == goal_column) & (ahead == goal_ahead) & ~here
        code = jnp.where(wall[..., None], WALL, jnp.where(goal[..., None], GOAL, EMPTY))
        if not self.see_through:
            seen = (_visible(walls, view) >> columns.astype(walls.dtype)) & 1
            code = code * seen[..., None].astype(jnp.uint8)
        return Obs(code, state.direction.astype(jnp.uint8))

    def _word(self, scene: Scene, direction: jax.Array, cell: jax.Array) -> jax.Array:
        """The row of a view through one cell of the level, for a heading."""
        row, column = cell + (self.view - 1)
        return scene.words[direction, row, column]


def _visible(walls: jax.Array, view: int) -> jax.Array:
    """[V]: the cells that are seen in each row of a view, by MiniGrid's rule, from the words of its walls.

    Row by row away from the agent: sight floods sideways through empty cells, and every flooded cell shows
    itself and its neighbours, walls too, in its own row and in the next.
    """
    everything = jnp.array((1 << view) - 1, walls.dtype)
    lit = jnp.array(1 << (view // 2), walls.dtype)
    seen = []
    for row in reversed(range(view)):
        empty = ~walls[row] & everything
        flood = _flood(lit & empty, empty, view)
        shown = (flood | flood << 1 | flood >> 1) & everything
        seen.append(lit | shown)
        lit = shown
    return jnp.stack(seen[::-1])


def _flood(seeds: jax.Array, empty: jax.Array, view: int) -> jax.Array:
    """All runs of empty cells that hold a seed; doubling the reach each time (Kogge and Stone's prefix)."""
    up = down = seeds
    through_up = through_down = empty
    reach = 1
    while reach < view:
        up |= through_up & (up << reach)
        down |= through_down & (down >> reach)
        through_up &= through_up << reach
        through_down &= through_down >> reach
        reach *= 2
    return up | down


def _heading(direction: jax.Array) -> jax.Array:
    """i32[2]: one step in a direction, taken modulo four."""
    return jnp.asarray(HEADINGS)[direction & 3]


def _pack(cells: Sequence[jax.Array]) -> jax.Array:
    """Words whose bit i is `cells[i]`."""
    return sum((cell << i for i, cell in enumerate(cells)), start=jnp.zeros_like(cells[0]))


def _word_type(view: int) -> type[np.unsignedinteger]:
    """The smallest unsigned integer with a bit for each cell of a row."""
    return np.uint8 if view <= 8 else np.uint16 if view <= 16 else np.uint32
