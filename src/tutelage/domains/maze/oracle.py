"""The oracle: exact breadth-first searches on a level, for optimal returns and true regret.

A set of cells is a *board*: u32[H, Q], the cells of each row as bits, Q = ⌈W / 32⌉ words a row. One step of a
search is then a few shifts on whole rows. Everything works inside `jit` and `vmap`, on grids of any size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tutelage.domains.maze.env import MazeEnv
from tutelage.domains.maze.level import Level, at

Board = jax.Array


def fewest_actions(level: Level) -> jax.Array:
    """i32[]: the fewest turns and steps forward that take the agent to the goal; −1 if it cannot be reached."""
    empty, start, goal = _boards(level)
    headings = tuple(jnp.where(level.direction == heading, start, 0) for heading in range(4))

    def grow(reached: tuple[Board, ...]) -> tuple[Board, ...]:
        east, south, west, north = reached
        along_row, along_column = east | west, south | north
        return (
            east | along_column | _east(east) & empty,
            south | along_row | _south(south) & empty,
            west | along_column | _west(west) & empty,
            north | along_row | _north(north) & empty,
        )

    return _rounds(headings, grow, lambda reached: _meets(reached[0] | reached[1] | reached[2] | reached[3], goal))


def shortest_path(level: Level) -> jax.Array:
    """i32[]: the length of the shortest path in cells; 0 if there is none, as in the paper."""
    empty, start, goal = _boards(level)

    def grow(reached: Board) -> Board:
        return reached | (_east(reached) | _south(reached) | _west(reached) | _north(reached)) & empty

    return jnp.maximum(_rounds(start, grow, lambda reached: _meets(reached, goal)), 0)


def optimal_return(env: MazeEnv, level: Level) -> jax.Array:
    """f32[]: the return of the best policy for the level; 0 if the goal cannot be reached in time."""
    actions = fewest_actions(level)
    return jnp.where((actions >= 0) & (actions <= env.max_steps), env.reward_at(actions), 0.0)


def _rounds(start: Any, grow: Callable[[Any], Any], found: Callable[[Any], jax.Array]) -> jax.Array:
    """i32[]: how often a set must grow until something is found; −1 if it stops growing before."""

    def search(carry: tuple[Any, jax.Array, jax.Array]) -> tuple[Any, jax.Array, jax.Array]:
        reached, rounds, _ = carry
        grown = grow(reached)
        grows = jax.tree.reduce(jnp.logical_or, jax.tree.map(lambda new, old: jnp.any(new != old), grown, reached))
        return grown, rounds + 1, grows

    begun = (start, jnp.int32(0), jnp.array(True))
    reached, rounds, _ = lax.while_loop(lambda carry: carry[2] & ~found(carry[0]), search, begun)
    return jnp.where(found(reached), rounds, -1)


def _boards(level: Level) -> tuple[Board, Board, Board]:
    """The empty cells, the agent's and the goal's."""
    size = level.walls.shape[0]
    return _board(~level.walls), _board(at(level.agent, size)), _board(at(level.goal, size))


def _board(cells: jax.Array) -> Board:
    """Pack bool[H, W] into words, the westernmost cell in the lowest bit."""
    height, width = cells.shape
    words = -(-width // 32)
    bits = jnp.pad(cells, ((0, 0), (0, 32 * words - width))).reshape(height, words, 32)
    return jnp.sum(bits * (np.uint32(1) << np.arange(32, dtype=np.uint32)), axis=-1, dtype=jnp.uint32)


def _meets(board: Board, other: Board) -> jax.Array:
    """bool[]: whether two boards share a cell."""
    return jnp.any(board & other != 0)


def _east(board: Board) -> Board:
    carry = jnp.pad(board[:, :-1] >> 31, ((0, 0), (1, 0)))
    return board << 1 | carry


def _west(board: Board) -> Board:
    carry = jnp.pad(board[:, 1:] << 31, ((0, 0), (0, 1)))
    return board >> 1 | carry


def _south(board: Board) -> Board:
    return jnp.pad(board[:-1], ((1, 0), (0, 0)))


def _north(board: Board) -> Board:
    return jnp.pad(board[1:], ((0, 1), (0, 0)))
