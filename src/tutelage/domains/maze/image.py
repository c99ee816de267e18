"""Pictures of mazes: levels, and states of an episode."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tutelage.domains.maze.env import MazeEnv, Scene, State
from tutelage.domains.maze.level import Level, at

FLOOR, LINE, WALL = np.array([(247, 246, 242), (226, 223, 214), (58, 63, 75)], np.uint8)
GOAL, AGENT, LIGHT = np.array([(63, 160, 92), (214, 72, 56), (255, 208, 60)], np.uint8)


def draw(level: Level, pixels: int = 16) -> jax.Array:
    """u8[H·pixels, W·pixels, 3]: walls dark, goal green, the agent a red arrow head."""
    height, width = level.walls.shape
    kinds = jnp.where(level.walls, 1, 0)
    kinds = jnp.where(at(level.goal, height), 2, kinds)
    kinds = jnp.where(at(level.agent, height), 3 + level.direction, kinds)
    tiles = jnp.asarray(_tiles(pixels))[kinds]
    return tiles.transpose(0, 2, 1, 3, 4).reshape(height * pixels, width * pixels, 3)


def frame(env: MazeEnv, scene: Scene, state: State) -> jax.Array:
    """u8[H·pixels, W·pixels, 3]: one frame of an episode; the cells that the agent sees are lit."""
    walls = scene.level.walls
    pixels = max(3, 315 // len(walls))
    row, column, inside = env.in_view(state, jnp.stack(jnp.indices(walls.shape), -1) - state.agent)
    shown = env.observe(scene, state).image[..., 0] > 0  # MiniGrid's code of what walls hide is 0
    lit = inside & shown[jnp.clip(column, 0, env.view - 1), jnp.clip(row, 0, env.view - 1)]
    lit = lit.repeat(pixels, 0).repeat(pixels, 1)[..., None]
    picture = draw(scene.level._replace(agent=state.agent, direction=state.direction), pixels)
    return jnp.where(lit, (0.75 * picture + 0.25 * LIGHT).astype(jnp.uint8), picture)


@functools.cache
def _tiles(pixels: int) -> NDArray[Any]:
    """u8[7, pixels, pixels, 3]: floor, wall, goal, and the agent facing east, south, west and north."""
    floor = np.broadcast_to(FLOOR, (pixels, pixels, 3)).copy()
    if pixels >= 8:  # on smaller tiles the lines would dominate the picture
        floor[0] = floor[:, 0] = LINE
    wall = np.broadcast_to(WALL, floor.shape)
    row, column = (np.indices((pixels, pixels)) + 0.5) / pixels - 0.5
    goal = np.where(((np.abs(row) < 0.36) & (np.abs(column) < 0.36))[..., None], GOAL, floor)
    arrow = (column > -0.32) & (2 * np.abs(row) < 0.38 - column)
    agents = [np.where(np.rot90(arrow, -quarter)[..., None], AGENT, floor) for quarter in range(4)]
    return np.stack([floor, wall, goal, *agents])
