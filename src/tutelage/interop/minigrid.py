"""A maze level as an environment of the `minigrid` package: the same grid, start, goal, view and time limit."""

from __future__ import annotations

import jax
import numpy as np

from tutelage.domains.maze.level import Level
from tutelage.types import InputError

try:
    from minigrid.core.grid import Grid
    from minigrid.core.mission import MissionSpace
    from minigrid.core.world_object import Goal, Wall
    from minigrid.minigrid_env import MiniGridEnv
except ImportError as error:
    raise InputError("The `minigrid` package is not installed; run `pip install tutelage[interop]`.") from error


class LevelEnv(MiniGridEnv):  # type: ignore[misc,unused-ignore]
    """One fixed level, the same after every reset. Observations, actions and rewards are MiniGrid's own."""

    def __init__(self, level: Level, view: int, see_through: bool, max_steps: int) -> None:
        self._level = jax.tree.map(np.asarray, level)
        height, width = self._level.walls.shape
        super().__init__(
            mission_space=MissionSpace(mission_func=lambda: "reach the goal"),
            width=width,
            height=height,
            max_steps=max_steps,
            see_through_walls=see_through,
            agent_view_size=view,
        )

    def _gen_grid(self, width: int, height: int) -> None:
        self.grid = Grid(width, height)
        for row, column in np.argwhere(self._level.walls).tolist():
            self.grid.set(column, row, Wall())
        row, column = self._level.goal.tolist()
        self.put_obj(Goal(), column, row)
        row, column = self._level.agent.tolist()
        self.agent_pos = np.array((column, row))
        self.agent_dir = int(self._level.direction)


def minigrid_env(level: Level, view: int = 7, see_through: bool = True, max_steps: int = 250) -> LevelEnv:
    """Build the level as a `minigrid` environment; the defaults are those of `MazeEnv`."""
    return LevelEnv(level, view, see_through, max_steps)
