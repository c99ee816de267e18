"""Which parts of the car touch which tiles, as Box2D's sensors find it.

A tile is visited when a wheel touches it. Gymnasium changes its color then, or when the hull touches it. Box2D takes
the convex hull of a tile's four corners and reports an overlap when it is less than 0.02 m (the skins of both polygons)
away from a wheel or from one of the hull's polygons. The same answer comes from separating axes: the normals of the
lines through any two corners (six pairs, which include all edges of the convex hull; the others change nothing) and of
the other polygon's edges.
"""

from __future__ import annotations

from functools import reduce
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.domains.racing.physics import CENTER, HULL, WHEEL_HALF, Car, rotate

SKIN = 0.02
_HALVES = [polygon[polygon[:, 0] > 0] for polygon in HULL]  # all four are symmetric
_PAIRS = tuple(combinations(range(4), 2))


def outlines(corners: jax.Array) -> jax.Array:
    """f32[32, K]: tiles with corners [K, 4, 2] in the form that `touching` takes.

    For each of the six axes its x and y, and the interval on it of the tile and its skin; then the x and y of corners.
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
    """f32[5, 2]: unit vectors to the right of the hull and of each wheel."""
    return rotate(car.angle, jnp.array([1.0, 0.0]))


def touching(outline: jax.Array, center: jax.Array, side: jax.Array) -> jax.Array:
    """i32[K]: which wheels touch each tile of `outlines` f32[32, K]: bit w is wheel w.

    Wheels are given by their `center` f32[4, 2] and `sides` f32[4, 2], not by angles, and the result is one number for
    each tile: XLA would compute anything else again for every tile and every use.
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


def under_hull(outline: jax.Array, center: jax.Array, side: jax.Array) -> jax.Array:
    """bool[K]: the tiles of `outlines` that any of the hull's four polygons touches.

    `center` f32[2] is the hull's center of mass, `side` f32[2] the unit vector to its right.
    """
    right_x, right_y = side
    x0, y0 = center[0] + CENTER[1] * right_y, center[1] - CENTER[1] * right_x  # the hull's origin
    apart = [jnp.zeros(outline.shape[1], bool) for _ in HULL]
    # Loops, because XLA fuses what they unroll to; reductions of arrays made the whole environment 12 % slower.
    for k in range(len(_PAIRS)):
        x, y, low, high = outline[4 * k : 4 * k + 4]
        across, ahead = jnp.abs(right_x * x + right_y * y), right_x * y - right_y * x
        offset = x0 * x + y0 * y
        low, high = low - offset, high - offset
        for i, half in enumerate(_HALVES):
            most = reduce(jnp.maximum, [ahead * py + across * px for px, py in half])
            least = reduce(jnp.minimum, [ahead * py - across * px for px, py in half])
            apart[i] |= (most < low) | (least > high)
    dx, dy = outline[-8:-4] - x0, outline[-4:] - y0
    xs, ys = right_x * dx + right_y * dy, right_x * dy - right_y * dx  # the tile's corners as the hull sees them
    for i, polygon in enumerate(HULL):
        for nx, ny in _normals(polygon):
            own = polygon @ (nx, ny)
            shadow = [nx * x + ny * y for x, y in zip(xs, ys, strict=True)]
            lowest, highest = reduce(jnp.minimum, shadow), reduce(jnp.maximum, shadow)
            apart[i] |= (lowest > own.max() + SKIN) | (highest < own.min() - SKIN)
    return ~reduce(jnp.logical_and, apart)


def _normals(polygon: np.ndarray) -> list[tuple[float, float]]:
    """The different directions, up to sign, that are at right angles to an edge."""
    edges = np.roll(polygon, -1, 0) - polygon
    normals = np.stack([-edges[:, 1], edges[:, 0]], 1) / np.linalg.norm(edges, axis=1, keepdims=True)
    normals *= np.where((normals[:, :1] < 0) | ((normals[:, :1] == 0) & (normals[:, 1:] < 0)), -1, 1)
    return sorted({(round(float(x), 9), round(float(y), 9)) for x, y in normals})


def wheels_of(touched: jax.Array) -> jax.Array:
    """bool[4]: the wheels that touch any tile, of the answer i32[K] of `touching`."""
    return ((touched & jnp.array([[1], [2], [4], [8]])) > 0).any(1)
