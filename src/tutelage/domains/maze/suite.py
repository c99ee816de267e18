"""Zero-shot test mazes: fixed drawings, and families from which every episode draws anew.

A test maze keeps the view and the reward of the environment that an agent was trained in; its limit of time is
2·size² (paper, appendix).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from importlib import resources

from tutelage.domains.maze.env import MazeEnv
from tutelage.domains.maze.families import corridor, four_rooms, perfect_maze, simple_crossing
from tutelage.domains.maze.level import Level, parse
from tutelage.types import Key, TestLevel

DEFAULT = MazeEnv()

FIXED = (
    "SixteenRooms",
    "SixteenRooms2",
    "Labyrinth",
    "Labyrinth2",
    "Maze",
    "Maze2",
    "Maze3",
    "NineRooms",
    "NineRoomsFewerDoors",
)
CORRIDORS = ("LargeCorridor", "SmallCorridor")
DRAWINGS = FIXED + CORRIDORS

PAPER = (
    "SixteenRooms",
    "SixteenRooms2",
    "Labyrinth",
    "Labyrinth2",
    "Maze",
    "Maze2",
    "LargeCorridor",
    "PerfectMaze",
)
"""The mazes of the paper's table, in its order."""


def drawing(name: str) -> Level:
    """A maze that comes with the package."""
    return parse((resources.files(__package__) / "mazes" / f"{name}.txt").read_text())


@functools.cache  # the same entries each time, so that what is compiled for them is compiled once
def suite(env: MazeEnv = DEFAULT) -> tuple[TestLevel, ...]:
    """All test mazes, for agents that were trained in `env`."""

    def entry(name: str, size: int, draw: Callable[[Key], Level]) -> TestLevel:
        return TestLevel(name, replace(env, max_steps=2 * size**2), draw)

    def fixed(name: str) -> TestLevel:
        level = drawing(name)
        return entry(name, level.walls.shape[0], lambda _: level)

    def with_random_goal(name: str) -> TestLevel:
        level = drawing(name)
        return entry(name, level.walls.shape[0], lambda key: corridor(key, level))

    def perfect(name: str, size: int) -> TestLevel:
        return entry(name, size, lambda key: perfect_maze(key, size))

    return (
        *map(fixed, FIXED),
        *map(with_random_goal, CORRIDORS),
        perfect("PerfectMaze", 21),
        *(perfect(f"PerfectMaze{size}", size) for size in (11, 51, 101)),
        entry("FourRooms", 19, four_rooms),
        entry("SimpleCrossing", 11, simple_crossing),
    )


def paper_suite(env: MazeEnv = DEFAULT) -> tuple[TestLevel, ...]:
    """The eight mazes of the paper's table."""
    entries = {entry.name: entry for entry in suite(env)}
    return tuple(entries[name] for name in PAPER)
