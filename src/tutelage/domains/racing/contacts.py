"""Which wheels touch which tiles, as Box2D's sensors find it.

Box2D takes the convex hull of a tile's four corners and reports an overlap when hull and wheel are less than
0.02 m (the skins of both polygons) apart. The same answer comes from separating axes: the normals of the
lines through any two corners (six pairs: an edge of the hull is one of them, and the others do no harm) and
the wheel's own two axes.
"""

from __future__ import annotations

from itertools import combinations

import jax
import jax.numpy as jnp

from tutelage.domains.racing.physics import WHEEL_HALF, Car, rotate

SKIN = 0.02
_PAIRS = tuple(combinations(range(4), 2))


def outlines(corners: jax.Array) -> jax.Array:
    """f32[32, K]: what `touching` reads of tiles with these corners [K, 4, 2].

    For each of the six axes its two components and the interval that the tile, grown by the skin, covers on
    it; then the x and the y of the corners.
    """
    rows = []
    for i, j in _PAIRS:
        edge = corners[:, j] - corners[:, i]
        length = jnp.sqrt((edge**2).sum(-1))
        # Two equal corners have no normal; a zero one separates nothing.
        x, y = (jnp.where(length > 0, c / jnp.maximum(length, 1e-12), 0.0) for c in (-edge[:, 1], edge[:, 0]))
        shadow = corners[..., 0] * x[:, None] + corners[..., 1] * y[:, None]
        rows += [x, y, shadow.min(1) - SKIN, shadow.max(1) + SKIN]
    return jnp.concatenate([jnp.stack(rows), corners[..., 0].T, corners[..., 1].T])


def sides(car: Car) -> jax.Array:
    """f32[4, 2]: unit vectors to the right of each wheel."""
    return rotate(car.angle[1:], jnp.array([1.0, 0.0]))


def touching(outline: jax.Array, center: jax.Array, side: jax.Array) -> jax.Array:
    """i32[K]: which wheels touch each tile of `outlines` f32[32, K]: bit w is wheel w.

    Wheels are given by their `center` f32[4, 2] and `sides` f32[4, 2]: no angles, and one number for an
    answer, because XLA repeats what it fuses for every tile and every reader.
    """
    x0, y0, right_x, right_y = (part[:, None] for part in (*center.T, *side.T))
    half_width, half_length = WHEEL_HALF
    apart = jnp.zeros((4, outline.shape[1]), bool)
    for k in range(len(_PAIRS)):
        x, y, low, high = outline[4 * k : 4 * k + 4]
        middle = x0 * x + y0 * y
        across, along = right_x * x + right_y * y, right_x * y - right_y * x
        reach = half_width * jnp.abs(across) + half_length * jnp.abs(along)
        apart |= (middle + reach < low) | (middle - reach > high)
    xs, ys = outline[-8:-4], outline[-4:]
    for a, b, half in ((right_x, right_y, half_width), (-right_y, right_x, half_length)):
        offset = x0 * a + y0 * b
        shadow = [x * a + y * b - offset for x, y in zip(xs, ys, strict=True)]
        low = jnp.minimum(jnp.minimum(shadow[0], shadow[1]), jnp.minimum(shadow[2], shadow[3]))
        high = jnp.maximum(jnp.maximum(shadow[0], shadow[1]), jnp.maximum(shadow[2], shadow[3]))
        apart |= (low > half + SKIN) | (high < -half - SKIN)
    return (~apart * jnp.array([[1], [2], [4], [8]])).sum(0)


def wheels_of(touched: jax.Array) -> jax.Array:
    """bool[4]: the wheels that touch any tile, of the answer i32[K] of `touching`."""
    return ((touched & jnp.array([[1], [2], [4], [8]])) > 0).any(1)
