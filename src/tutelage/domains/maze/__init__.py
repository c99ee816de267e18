"""Partially observable mazes by MiniGrid's rules (paper, section 6.1)."""

from __future__ import annotations

from functools import partial
from typing import Literal

from tutelage.domains.maze.design import MazeDesign
from tutelage.domains.maze.env import MazeEnv, wall_at
from tutelage.domains.maze.image import frame
from tutelage.domains.maze.level import Level
from tutelage.domains.maze.oracle import optimal_return
from tutelage.domains.maze.suite import suites
from tutelage.types import Domain

__all__ = ["Level", "MazeDesign", "MazeEnv", "domain"]


def domain(
    size: int = 15,
    blocks: int = 25,
    view: int = 7,
    see_through: bool = True,
    max_steps: int = 250,
    reward: Literal["paper", "minigrid"] = "paper",
    vary_blocks: bool = False,
    clears: bool = False,
) -> Domain:
    """Mazes; the defaults are the paper's."""
    env = MazeEnv(view, see_through, max_steps, reward)
    return Domain(
        name="maze",
        env=env,
        design=MazeDesign(size, blocks, vary_blocks, clears),
        suites=dict(suites(env)),  # a copy, because that one is cached
        optimal_return=optimal_return,
        solved_above=0.0,
        frame=frame,
        # the paper's agents seem to follow walls ("an approximate right-hand rule")
        measures={"wall_right": partial(wall_at, 1), "wall_left": partial(wall_at, -1)},
    )
