"""Pictures for people: a track from above, and a moment of an episode."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.domains.racing import physics, texture, track
from tutelage.domains.racing.env import RacingEnv, Scene, State
from tutelage.domains.racing.pixels import FIELD, GREY
from tutelage.types import InputError

START = (255, 220, 0)  # the colour of the first tile
TRAIL = (150.0, 150.0, 190.0)  # of visited tiles
CAR = (204, 0, 0)
RED = np.array([255.0, 0, 0])  # of kerbs

LARGEST = 512
"""Pixels along the side of a moment's map, at most."""


def birds_eye(line: track.CentreLine, size: int = 384, extent: float = 192.0) -> jax.Array:
    """u8[size, size, 3]: a track from above, north up; a yellow dot is where it starts.

    `extent` is half the side of what is shown, in metres. `size` must be a multiple of 32.
    """
    if size % 32:
        raise InputError(f"The size of a bird's-eye view is a multiple of 32; got {size}.")
    canvas = texture.Canvas(extent=extent, texel=2 * extent / size, window=20.0)
    colours = jnp.full((line.points.shape[0], 3), GREY)
    above = _coloured(texture.unpack(texture.paint(canvas, line)[:size]), colours)
    return _dotted(above, (line.points[0] + extent) / (2 * extent), START)


def frame(env: RacingEnv, scene: Scene, state: State) -> jax.Array:
    """u8[H, 2H, 3]: what Gymnasium draws, enlarged, and the track from above with its start, the car, and its trail."""
    canvas = env.canvas
    level = next(i for i in range(canvas.levels) if canvas.side >> i <= LARGEST)
    side, (row, column) = canvas.side >> level, canvas.corners[level]
    colours = jnp.where(state.visited[:, None], jnp.array(TRAIL), GREY)
    # in a halved copy the first tile's number also stands at the rims of the road, where some texels have no tile
    colours = colours.at[0].set(GREY)
    above = _coloured(texture.unpack(scene.picture[row : row + side, column : column + side]), colours)
    for point, colour in ((scene.start, START), (physics.origin(state.car), CAR)):
        above = _dotted(above, (point + canvas.extent) / (2 * canvas.extent), colour)
    ahead = env.draw(scene, state)
    nearest = jnp.arange(side) * ahead.shape[0] // side
    return jnp.concatenate([ahead[nearest][:, nearest], above], 1)


def _coloured(paint: texture.Paint, colours: jax.Array) -> jax.Array:
    """u8[H, W, 3]: texels, whose first row is the southernmost, with north up; `colours` f32[L, 3] are the tiles'."""
    ground = jnp.array([GREY, FIELD, GREY])
    road, white, red = (share[..., None] for share in paint[:3])
    colour = ground * (1 - road - white - red) + colours[paint.tile] * road + 255 * white + RED * red
    return jnp.round(jnp.clip(colour, 0, 255)).astype(jnp.uint8)[::-1]


def _dotted(picture: jax.Array, place: jax.Array, colour: tuple[int, int, int]) -> jax.Array:
    """A picture with a dot at `place`, from (0, 0) in the south-west to (1, 1): a car alone would be a pixel or two."""
    side = picture.shape[0]
    east, north = place * side
    x, y = jnp.arange(side) + 0.5, side - 0.5 - jnp.arange(side)[:, None]
    dot = (x - east) ** 2 + (y - north) ** 2 < (side / 100) ** 2
    return jnp.where(dot[..., None], jnp.array(colour, jnp.uint8), picture)
