"""Pictures of mazes for people: levels, states of an episode, contact sheets, PNG and GIF files."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw

from tutelage.domains.maze.env import State
from tutelage.domains.maze.level import Level, at

FLOOR, LINE, WALL, GOAL, AGENT, PAPER, INK = (
    np.array(colour, np.uint8)
    for colour in (
        (247, 246, 242),
        (226, 223, 214),
        (58, 63, 75),
        (63, 160, 92),
        (214, 72, 56),
        (255, 255, 255),
        (40, 40, 40),
    )
)
GAP = 16
"""Pixels between the pictures of a sheet, enough for a line of text."""


def draw(level: Level, pixels: int = 16) -> jax.Array:
    """u8[H·pixels, W·pixels, 3]: walls dark, goal green, the agent a red arrow head."""
    height, width = level.walls.shape
    kinds = jnp.where(level.walls, 1, 0)
    kinds = jnp.where(at(level.goal, height), 2, kinds)
    kinds = jnp.where(at(level.agent, height), 3 + level.direction, kinds)
    tiles = jnp.asarray(_tiles(pixels))[kinds]
    return tiles.transpose(0, 2, 1, 3, 4).reshape(height * pixels, width * pixels, 3)


def draw_state(level: Level, state: State, pixels: int = 16) -> jax.Array:
    """u8[H·pixels, W·pixels, 3]: the level with the agent where it is now."""
    return draw(level._replace(agent=state.agent, direction=state.direction), pixels)


def sheet(pictures: Sequence[Any], titles: Sequence[str] = (), columns: int | None = None) -> np.ndarray[Any, Any]:
    """u8[H, W, 3]: pictures u8[h, w, 3] of any sizes side by side, in a grid as square as it can be by default.

    To put the episodes of several levels into one film, make a sheet of each moment's pictures.
    """
    columns = columns or math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    height, width = (GAP + max(picture.shape[axis] for picture in pictures) for axis in (0, 1))
    canvas = Image.new("RGB", (columns * width + GAP, rows * height + GAP), tuple(PAPER.tolist()))
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        canvas.paste(Image.fromarray(np.asarray(picture)), (GAP + column * width, GAP + row * height))
    pen = ImageDraw.Draw(canvas)
    for index, title in enumerate(titles):
        row, column = divmod(index, columns)
        pen.text((GAP + column * width, row * height + 2), title, tuple(INK.tolist()))
    return np.asarray(canvas)


def png(path: str | Path, frame: Any) -> None:
    """Write one picture u8[H, W, 3]."""
    _write(Path(path), Image.fromarray(np.asarray(frame)), "PNG")


def gif(path: str | Path, frames: Iterable[Any], milliseconds: int = 80) -> None:
    """Write a film of pictures u8[H, W, 3], which loops."""
    first, *rest = (Image.fromarray(np.asarray(frame)) for frame in frames)
    _write(Path(path), first, "GIF", save_all=True, append_images=rest, duration=milliseconds, loop=0)


def _write(path: Path, picture: Image.Image, kind: str, **options: Any) -> None:
    """Write beside the file first, then put it in place, so that a reader never meets half a picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        picture.save(unfinished, kind, **options)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


@functools.cache
def _tiles(pixels: int) -> np.ndarray[Any, Any]:
    """u8[7, pixels, pixels, 3]: floor, wall, goal, and the agent facing east, south, west and north."""
    floor = np.broadcast_to(FLOOR, (pixels, pixels, 3)).copy()
    if pixels >= 8:  # on smaller tiles the lines would drown the picture
        floor[0] = floor[:, 0] = LINE
    wall = np.broadcast_to(WALL, floor.shape)
    row, column = (np.indices((pixels, pixels)) + 0.5) / pixels - 0.5
    goal = np.where(((np.abs(row) < 0.36) & (np.abs(column) < 0.36))[..., None], GOAL, floor)
    arrow = (column > -0.32) & (2 * np.abs(row) < 0.38 - column)
    agents = [np.where(np.rot90(arrow, -quarter)[..., None], AGENT, floor) for quarter in range(4)]
    return np.stack([floor, wall, goal, *agents])
