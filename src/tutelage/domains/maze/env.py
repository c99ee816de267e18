"""MiniGrid's rules in pure JAX: egocentric partial views, turns and steps, a goal and a time limit.

Everything equals the `minigrid` package, cell by cell and step by step, except the reward: the paper's is 1 − T/T_max
(section 6.1), MiniGrid's and the released code's 1 − 0.9·T/T_max. The paper's view is 7 × 7, the released code's 5 × 5.

A view of V × V cells is packed into Q 32-bit words, whole rows in each, one bit a cell. `load` does so once for every
cell and heading, so that a step looks up Q integers instead of V × V cells, and occlusion is a few shifts on each row.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.domains.maze.level import EMPTY, GOAL, HEADINGS, WALL, Level
from tutelage.types import Discrete, Env, InputError, Key, Step

LEFT, RIGHT, FORWARD = 0, 1, 2
"""The actions with an effect. Pick up, drop, toggle and done (3 to 6) only use up a step."""

MAX_STEPS = 1_000_000
"""The longest time limit: `reward_at` keeps a table of rewards by step."""


class Obs(NamedTuple):
    """What the agent sees, in MiniGrid's axis order and codes."""

    image: jax.Array  # u8[V, V, 3]: column, row, code; the agent stands at [V // 2, V - 1] and faces up
    direction: jax.Array  # u8[]


class Scene(NamedTuple):
    """A level, and the walls in view from each of its cells."""

    walls: jax.Array  # u32[4, H, W, Q]: by heading and cell; Q = 2 for V = 7
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
        if not 1 <= self.max_steps <= MAX_STEPS:
            raise InputError(f"max_steps must be from 1 to {MAX_STEPS}, not {self.max_steps}.")
        if self.reward not in ("paper", "minigrid"):
            raise InputError(f"The reward must be 'paper' or 'minigrid', not {self.reward!r}.")

    @property
    def actions(self) -> Discrete:
        """MiniGrid's seven actions."""
        return Discrete(7)

    @property
    def horizon(self) -> int:
        """The time limit."""
        return self.max_steps

    def load(self, level: Level) -> Scene:
        """Pack the view of every cell and heading, as if the agent stood there."""
        view, size = self.view, level.walls.shape[0]
        margin = view - 1  # no view reaches further out of the grid
        padded = jnp.pad(level.walls, margin, constant_values=True).astype(jnp.uint32)

        def views(heading: int) -> jax.Array:
            forward, right = HEADINGS[heading], HEADINGS[(heading + 1) % 4]
            # a view's rows as words of V bits, for all cells whose row may be in some view
            height, width = size + 2 * margin * np.abs(forward)
            rows = jnp.zeros((height, width), jnp.uint32)
            for column in range(view):
                top, left = (margin + (column - view // 2) * right) * np.abs(right)
                rows |= padded[top : top + height, left : left + width] << column
            words = [jnp.zeros((size, size), jnp.uint32)] * _words(view)
            for row in range(view):
                top, left = (margin + (view - 1 - row) * forward) * np.abs(forward)
                word, bit = _place(view, row, 0)
                words[word] |= rows[top : top + size, left : left + size] << bit
            return jnp.stack(words, axis=-1)

        return Scene(jnp.stack([views(heading) for heading in range(4)]), level)

    def reset(self, key: Key, scene: Scene) -> tuple[State, Obs]:
        """Begin at the level's own start; nothing is random."""
        state = State(scene.level.agent, scene.level.direction, jnp.int32(0))
        return state, self.observe(scene, state)

    def step(self, key: Key, scene: Scene, state: State, action: jax.Array) -> tuple[State, Step]:
        """Turn, or step forward unless a wall is in the way."""
        turn = jnp.where(action == RIGHT, 1, jnp.where(action == LEFT, -1, 0))
        direction = (state.direction + turn) & 3
        front = state.agent + _heading(state.direction)
        word, bit = _place(self.view, self.view - 2, self.view // 2)
        blocked = scene.walls[state.direction, state.agent[0], state.agent[1], word] >> bit & 1
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
        view = self.view
        walls = scene.walls[state.direction, state.agent[0], state.agent[1]]
        away = scene.level.goal - state.agent
        row, column, inside = self.in_view(state, away)
        # MiniGrid shows the agent's own cell as empty, even on the goal.
        goal = jnp.where(inside & jnp.any(away != 0), column * view + row, -1).astype(jnp.int16)

        # The image is made as one row of bytes: XLA vectorizes that, but not the small loops of [V, V, 3].
        area = view * view
        is_goal = goal == np.repeat(np.arange(area, dtype=np.int16), 3)
        image = jnp.where(is_goal, np.tile(GOAL, area), np.tile(EMPTY, area))
        image = jnp.where(_spread(walls, view), np.tile(WALL, area), image)
        if not self.see_through:
            image = jnp.where(_spread(_visible(walls, view), view), image, 0)
        return Obs(image.reshape(view, view, 3), state.direction.astype(jnp.uint8))

    def in_view(self, state: State, away: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """For cells `away` i32[..., 2] from the agent: rows and columns in its view, and whether they are in it."""
        view = self.view
        row = view - 1 - jnp.sum(away * _heading(state.direction), -1)
        column = view // 2 + jnp.sum(away * _heading(state.direction + 1), -1)
        return row, column, (row >= 0) & (row < view) & (column >= 0) & (column < view)


def wall_at(turn: int, env: MazeEnv, scene: Scene, state: State) -> jax.Array:
    """f32[]: whether a wall is next to the agent, `turn` quarter turns right of its heading (1: at its right)."""
    row, column = state.agent + _heading(state.direction + turn)
    return scene.level.walls[row, column].astype(jnp.float32)


def _words(view: int) -> int:
    """Q: how many 32-bit words hold the rows of a view."""
    return -(-view // (32 // view))


def _place(view: int, row: Any, column: Any) -> tuple[Any, Any]:
    """The word, and the bit in it, that stand for a cell of the view."""
    rows = 32 // view
    return row // rows, row % rows * view + column


def _spread(words: jax.Array, view: int) -> jax.Array:
    """bool[V·V·3]: the bits of words u32[Q] in the order of the image's bytes."""
    column, row, _ = np.indices((view, view, 3)).reshape(3, -1)
    word, bit = _place(view, row, column)
    # One mask for each word instead of a look-up, which XLA would not vectorize.
    masks = [np.where(word == q, 1 << bit, 0).astype(np.uint32) for q in range(_words(view))]
    return functools.reduce(jnp.bitwise_or, [words[q] & mask for q, mask in enumerate(masks)]) != 0


def _visible(walls: jax.Array, view: int) -> jax.Array:
    """u32[Q]: the cells that are seen by MiniGrid's rule, from the walls u32[Q] of a view.

    Row by row away from the agent: sight floods sideways through empty cells, and every flooded cell shows
    itself and its neighbors, walls too, in its own row and in the next.
    """
    everything = np.uint32((1 << view) - 1)
    lit = jnp.uint32(1 << (view // 2))
    seen = [jnp.uint32(0)] * _words(view)
    for row in reversed(range(view)):
        word, bit = _place(view, row, 0)
        empty = ~(walls[word] >> bit) & everything
        flood = _flood(lit & empty, empty, view)
        shown = (flood | flood << 1 | flood >> 1) & everything
        seen[word] |= (lit | shown) << bit
        lit = shown
    return jnp.stack(seen)


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
