"""The road of one level, painted once into a texture that every frame samples.

A texel is one u32: how much of it road covers (7 bits), white curb (6) and red curb (6), and the tile on top (13),
whose gray depends on whether the car has touched it. Tiles are painted in order, as Gymnasium does, each into a small
window. A pyramid of halved copies is in the same array as the full one, for the zoom of the first second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import sequential_vmap

from tutelage.domains.racing import track

ROAD_BITS, CURB_BITS, TILE_BITS = 7, 6, (track.MAX_TILES - 1).bit_length()
GROW = 0.5 / 16.2  # Gymnasium's polygons include their outline: half a pixel of its 1000×800 picture
LEVELS = 6  # copies in the pyramid
_TILE = np.uint32(2**TILE_BITS - 1)
_LOWEST = sum(1 << bit for bit in (TILE_BITS, TILE_BITS + CURB_BITS, TILE_BITS + 2 * CURB_BITS))  # of each share
_ABOVE_LOWEST = np.uint32(2**32 - 1 - _LOWEST) & ~_TILE


class Paint(NamedTuple):
    """Unpacked texels."""

    road: jax.Array  # f32 in [0, 1]
    white: jax.Array  # f32 in [0, 1]
    red: jax.Array  # f32 in [0, 1]
    tile: jax.Array  # u32


@dataclass(frozen=True)
class Canvas:
    """The size of a texture: a square from −extent to extent."""

    extent: float = 192.0  # meters; random Bézier tracks reach 190
    texel: float = 0.4  # meters; blurs about as much as the area that Gymnasium averages into a pixel
    window: float = 20.0  # meters; no tile with its curb is wider or higher

    @property
    def side(self) -> int:
        """Texels along a side, a multiple of 32."""
        return 32 * int(np.ceil(2 * self.extent / self.texel / 32))

    @property
    def corners(self) -> np.ndarray:
        """i32[LEVELS, 2]: the row and column of each copy: the full one, then the rest above it in a row."""
        columns = [0, *np.cumsum([self.side >> level for level in range(1, LEVELS - 1)])]
        return np.array([(0, 0), *((self.side, column) for column in columns)], np.int32)


BEZIER_CANVAS = Canvas()


def pack(paint: Paint) -> jax.Array:
    """u32[...]: texels."""

    def quantize(value: jax.Array, bits: int) -> jax.Array:
        return (value * (2**bits - 1) + 0.5).astype(jnp.uint32)

    curbs = quantize(paint.white, CURB_BITS) << CURB_BITS | quantize(paint.red, CURB_BITS)
    return (quantize(paint.road, ROAD_BITS) << 2 * CURB_BITS | curbs) << TILE_BITS | paint.tile


def unpack(texel: jax.Array) -> Paint:
    """The inverse of `pack`, up to rounding."""

    def share(value: jax.Array, bits: int) -> jax.Array:
        # Through i32, whose conversion to floats is vectorized on CPUs.
        return (value & (2**bits - 1)).astype(jnp.int32).astype(jnp.float32) * (1 / (2**bits - 1))

    return Paint(
        road=share(texel >> (TILE_BITS + 2 * CURB_BITS), ROAD_BITS),
        white=share(texel >> (TILE_BITS + CURB_BITS), CURB_BITS),
        red=share(texel >> TILE_BITS, CURB_BITS),
        tile=texel & _TILE,
    )


def paint(canvas: Canvas, line: track.CenterLine) -> jax.Array:
    """u32[1.5 side, side]: the texture of a track and its pyramid; row 0 is the southernmost."""
    corners = track.tiles(line)
    has_curb, curb = track.curbs(line)
    curb = jnp.where(has_curb[:, None, None], curb, corners)
    low = jnp.minimum(corners, curb).min(1)
    window = jnp.floor((low + canvas.extent) / canvas.texel - 1).astype(jnp.int32)
    planes = jnp.stack([_planes(line, corners), _planes(line, curb)], 1)

    # One level after the other: batched windows would become scatters, which are far slower on a CPU.
    return sequential_vmap(partial(_paint, canvas))(window, planes, has_curb, line.n)


def _planes(line: track.CenterLine, corners: jax.Array) -> jax.Array:
    """f32[L, 4, 3]: half planes a·x + b·y + c: ahead of a tile's beginning, of its end, within its sides."""

    def through(point: jax.Array, normal: jax.Array) -> jax.Array:
        return jnp.concatenate([normal, -(normal * point).sum(-1, keepdims=True)], -1)

    def unit(vector: jax.Array) -> jax.Array:
        return vector / jnp.maximum(jnp.sqrt((vector**2).sum(-1, keepdims=True)), 1e-6)

    def within(a: jax.Array, b: jax.Array, inwards: jax.Array) -> jax.Array:
        edge = b - a
        normal = jnp.stack([-edge[:, 1], edge[:, 0]], -1)
        facing = (normal * inwards).sum(-1, keepdims=True)
        # Where a bend turns about this side, its edge is very short and may point anywhere.
        along = jnp.abs(facing) > 0.5 * jnp.sqrt((edge**2).sum(-1, keepdims=True))
        normal = jnp.where(along, unit(normal) * jnp.sign(facing), inwards)
        outer = jnp.where((edge * normal).sum(-1, keepdims=True) < 0, b, a)
        return through(outer, normal)

    ahead = jnp.stack([-jnp.sin(line.heading), jnp.cos(line.heading)], -1)
    across = unit(corners[:, 0] - corners[:, 1] + corners[:, 3] - corners[:, 2])
    return jnp.stack(
        [
            through(corners[:, 2], ahead[track.previous(line)]),
            through(corners[:, 0], ahead),
            within(corners[:, 1], corners[:, 2], across),
            within(corners[:, 3], corners[:, 0], -across),
        ],
        1,
    )


def _paint(canvas: Canvas, window: jax.Array, planes: jax.Array, has_curb: jax.Array, n: jax.Array) -> jax.Array:
    """Paint tiles in order: `planes` f32[L, 2, 4, 3] are those of a tile and of its curb, `window` i32[L, 2] the first
    column and row that they touch.
    """
    size = int(np.ceil(canvas.window / canvas.texel)) + 2
    grid = jnp.arange(size) + 0.5

    def paint_tile(i: jax.Array, picture: jax.Array) -> jax.Array:
        column, row = jnp.clip(window[i], 0, canvas.side - size)
        x = (column + grid) * canvas.texel - canvas.extent
        y = ((row + grid) * canvas.texel - canvas.extent)[:, None]

        def cover(plane: jax.Array) -> jax.Array:
            """Smooth across the road's sides; hard where one tile meets the next."""
            begun, ended, left, right = (p[0] * x + p[1] * y + p[2] for p in plane)
            # In a bend tighter than the road is wide the two ends cross, and the tile is two triangles.
            between = ((begun > -GROW) & (ended < GROW)) | ((begun < GROW) & (ended > -GROW))
            sides = [jnp.clip((side + GROW) / canvas.texel + 0.5, 0, 1) for side in (left, right)]
            return sides[0] * sides[1] * between

        old = unpack(jax.lax.dynamic_slice(picture, (row, column), (size, size)))
        road = cover(planes[i, 0])
        curb = jnp.where(has_curb[i], cover(planes[i, 1]), 0.0)
        white = jnp.where(i % 2 == 0, curb, 0.0)
        bare = (1 - road) * (1 - curb)
        new = Paint(
            road=jnp.maximum(old.road, road) * (1 - curb),  # where tiles meet, their sides are one
            white=old.white * bare + white,
            red=old.red * bare + (curb - white),
            tile=jnp.where(road > 0, i.astype(jnp.uint32), old.tile),
        )
        return jax.lax.dynamic_update_slice(picture, pack(new), (row, column))

    picture = jnp.zeros((canvas.side * 3 // 2, canvas.side), jnp.uint32)
    picture = jax.lax.fori_loop(0, n, paint_tile, picture)
    copy = picture[: canvas.side]
    for corner in canvas.corners[1:]:
        copy = _halve(copy)
        picture = jax.lax.dynamic_update_slice(picture, copy, corner)
    return picture


def _halve(picture: jax.Array) -> jax.Array:
    """The mean of 2×2 texels, share by share without unpacking; of the tiles, the first."""

    def mean(a: jax.Array, b: jax.Array) -> jax.Array:
        return (a & b & ~_TILE) + (((a ^ b) & _ABOVE_LOWEST) >> 1) + (a & _TILE)

    rows = mean(picture[0::2], picture[1::2])
    return mean(rows[:, 0::2], rows[:, 1::2])
