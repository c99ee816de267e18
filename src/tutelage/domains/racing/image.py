"""Pictures of tracks from above, and frames of videos."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.domains.racing import physics, texture, track
from tutelage.domains.racing.env import RacingEnv, Scene, State
from tutelage.domains.racing.pixels import FIELD, GRAY
from tutelage.types import InputError

START = (255, 220, 0)  # the color of the arrow at the start
TRAIL = (150.0, 150.0, 190.0)  # of visited tiles
CAR = (204, 0, 0)  # of the dot that stands for the car, which would be a pixel or two
RED = np.array([255.0, 0, 0])  # of curbs

LARGEST = 512
"""Pixels along the side of the map in a frame, at most."""


def birds_eye(line: track.CenterLine, size: int = 384, extent: float = 192.0) -> jax.Array:
    """u8[size, size, 3]: a track from above, north up; a yellow arrow shows where and in which direction it starts.

    `extent` is half the side of what is shown, in meters. `size` must be a multiple of 32.
    """
    if size % 32:
        raise InputError(f"The size of a bird's-eye view is a multiple of 32; got {size}.")
    canvas = texture.Canvas(extent=extent, texel=2 * extent / size, window=20.0)
    colors = jnp.full((line.points.shape[0], 3), GRAY)
    above = _colored(texture.unpack(texture.paint(canvas, line)[:size]), colors)
    return _with_arrow(above, (line.points[0] + extent) / (2 * extent), line.heading[0])


def frame(env: RacingEnv, scene: Scene, state: State) -> jax.Array:
    """u8[H, 2H, 3]: what Gymnasium draws, enlarged, and the track from above with its start, the car, and its trail."""
    canvas = env.canvas
    level = next(i for i in range(texture.LEVELS) if canvas.side >> i <= LARGEST)
    side, (row, column) = canvas.side >> level, canvas.corners[level]
    colors = jnp.where(state.visited[:, None], jnp.array(TRAIL), GRAY)
    # in a halved copy the first tile's number also stands at the rims of the road, where some texels have no tile
    colors = colors.at[0].set(GRAY)
    above = _colored(texture.unpack(scene.picture[row : row + side, column : column + side]), colors)
    start, car = ((at + canvas.extent) / (2 * canvas.extent) for at in (scene.start, physics.origin(state.car)))
    above = _with_arrow(above, start, scene.heading)
    right, up = _offsets(above, car)
    above = jnp.where((right**2 + up**2 < 1)[..., None], jnp.array(CAR, jnp.uint8), above)
    ahead = env.draw(scene, state)
    nearest = jnp.arange(side) * ahead.shape[0] // side
    return jnp.concatenate([ahead[nearest][:, nearest], above], 1)


def _colored(paint: texture.Paint, colors: jax.Array) -> jax.Array:
    """u8[H, W, 3]: texels, whose first row is the southernmost, with north up; `colors` f32[L, 3] are the tiles'."""
    ground = jnp.array([GRAY, FIELD, GRAY])
    road, white, red = (share[..., None] for share in paint[:3])
    color = ground * (1 - road - white - red) + colors[paint.tile] * road + 255 * white + RED * red
    return jnp.round(jnp.clip(color, 0, 255)).astype(jnp.uint8)[::-1]


def _with_arrow(picture: jax.Array, place: jax.Array, heading: jax.Array) -> jax.Array:
    """A picture with an arrow that begins at `place` and points along `heading`, as a car's angle."""
    right, up = _offsets(picture, place)
    across = right * jnp.cos(heading) + up * jnp.sin(heading)
    ahead = up * jnp.cos(heading) - right * jnp.sin(heading)
    shaft = (ahead >= 0) & (ahead < 4) & (jnp.abs(across) < 0.5)
    head = (ahead >= 3) & (2 * jnp.abs(across) < 6 - ahead)
    return jnp.where((shaft | head)[..., None], jnp.array(START, jnp.uint8), picture)


def _offsets(picture: jax.Array, place: jax.Array) -> tuple[jax.Array, jax.Array]:
    """How far each pixel is to the right of and above `place`, in hundredths of the picture's side.

    `place` f32[2] is (0, 0) in the south-west and (1, 1) in the north-east.
    """
    side = picture.shape[0]
    x, y = jnp.arange(side) + 0.5, side - 0.5 - jnp.arange(side)[:, None]
    return (x / side - place[0]) * 100, (y / side - place[1]) * 100
