"""Tracks: control points → Bézier center line → tiles (paper, appendix on CarRacing).

A `Level` is at most 12 control points. They are sorted by angle about their mean and joined by cubic Bézier curves into
a closed, counter-clockwise `CenterLine` of L points; tile i is the piece of road between points i − 1 and i. A center
line may also be given directly (a circuit, a CSV file, one of Gymnasium's own tracks): the environment takes either.
Arrays have a static length L; the first `n` entries are real and indices wrap around there.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from tutelage.types import InputError

SCALE = 6.0
PLAYFIELD = 2000 / SCALE  # half the side of the field, meters
HALF_WIDTH = 40 / SCALE  # of the road
BORDER = 8 / SCALE  # width of the red and white curbs
CURB_TURN, CURB_RUN = 0.2 * 0.31, 4  # a curb needs this turn (rad) on so many tiles in a row

MAX_POINTS = 12
SAMPLES = 39  # tiles on one Bézier segment
TILES = MAX_POINTS * SAMPLES
REACH = 0.2  # inner Bézier points lie this share of the segment away from its ends
LEAN = np.arctan(0.2) / np.pi + 0.5  # weight of the coming segment's heading in the tangent at a control point
CLOSEST = 0.1  # meters between control points
SHORTEST = 1e-3  # meters of road in a tile
FARTHEST = 1e6  # meters from the origin: beyond it, 32 bits do not resolve a wheel
OPEN = 0.12  # the longest straight that may close a line, as a share of its length: the 20 circuits' are up to 0.111
SKETCH = 10  # cells on a side of the teacher's sketch
MAX_TILES = 2**13  # whose numbers a texel can hold


class Level(NamedTuple):
    """A Bézier track. Only its first `n` points mean anything."""

    points: jax.Array  # f32[12, 2] meters
    n: jax.Array  # i32[]


class CenterLine(NamedTuple):
    """A closed road, counter-clockwise or not; the car starts at point 0."""

    points: jax.Array  # f32[L, 2] meters
    heading: jax.Array  # f32[L]; as a car's angle: 0 drives along +y
    n: jax.Array  # i32[]


def bezier(level: Level, start_east: bool = True) -> CenterLine:
    """The center line of a level: f32[468, 2], counter-clockwise, its bounding box centered on the field's center O.

    It starts at the point nearest to 0° as seen from O (paper). The released code sorts control points clockwise from
    the south, as seen from their mean, and starts at the first one (`start_east=False`).
    """
    placed = real(level)
    mean = jnp.where(placed[:, None], level.points, 0).sum(0) / level.n
    spoke = level.points - mean
    order = jnp.argsort(jnp.where(placed, jnp.arctan2(spoke[:, 1], spoke[:, 0]), jnp.inf))
    start = level.points[order]
    end = start[_wrap(1, MAX_POINTS, level.n)]
    segment = end - start
    theta = jnp.arctan2(segment[:, 1], segment[:, 0]) % (2 * jnp.pi)
    before = theta[_wrap(-1, MAX_POINTS, level.n)]
    tangent = LEAN * theta + (1 - LEAN) * before + jnp.pi * (jnp.abs(theta - before) > jnp.pi)
    towards = jnp.stack([jnp.cos(tangent), jnp.sin(tangent)], -1)
    reach = REACH * jnp.sqrt((segment**2).sum(-1, keepdims=True))
    leave = start + reach * towards
    arrive = end - reach * towards[_wrap(1, MAX_POINTS, level.n)]
    t = np.arange(SAMPLES) / SAMPLES
    weights = jnp.asarray([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], jnp.float32)
    knots = jnp.stack([start, leave, arrive, end])
    points = jnp.einsum("kt,kic->itc", weights, knots).reshape(TILES, 2)

    count = SAMPLES * level.n
    drawn = jnp.arange(TILES) < count
    low = jnp.where(drawn[:, None], points, jnp.inf).min(0)
    high = jnp.where(drawn[:, None], points, -jnp.inf).max(0)
    points = points - (low + high) / 2
    if start_east:
        first = jnp.argmin(jnp.where(drawn, jnp.abs(jnp.arctan2(points[:, 1], points[:, 0])), jnp.inf))
    else:
        first = SAMPLES * jnp.argmin(jnp.where(placed, from_south(start - mean), jnp.inf))
    points = points[_wrap(first, TILES, count)]
    return CenterLine(points, headings(points, count), count)


def real(track: Level | CenterLine) -> jax.Array:
    """bool[L]: the entries that mean anything."""
    return jnp.arange(track.points.shape[0]) < track.n


def from_south(vector: jax.Array) -> jax.Array:
    """f32[...]: the angles of vectors [..., 2], clockwise, from −π in the south to π."""
    return jnp.arctan2(vector[..., 0], vector[..., 1])


def road(level: Level | CenterLine, start_east: bool = True) -> CenterLine:
    """The center line of a level, which may be one already."""
    return bezier(level, start_east) if isinstance(level, Level) else level


def headings(points: jax.Array, count: jax.Array) -> jax.Array:
    """f32[L]: the direction of the road at each point, from the points before and after it."""
    size = points.shape[0]
    chord = points[_wrap(1, size, count)] - points[_wrap(-1, size, count)]
    return jnp.arctan2(chord[:, 1], chord[:, 0]) - jnp.pi / 2


def _wrap(offset: int | jax.Array, size: int, count: jax.Array) -> jax.Array:
    """i32[size]: the indices i + offset, modulo `n`."""
    return (jnp.arange(size) + offset) % count


def right(heading: jax.Array) -> jax.Array:
    """f32[..., 2]: the unit vector toward the right side of the road."""
    return jnp.stack([jnp.cos(heading), jnp.sin(heading)], -1)


def previous(line: CenterLine) -> jax.Array:
    """i32[L]: the index of the point at which each tile begins."""
    return _wrap(-1, line.points.shape[0], line.n)


def tiles(line: CenterLine) -> jax.Array:
    """f32[L, 4, 2]: the corners of each tile: its end's left and right, its beginning's right and left."""
    side = HALF_WIDTH * right(line.heading)
    left_edge, right_edge = line.points - side, line.points + side
    back = previous(line)
    return jnp.stack([left_edge, right_edge, right_edge[back], left_edge[back]], 1)


def curbs(line: CenterLine) -> tuple[jax.Array, jax.Array]:
    """Red and white curbs on hard turns: bool[L] which tiles have one, f32[L, 4, 2] its corners.

    Gymnasium's rule, except for the one curb that it misplaces where its heading jumps by 2π.
    """
    size, back, turn = line.points.shape[0], previous(line), _turns(line)
    runs = jnp.stack([turn[_wrap(-k, size, line.n)] for k in range(CURB_RUN)])
    hard = (runs > CURB_TURN).all(0) | (runs < -CURB_TURN).all(0)
    curb = jnp.stack([hard[_wrap(k, size, line.n)] for k in range(CURB_RUN)]).any(0)
    side = -jnp.sign(turn)[:, None]  # of the outer edge

    def edge(width: float, at: jax.Array) -> jax.Array:
        return line.points[at] + side * width * right(line.heading[at])

    here, outer = jnp.arange(size), HALF_WIDTH + BORDER
    corners = [edge(HALF_WIDTH, here), edge(outer, here), edge(outer, back), edge(HALF_WIDTH, back)]
    return curb, jnp.stack(corners, 1)


def _turns(line: CenterLine) -> jax.Array:
    """f32[L]: by how much the heading changes on each tile, from −π to π."""
    return (line.heading - line.heading[previous(line)] + jnp.pi) % (2 * jnp.pi) - jnp.pi


def steps(line: CenterLine) -> jax.Array:
    """f32[L]: the length of each tile along the center line, zero where there is none."""
    step = line.points - line.points[previous(line)]
    return jnp.where(real(line), jnp.sqrt((step**2).sum(-1)), 0.0)


def curvature(line: CenterLine) -> jax.Array:
    """f32[L]: the turn per meter at each tile, positive to the left, zero where there is none."""
    step = steps(line)
    return jnp.where(step > 0, _turns(line) / jnp.maximum(step, 1e-6), 0.0)


def overlaps(line: CenterLine) -> jax.Array:
    """bool[L]: tiles that lie on another stretch of road, more than two widths away along the track."""
    step = steps(line)
    along = jnp.cumsum(step)
    apart = jnp.abs(along[:, None] - along[None])
    apart = jnp.minimum(apart, along[-1] - apart)
    gap = line.points[:, None] - line.points[None]
    near = (gap**2).sum(-1) < (2 * HALF_WIDTH) ** 2
    drawn = real(line)
    return (near & (apart > 4 * HALF_WIDTH) & drawn[None]).any(1) & drawn


def from_points(points: ArrayLike) -> Level:
    """A level from 3 to 12 control points [n, 2], in meters."""
    array = _closed_shape(points, "control points")
    if len(array) > MAX_POINTS:
        raise InputError(f"A track has at most {MAX_POINTS} control points; got {len(array)}. Leave some out.")
    gaps = np.linalg.norm(array[:, None] - array[None], axis=-1)[np.triu_indices(len(array), 1)]
    if gaps.min() < CLOSEST:
        raise InputError(f"Two control points are the same, or nearer than {CLOSEST:g} m. Give each place only once.")
    if (extent := np.ptp(array, axis=0).max()) > 2 * PLAYFIELD:
        raise InputError(f"This track is {extent:.0f} m wide or high, its field {2 * PLAYFIELD:.0f} m. Scale it down.")
    padded = np.pad(array, ((0, MAX_POINTS - len(array)), (0, 0)))
    return Level(jnp.asarray(padded, jnp.float32), jnp.int32(len(array)))


def cell_center(cell: jax.Array) -> jax.Array:
    """f32[..., 2]: the middle of a sketch's cell, counted by rows, on the inner quarter of the field."""
    column_row = jnp.stack([cell % SKETCH, cell // SKETCH], -1)
    return ((column_row + 0.5) / SKETCH - 0.5) * PLAYFIELD


def cell_of(point: jax.Array) -> jax.Array:
    """i32[...]: the sketch's cell in which points [..., 2] lie."""
    column_row = jnp.clip(jnp.floor((point / PLAYFIELD + 0.5) * SKETCH), 0, SKETCH - 1).astype(jnp.int32)
    return column_row[..., 1] * SKETCH + column_row[..., 0]


def from_closed_line(points: ArrayLike, size: int) -> CenterLine:
    """A center line of `size` points, evenly spaced along the closed polygon through `points` [n, 2].

    The last point may repeat the first. If not, the line goes straight from the last to the first, but is refused as
    open if that gap is far longer than any other, or a large part of the whole.
    """
    check_size(size)
    array = _closed_shape(points, "points of a center line")
    returns = np.array_equal(array[0], array[-1])
    closed = array if returns else np.concatenate([array, array[:1]])
    step = np.linalg.norm(np.diff(closed, axis=0), axis=1)
    if not returns and (step[-1] > 4 * step[:-1].max() or step[-1] > max(OPEN, 2 / len(step)) * step.sum()):
        raise InputError(
            f"This center line is not closed: its ends are {step[-1]:.1f} apart, {step[-1] / step.sum():.0%} of its "
            f"length, its other points at most {step[:-1].max():.1f}. Let the last point come back to the first."
        )
    along = np.concatenate([[0.0], np.cumsum(step)])
    at = np.linspace(0, along[-1], size, endpoint=False)
    even = jnp.asarray(np.stack([np.interp(at, along, closed[:, k]) for k in (0, 1)], 1), jnp.float32)
    count = jnp.int32(size)
    return CenterLine(even, headings(even, count), count)


def from_rows(rows: ArrayLike, size: int) -> CenterLine:
    """A center line of `size` points, of which the first are given as rows [n, 3] of x, y and heading."""
    check_size(size)
    array = numbers(rows, "points of a line")
    if array.ndim != 2 or array.shape[1] != 3 or len(array) > size:
        raise InputError(f"A line has 3 to size={size} rows of x, y and heading; got an array of shape {array.shape}.")
    _closed_shape(array[:, :2], "points of a line")
    if np.linalg.norm(np.roll(array[:, :2], -1, 0) - array[:, :2], axis=1).min() < SHORTEST:
        raise InputError(f"Two points in a row are the same, or nearer than {SHORTEST:g} m. Leave one out.")
    padded = jnp.asarray(array[np.arange(size) % len(array)], jnp.float32)
    return CenterLine(padded[:, :2], padded[:, 2], jnp.int32(len(array)))


def check_size(size: int) -> None:
    """Refuse center lines of too few or too many points."""
    if not 3 <= size <= MAX_TILES:
        raise InputError(f"A center line has 3 to {MAX_TILES} points, the most that a texture can number; got {size}.")


def _closed_shape(points: ArrayLike, what: str) -> np.ndarray:
    """Checked f64[n, 2]: enough finite points, not all on one line."""
    array = numbers(points, what)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(f"The {what} should be an array of shape [n, 2]; got {array.shape}.")
    if len(array) < 3:
        raise InputError(f"A closed track needs at least 3 {what}; got {len(array)}.")
    if np.abs(array).max() > FARTHEST:
        raise InputError(f"Some {what} are over {FARTHEST / 1000:.0f} km away: the track is too large. Scale it down.")
    spread = np.linalg.svd(array - array.mean(0), compute_uv=False)
    if spread[1] <= 1e-6 * max(spread[0], 1e-6):
        raise InputError(f"All {what} lie on one line, which cannot enclose a track. Move at least one off it.")
    return array


def numbers(values: ArrayLike, what: str) -> np.ndarray:
    """Checked f64[...]: all of them finite."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" and array.size:
        raise InputError(f"The {what} should be rows of equally many numbers; got {values!r:.80}.")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InputError(f"The {what} hold a value that is not a finite number. Remove or repair it.")
    return array
