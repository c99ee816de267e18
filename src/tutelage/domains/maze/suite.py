"""Zero-shot test mazes: fixed drawings, and families from which every episode draws a new maze. All are solvable.

A test maze keeps the view and the reward of the env that an agent was trained in. Its time limit is the released code's
2·size²; the paper gives none. Labyrinth2 is Labyrinth rotated (the paper's definition), a quarter turn clockwise; the
released code's drawing differs from that in 12 cells. Sizes include the border.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tutelage.domains.maze.design import MazeDesign
from tutelage.domains.maze.env import MazeEnv
from tutelage.domains.maze.level import Level, furnish, parse, room
from tutelage.domains.maze.oracle import optimal_return
from tutelage.types import Key, TestLevel

FIXED = ("SixteenRooms", "SixteenRooms2", "Labyrinth", "Labyrinth2", "Maze", "Maze2")
NOT_IN_PAPER = ("Maze3", "NineRooms", "NineRoomsFewerDoors")
CORRIDORS = ("LargeCorridor", "SmallCorridor")
DRAWINGS = FIXED + NOT_IN_PAPER + CORRIDORS
PAPER = (*FIXED, "LargeCorridor", "PerfectMaze")
"""The mazes of the paper's table, in its order."""
VALIDATION = ("SixteenRooms", "Labyrinth", "Maze")
"""The mazes on which the paper chose its hyperparameters."""


def drawing(name: str) -> Level:
    """A fixed maze of the package, by name."""
    return parse((resources.files(__package__) / "mazes" / f"{name}.txt").read_text())


@cache  # the same entries each time, so that what is compiled for them is compiled once
def suites(env: MazeEnv) -> dict[str, tuple[TestLevel, ...]]:
    """The test mazes for agents that were trained in `env`, by suite.

    - paper: the eight mazes of the paper's table; maze: all.
    - validation: the paper's three validation mazes, three copies of each, and perfect mazes of the same size, for
      choosing hyperparameters: copies reduce the noise of single drawings, and the paper's other mazes stay unseen
      until the end.
    - copies: three copies of each of the paper's other fixed mazes: does an agent solve more than one drawing?
    - robustness: random levels that can be solved, of the paper's 25 blocks and of 0 to 60, with the time limit of
      training. Over many episodes (`tutelage eval --suite robustness --episodes 10000`) the quantiles of regret show
      how robust a policy is, with far less noise than a few test mazes.
    """

    def entry(name: str, size: int, draw: Callable[[Key], Level]) -> TestLevel:
        return TestLevel(name, replace(env, max_steps=2 * size**2), draw)

    def fixed(name: str, level: Level) -> TestLevel:
        return entry(name, len(level.walls), lambda _: level)

    def with_random_goal(name: str) -> TestLevel:
        level = drawing(name)
        return entry(name, len(level.walls), lambda key: corridor(key, level))

    def perfect(name: str, size: int) -> TestLevel:
        return entry(name, size, lambda key: perfect_maze(key, size))

    def copies(*names: str) -> list[TestLevel]:
        return [fixed(f"{name}-{how}", copy(drawing(name))) for name in names for how, copy in COPIES.items()]

    def solvable(name: str, design: MazeDesign) -> TestLevel:
        return TestLevel(name, env, partial(_solvable, env, design))

    everything = {
        each.name: each
        for each in (
            *(fixed(name, drawing(name)) for name in FIXED + NOT_IN_PAPER),
            *map(with_random_goal, CORRIDORS),
            perfect("PerfectMaze", 21),
            *(perfect(f"PerfectMaze{size}", size) for size in (11, 51, 101)),
            entry("FourRooms", 19, four_rooms),
            entry("SimpleCrossing", 11, simple_crossing),
        )
    }
    return {
        "paper": tuple(everything[name] for name in PAPER),
        "maze": tuple(everything.values()),
        "validation": (*(everything[name] for name in VALIDATION), *copies(*VALIDATION), perfect("PerfectMaze15", 15)),
        "copies": tuple(copies(*(name for name in FIXED if name not in VALIDATION))),
        "robustness": (
            solvable("Random25", MazeDesign(blocks=25)),
            solvable("Random0to60", MazeDesign(blocks=60, vary_blocks=True)),
        ),
    }


def _solvable(env: MazeEnv, design: MazeDesign, key: Key) -> Level:
    """Levels are drawn until one can be solved."""

    def again(carry: tuple[Key, Level]) -> tuple[Key, Level]:
        key, sample_key = jax.random.split(carry[0])
        return key, design.sample(sample_key)

    first = again((key, jax.tree.map(jnp.zeros_like, jax.eval_shape(design.sample, key))))
    return lax.while_loop(lambda carry: optimal_return(env, carry[1]) <= 0, again, first)[1]


def mirrored(level: Level) -> Level:
    """Left and right exchanged."""
    _, width = level.walls.shape

    def cell(at: jax.Array) -> jax.Array:
        return jnp.stack([at[0], width - 1 - at[1]])

    return Level(level.walls[:, ::-1], cell(level.agent), jnp.int32([2, 1, 0, 3])[level.direction], cell(level.goal))


def transposed(level: Level) -> Level:
    """Rows and columns exchanged."""
    return Level(level.walls.T, level.agent[::-1], jnp.int32([1, 0, 3, 2])[level.direction], level.goal[::-1])


def swapped(level: Level) -> Level:
    """Start and goal exchanged; the agent's heading stays."""
    return level._replace(agent=level.goal, goal=level.agent)


COPIES = {"mirrored": mirrored, "transposed": transposed, "swapped": swapped}
"""Transformations that make another drawing of the same maze."""


def perfect_maze(key: Key, size: int) -> Level:
    """A uniformly shuffled Kruskal spanning tree of the cells with odd coordinates; size must be odd.

    The agent starts in one corner, with a random heading, and the goal is in another.
    """
    edge_key, corner_key, heading_key = jax.random.split(key, 3)
    side = (size - 1) // 2
    cells = np.arange(side * side).reshape(side, side)
    neighbors = [(cells[:, :-1], cells[:, 1:]), (cells[:-1], cells[1:])]
    pairs = np.concatenate([np.stack([one.ravel(), other.ravel()], axis=1) for one, other in neighbors])
    edges = jax.random.permutation(edge_key, jnp.asarray(pairs, jnp.int32))

    def consider(index: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        tree, chosen = carry  # to which tree each cell belongs; which edges are passages
        one, other = tree[edges[index]]
        return jnp.where(tree == one, other, tree), chosen.at[index].set(one != other)

    trees = jnp.arange(side * side, dtype=jnp.int32)
    _, chosen = lax.fori_loop(0, len(edges), consider, (trees, jnp.zeros(len(edges), bool)))

    rows, columns = 1 + 2 * (edges // side), 1 + 2 * (edges % side)
    # The wall between two neighbors is half-way. An edge that was not chosen clears a cell that is empty anyway.
    between = [jnp.where(chosen, line.sum(1) // 2, line[:, 0]) for line in (rows, columns)]
    lattice = np.ones((size, size), bool)
    lattice[1::2, 1::2] = False
    walls = jnp.asarray(lattice).at[between[0], between[1]].set(False)

    ends = np.array([(1, 1), (1, size - 2), (size - 2, 1), (size - 2, size - 2)], np.int32)
    agent, goal = jax.random.permutation(corner_key, jnp.asarray(ends))[:2]
    return Level(walls, agent, jax.random.randint(heading_key, (), 0, 4), goal)


def corridor(key: Key, drawing: Level) -> Level:
    """A corridor maze with its goal in a random dead end, above or below the wall across its middle."""
    column_key, row_key = jax.random.split(key)
    size = drawing.walls.shape[0]
    column = 3 + 2 * jax.random.randint(column_key, (), 0, (size - 5) // 2)
    row = size // 2 + jax.random.choice(row_key, jnp.array([-1, 1]))
    return drawing._replace(goal=jnp.stack([row, column]).astype(jnp.int32))


def four_rooms(key: Key, size: int = 19) -> Level:
    """MiniGrid's FourRooms: two crossing walls with a random door in each arm; agent and goal anywhere."""
    door_key, place_key = jax.random.split(key)
    middle = size // 2
    first, end = np.array([(1, middle), (middle + 1, size - 1)] * 2).T
    north, south, west, east = jax.random.randint(door_key, (4,), first, end)
    walls = room(size).at[middle].set(True).at[:, middle].set(True)
    for row, column in ((north, middle), (south, middle), (middle, west), (middle, east)):
        walls = walls.at[row, column].set(False)
    return furnish(place_key, walls)


def simple_crossing(key: Key, size: int = 11, crossings: int = 5) -> Level:
    """MiniGrid's SimpleCrossing: walls across the room, each with one opening on a random path to the far corner."""
    river_key, path_key, *opening_keys = jax.random.split(key, 2 + crossings)
    lines = np.arange(2, size - 2, 2)
    chosen = jax.random.permutation(river_key, 2 * len(lines)) < crossings
    walls = room(size)
    limits = []  # of vertical and of horizontal walls (MiniGrid's rivers): 0, their positions, the far border
    for axis, rivers in enumerate(chosen.reshape(2, -1)):
        across = jnp.zeros(size, bool).at[lines].set(rivers)
        walls |= across[None, :] if axis == 0 else across[:, None]
        ends = jnp.sort(jnp.where(rivers, lines, size - 1))
        limits.append(jnp.concatenate([jnp.array([0]), ends, jnp.array([size - 1])]))
    # The order in which the path crosses the walls: a shuffle of as many turns of each kind as there are walls.
    order = jax.random.permutation(path_key, jnp.arange(crossings) < chosen[: len(lines)].sum())
    (columns, rows), i, j = limits, jnp.int32(0), jnp.int32(0)
    for vertical, opening_key in zip(order, opening_keys, strict=True):
        first = jnp.where(vertical, rows[j], columns[i]) + 1
        end = jnp.where(vertical, rows[j + 1], columns[i + 1])
        along = jax.random.randint(opening_key, (), first, end)
        walls = walls.at[jnp.where(vertical, along, rows[j + 1]), jnp.where(vertical, columns[i + 1], along)].set(False)
        i, j = i + vertical, j + ~vertical
    corner = jnp.int32([size - 2, size - 2])
    return Level(walls, jnp.int32([1, 1]), jnp.int32(0), corner)
