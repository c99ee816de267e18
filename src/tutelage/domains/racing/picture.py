"""A picture for people: a track from above."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tutelage.domains.racing import texture, track
from tutelage.domains.racing.pixels import FIELD, GREY
from tutelage.types import InputError

START = (255, 220, 0)  # the colour of the first tile


def birds_eye(line: track.CentreLine, size: int = 384, extent: float = 192.0) -> jax.Array:
    """u8[size, size, 3]: a track from above, north up; its first tile is yellow.

    `extent` is half the side of what is shown, in metres. `size` must be a multiple of 32.
    """
    if size % 32:
        raise InputError(f"The size of a bird's-eye view is a multiple of 32; got {size}.")
    canvas = texture.Canvas(extent=extent, texel=2 * extent / size, window=20.0)
    paint = texture.unpack(texture.paint(canvas, line)[:size][::-1])
    ground = jnp.array([GREY, FIELD, GREY])
    road, white, red = (share[..., None] for share in paint[:3])
    first = jnp.where((paint.tile == 0)[..., None], jnp.array(START, jnp.float32), GREY)
    colour = ground * (1 - road - white - red) + first * road + 255 * white + jnp.array([255.0, 0, 0]) * red
    return jnp.round(jnp.clip(colour, 0, 255)).astype(jnp.uint8)
