"""A maze as a level θ: its walls, where the agent starts and faces, and the goal; levels as text.

Everything that distinguishes one maze from another is part of the level, the agent's heading too, so that a replayed
level is the same POMDP again (paper, section 2). Grids are indexed (row, column) from the top left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tutelage.types import InputError, Key

HEADINGS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)], np.int32)
"""i32[4, 2]: one step (row, column) east, south, west and north. The right of heading d is heading d + 1."""

EMPTY, WALL, GOAL = (np.array(code, np.uint8) for code in ((1, 0, 0), (2, 5, 0), (8, 1, 0)))
"""u8[3] each: MiniGrid's (type, color, state) of what a cell may hold."""

AGENT_TYPE = 10
"""MiniGrid's type of the agent; its color is 0 and its state is the heading."""

MAX_SIZE = 255
"""The most rows and columns of a grid: for 32 such levels the 7 × 7 views that `MazeEnv.load` packs take 67 MB."""

_HEADS = "Av<^"
"""How agents of the four headings are drawn; `>` may stand for `A`."""


class Level(NamedTuple):
    """One maze. H = W is a static size that includes the border; cells outside a smaller maze are wall."""

    walls: jax.Array  # bool[H, W]
    agent: jax.Array  # i32[2]: row, column
    direction: jax.Array  # i32[]: 0 east, 1 south, 2 west, 3 north
    goal: jax.Array  # i32[2]: row, column


def valid(level: Level) -> jax.Array:
    """bool[]: closed border, agent and goal on two different empty cells, a heading of the four."""
    border = np.ones(level.walls.shape, bool)
    border[1:-1, 1:-1] = False

    def empty(cell: jax.Array) -> jax.Array:
        inside = jnp.all((cell > 0) & (cell < np.array(border.shape) - 1))
        return inside & ~level.walls[cell[0], cell[1]]

    closed = jnp.all(level.walls | ~border)
    apart = jnp.any(level.agent != level.goal)
    heads = (level.direction >= 0) & (level.direction < 4)
    return closed & apart & heads & empty(level.agent) & empty(level.goal)


def below(key: Key, bound: jax.Array | int, shape: tuple[int, ...] = ()) -> jax.Array:
    """i32[shape]: integers drawn uniformly from 0 to bound − 1.

    `jax.random.randint` hashes three times to remove a bias of at most bound · 2⁻³². Levels are drawn so often, and
    compiled into so many programs, that one hash is better.
    """
    return (jax.random.bits(key, shape) % jnp.asarray(bound, jnp.uint32)).astype(jnp.int32)


def random_cell(key: Key, among: jax.Array) -> jax.Array:
    """i32[2]: a cell drawn uniformly from those that are true in bool[H, W], of which there must be at least one."""
    # A rank among the candidates, counted by rows and then within a row: far cheaper than a random number or a sort for
    # every cell, and than a running count of all cells.
    by_row = _running_sum(jnp.sum(among, axis=1, dtype=jnp.int32))
    rank = below(key, by_row[-1])
    row = jnp.sum(by_row <= rank, dtype=jnp.int32)
    by_column = _running_sum(among[row].astype(jnp.int32))
    return jnp.stack([row, jnp.sum(by_column <= rank - by_row[row] + by_column[-1], dtype=jnp.int32)])


def _running_sum(counts: jax.Array) -> jax.Array:
    """i32[N]: the sum of each count and those before it. XLA vectorizes this, but not `cumsum`, on a CPU."""
    return jnp.sum(np.tri(len(counts), dtype=np.int32) * counts, axis=1)


def at(cell: jax.Array, size: int) -> jax.Array:
    """bool[size, size]: true in one cell only."""
    rows, columns = np.indices((size, size))
    return jnp.logical_and(rows == cell[0], columns == cell[1])


def room(size: int) -> jax.Array:
    """bool[size, size]: a border of walls and nothing inside."""
    return jnp.pad(jnp.zeros((size - 2, size - 2), bool), 1, constant_values=True)


def furnish(key: Key, walls: jax.Array) -> Level:
    """Put a goal, then an agent with a random heading, on random empty cells."""
    goal_key, agent_key, heading_key = jax.random.split(key, 3)
    goal = random_cell(goal_key, ~walls)
    agent = random_cell(agent_key, ~walls & ~at(goal, walls.shape[0]))
    return Level(walls, agent, below(heading_key, 4), goal)


def furnish_anywhere(key: Key, walls: jax.Array) -> Level:
    """Put a goal, then an agent with a random heading, on random inner cells, and remove walls there.

    Only an agent that would stand on the goal goes to a random empty cell instead (the released code's rule).
    """
    goal_key, agent_key, second_key, heading_key = jax.random.split(key, 4)
    size = walls.shape[0]
    goal, drawn = (random_cell(k, ~room(size)) for k in (goal_key, agent_key))
    taken = at(goal, size)
    agent = jnp.where(jnp.all(drawn == goal), random_cell(second_key, ~walls & ~taken), drawn)
    return Level(walls & ~taken & ~at(agent, size), agent, below(heading_key, 4), goal)


def parse(text: str, size: int | None = None) -> Level:
    """Read a drawing: `#` wall, `.` empty, `G` goal, the agent as `A` or `>` (east), `v`, `<` or `^`.

    Blank lines and the space around each line are ignored. The drawing fills the top left of a grid of `size` × `size`
    (default: the larger of its two sides); the rest is wall.
    """
    rows = [line.strip().replace(">", "A") for line in text.splitlines() if line.strip()]
    if not rows:
        raise InputError("The maze is empty; draw it with `#` walls, `.` empty cells, an agent `A` and a goal `G`.")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise InputError(f"Row {number} of the maze has {len(row)} cells, row 1 {len(rows[0])}; make them equal.")
        if unknown := set(row) - set("#.G" + _HEADS):
            raise InputError(
                f"Row {number} of the maze has the unknown character {min(unknown)!r}; use only `#.GA>v<^`."
            )
    cells = np.array([list(row) for row in rows])
    largest = max(cells.shape)
    size = min(largest, MAX_SIZE) if size is None else size
    if largest > size:
        raise InputError(
            f"The maze is {cells.shape[0]} rows by {cells.shape[1]} columns, too large for a grid of {size} × {size}; "
            "use a larger size or a smaller maze."
        )
    agent = _only(cells, _HEADS, "agent (`A`, `>`, `v`, `<` or `^`)")
    goal = _only(cells, "G", "goal (`G`)")
    if not np.all(np.concatenate([cells[0], cells[-1], cells[:, 0], cells[:, -1]]) == "#"):
        raise InputError("The maze is open at its border; close its first and last row and column with `#`.")
    walls = np.ones((size, size), bool)
    walls[: cells.shape[0], : cells.shape[1]] = cells == "#"
    direction = _HEADS.index(cells[agent])
    return Level(jnp.asarray(walls), jnp.int32(agent), jnp.int32(direction), jnp.int32(goal))


def show(level: Level) -> str:
    """Draw a level in the characters that `parse` reads; `A` is an agent that faces east."""
    cells = np.where(np.asarray(level.walls), "#", ".")
    cells[tuple(np.asarray(level.goal))] = "G"
    cells[tuple(np.asarray(level.agent))] = _HEADS[int(level.direction)]
    return "\n".join("".join(row) for row in cells)


def _only(cells: NDArray[Any], characters: str, what: str) -> tuple[int, int]:
    """The one cell that holds any of these characters."""
    found = np.argwhere(np.isin(cells, list(characters)))
    if len(found) != 1:
        raise InputError(f"The maze has {len(found) or 'no'} {what}; draw exactly one.")
    row, column = found[0].tolist()
    return row, column
