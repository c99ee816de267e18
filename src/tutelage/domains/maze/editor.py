"""The teacher's MDP: it builds a maze cell by cell, walls first, then the goal, then the agent (paper, section 5.1).

A wall onto a wall does nothing. Goal and agent onto an occupied cell go to a random empty one instead; by the released
code's rule (`clears`) a wall gives way to them, and only the goal does not. The teacher sees the whole grid, the time
and fresh noise at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tutelage.domains.maze.level import AGENT_TYPE, EMPTY, GOAL, WALL, at, below, random_cell, room
from tutelage.types import Discrete, Env, Key, Step

NOISE = 50
"""How many uniform random numbers a teacher gets with each observation."""


class EditorObs(NamedTuple):
    """What the teacher sees."""

    grid: jax.Array  # u8[H, W, 3]: row, column, MiniGrid's code; the agent as (10, 0, direction) once it is placed
    time: jax.Array  # i32[]
    noise: jax.Array  # f32[50], uniform in [0, 1), drawn anew at each step


class EditorState(NamedTuple):
    """A maze under construction. Goal and agent are at (0, 0), in the border, until they are placed."""

    walls: jax.Array  # bool[H, W]
    goal: jax.Array  # i32[2]
    agent: jax.Array  # i32[2]
    direction: jax.Array  # i32[]: where the agent will face; drawn at reset, not chosen by the teacher
    time: jax.Array  # i32[]


@dataclass(frozen=True)
class MazeEditor(Env):
    """An editor for mazes of one size. Action a stands for the a-th inner cell, row by row."""

    size: int
    blocks: int
    clears: bool = False

    @property
    def actions(self) -> Discrete:
        """One action for each inner cell."""
        return Discrete((self.size - 2) ** 2)

    @property
    def horizon(self) -> int:
        """Every episode lasts exactly this long: all walls, the goal, the agent."""
        return self.blocks + 2

    def reset(self, key: Key, scene: tuple[()] = ()) -> tuple[EditorState, EditorObs]:
        """Begin with an empty room."""
        heading_key, noise_key = jax.random.split(key)
        nowhere = jnp.zeros(2, jnp.int32)
        direction = below(heading_key, 4)
        state = EditorState(room(self.size), nowhere, nowhere, direction, jnp.int32(0))
        return state, self._observe(noise_key, state)

    def step(self, key: Key, scene: tuple[()], state: EditorState, action: jax.Array) -> tuple[EditorState, Step]:
        """Place the next object in the cell that the action stands for."""
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
