"""What is drawn over the road in a frame: the car, and the dashboard at the bottom.

The dashboard shows the score, the speed, four wheel speeds, the steering and the turning rate. Gymnasium draws it on
1000×100 pixels and averages them down to 96×12. Bars are rectangles, so their share of a pixel is a product of two
overlaps. The score is looked up in a table of all scores, averaged beforehand. Its digits come from another typeface
than Gymnasium's, stretched to the same boxes: a digit is two pixels wide.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tutelage.domains.racing.physics import DT, HULL, WHEEL_HALF, Car, origin, rotate
from tutelage.domains.racing.track import SCALE

SIDE = 96  # of a frame
WIDTH, HEIGHT = 1000, 800  # Gymnasium's picture
PIXEL = np.array([WIDTH / SIDE, HEIGHT / SIDE])  # the size of ours in its pixels
ZOOM = 2.7 * SCALE
_SECOND = np.arange(1, 51) * DT  # the reset itself takes one frame
ZOOMS = 0.1 * SCALE * (1 - _SECOND) + ZOOM * _SECOND  # pixels a meter in the first 50 frames; the last one stays
ZOOMED = len(ZOOMS) - 1  # the frame from which on the camera stays
EYE = np.array([WIDTH / 2, HEIGHT / 4])  # the hull's origin, from the left and from below

PATCH = (slice(66, 78), slice(44, 52))  # rows and columns that the car can cover
GROW = 0.5  # pixels of Gymnasium's by which its polygons are larger than their corners say
HULL_RED, STRIPE = 204.0, 77.0

DASHBOARD = 12  # rows
_WHITE, _BLUE, _VIOLET, _GREEN, _RED = (255, 255, 255), (0, 0, 255), (51, 0, 255), (0, 255, 0), (255, 0, 0)
_COLORS = np.array([_WHITE, _BLUE, _BLUE, _VIOLET, _VIOLET, _GREEN, _RED], np.float32)

LOWEST, HIGHEST = -199, 1199  # scores in the table
_TEXT = (slice(3, 9), slice(0, 12))  # rows and columns of the strip that hold the score
_CENTER = (60, 750)
_PAGE = 130  # of Gymnasium's columns that the score can reach
_INK = dict.fromkeys("0123456789", (1, 3, 22, 34)) | {
    "1": (3, 5, 16, 35),
    "2": (1, 3, 21, 33),
    "4": (1, 4, 22, 34),
    "5": (1, 4, 22, 35),
    "7": (1, 5, 22, 35),
    "-": (1, 19, 12, 25),
}
"""Left, top, right and bottom of each character in its line of 46 pixels."""
_LINE = 46
_ADVANCE, _MINUS_ADVANCE = 25.0, 15.0


def area_weights(ours: int, theirs: int) -> np.ndarray:
    """f64[ours, theirs]: the weight of each of their pixels in each of ours, along one axis."""
    pitch = theirs / ours
    low = pitch * np.arange(ours)[:, None]
    pixel = np.arange(theirs)
    shared = np.minimum(low + pitch, pixel + 1) - np.maximum(low, pixel)
    return np.clip(shared, 0, None) / pitch


def within(value: jax.Array, half: jax.Array, blur: jax.Array) -> jax.Array:
    """The share of a pixel, `blur` wide, that lies between −half and half."""
    return jnp.clip((half - jnp.abs(value)) / blur + 0.5, 0, 1)


class Wheels(NamedTuple):
    """The wheels relative to the hull, computed once for all pixels."""

    place: jax.Array  # f32[4, 2] from the hull's origin, meters
    cos: jax.Array  # f32[4] of the steering
    sin: jax.Array  # f32[4]
    stripe: jax.Array  # f32[4] middle of the bright stripe, meters ahead of the wheel's
    stripe_half: jax.Array  # f32[4] half its length
    stripe_seen: jax.Array  # f32[4] 0 or 1


def wheels(car: Car) -> Wheels:
    """The wheels of a car as they are drawn."""
    steer = car.angle[1:] - car.angle[0]
    ends = jnp.stack([car.phase, car.phase + 1.2])
    seen = jnp.sin(ends) <= 0
    reach = WHEEL_HALF[1] * jnp.where(seen, jnp.cos(ends), jnp.sign(jnp.cos(ends)))
    return Wheels(
        place=rotate(-car.angle[0], car.position[1:] - origin(car)),
        cos=jnp.cos(steer),
        sin=jnp.sin(steer),
        stripe=(reach[0] + reach[1]) / 2,
        stripe_half=jnp.abs(reach[0] - reach[1]) / 2,
        stripe_seen=seen.any(0).astype(jnp.float32),
    )


def draw_car(ground: jax.Array, wheels: Wheels, frame: jax.Array, zoom: jax.Array) -> jax.Array:
    """f32[12, 8, 3]: wheels and hull over the ground."""
    # 2×2 points in a pixel
    rows, columns = (np.arange(2 * part.start, 2 * part.stop) + 0.5 for part in PATCH)
    right = jnp.asarray(PIXEL[0] / 2 * columns - EYE[0], jnp.float32) / zoom
    ahead = jnp.asarray(HEIGHT - PIXEL[1] / 2 * rows - EYE[1], jnp.float32)[:, None] / zoom
    blur = jnp.asarray(PIXEL / 2, jnp.float32) / zoom
    grow = GROW / zoom
    for i in range(4):
        x, y = right - wheels.place[i, 0], ahead - wheels.place[i, 1]
        x, y = wheels.cos[i] * x + wheels.sin[i] * y, wheels.cos[i] * y - wheels.sin[i] * x
        across = within(x, WHEEL_HALF[0] + grow, blur[0])
        tire = across * within(y, WHEEL_HALF[1] + grow, blur[1])
        stripe = across * within(y - wheels.stripe[i], wheels.stripe_half[i] + grow, blur[1]) * wheels.stripe_seen[i]
        tire, stripe = (
            (share[0::2, 0::2] + share[0::2, 1::2] + share[1::2, 0::2] + share[1::2, 1::2])[..., None] / 4
            for share in (tire, stripe)
        )
        ground = ground * (1 - tire) * (1 - stripe) + STRIPE * stripe
    hull = jnp.asarray(_hull_table())[frame][..., None]
    return ground * (1 - hull) + hull * np.array([HULL_RED, 0, 0], np.float32)


@cache
def _hull_table() -> np.ndarray:
    """f32[50, 12, 8]: the share of each pixel that the hull covers, for each zoom."""
    rows, columns = PATCH
    down, across = area_weights(SIDE, HEIGHT)[rows], area_weights(SIDE, WIDTH)[columns]
    x, y = np.arange(WIDTH), HEIGHT - 1 - np.arange(HEIGHT)[:, None]  # of Gymnasium's pixels, y upwards
    low, wide = down.any(0), across.any(0)  # only those that the patch averages
    down, y, across, x = down[:, low], y[low], across[:, wide], x[wide]
    table = []
    for zoom in ZOOMS:
        filled = np.zeros((y.size, x.size), bool)
        for polygon in HULL:
            filled |= _fill(np.floor(EYE + polygon * zoom), x, y)
        table.append(down @ filled @ across.T)
    return np.array(table, np.float32)


def _fill(polygon: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """bool[y, x]: the pixels in a convex polygon and on its outline, even if that is all of it."""
    low, high = polygon.min(0), polygon.max(0)
    inside = (x >= low[0]) & (x <= high[0]) & (y >= low[1]) & (y <= high[1])
    turning = sum(a[0] * b[1] - a[1] * b[0] for a, b in pairwise([*polygon, polygon[0]]))
    for a, b in pairwise([*polygon, polygon[0]]):
        edge = b - a
        distance = np.sign(turning) * (edge[0] * (y - a[1]) - edge[1] * (x - a[0]))
        inside &= distance >= -0.5 * abs(edge[1])
    return inside


def dashboard(car: Car, score: jax.Array) -> jax.Array:
    """f32[12, 96, 3]: the dashboard, as mean colors before rounding."""
    speed = jnp.sqrt((car.velocity[0] ** 2).sum())
    heights = jnp.concatenate([0.02 * speed[None], 0.01 * car.roll])
    dials = jnp.stack([-10 * (car.angle[1] - car.angle[0]), -0.8 * car.spin[0]])
    shown = jnp.concatenate([speed[None], car.roll, dials]).astype(jnp.float32)

    # Gymnasium cuts coordinates to whole pixels and fills both ends; where bars touch, the next hides one.
    place = 25.0 * jnp.array([5, 7, 8, 9, 10])
    bar_end = place + jnp.array([26, 25, 25, 25, 26])
    upright = _overlap(*_filled(780 - 20 * heights, jnp.float32(780)), HEIGHT - 100, PIXEL[1], DASHBOARD)
    across = _overlap(place, bar_end, 0, PIXEL[0], SIDE)
    zero = 25.0 * jnp.array([20, 30])
    level = _overlap(jnp.full(2, 720.0), jnp.full(2, 761.0), HEIGHT - 100, PIXEL[1], DASHBOARD)
    along = _overlap(*_filled(zero + 25 * dials, zero), 0, PIXEL[0], SIDE)

    rows = jnp.concatenate([upright, level]) * (jnp.abs(shown) > 1e-4)[:, None]  # [7, 12]
    columns = jnp.concatenate([across, along])  # [7, 96]
    picture = jnp.einsum("kr,kc,kd->rcd", rows, columns, jnp.asarray(_COLORS))

    number = jnp.clip(jnp.round(score), LOWEST, HIGHEST).astype(jnp.int32) - LOWEST
    text = jnp.asarray(_score_table())[number].astype(jnp.float32)
    return picture.at[_TEXT].add(text[..., None])


def _filled(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The pixels that a polygon from a to b fills."""
    return jnp.floor(jnp.minimum(a, b)), jnp.floor(jnp.maximum(a, b)) + 1


def _overlap(low: jax.Array, high: jax.Array, start: float, pitch: float, size: int) -> jax.Array:
    """f32[K, size]: the share of each of `size` pixels that lies between low and high [K]."""
    edge = start + pitch * np.arange(size, dtype=np.float32)
    shared = jnp.minimum(high[:, None], edge + pitch) - jnp.maximum(low[:, None], edge)
    return jnp.clip(shared / pitch, 0, 1)


@cache
def _score_table() -> np.ndarray:
    """u8[scores, 6, 12]: how bright the score makes each pixel, the lowest score first."""
    glyphs = {character: _glyph(character) for character in _INK}
    rows = area_weights(DASHBOARD, 100)[_TEXT[0]]
    columns = area_weights(SIDE, 1000)[_TEXT[1], :_PAGE]
    table = [rows @ _written(f"{score:04d}", glyphs) @ columns.T for score in range(LOWEST, HIGHEST + 1)]
    return np.round(table).astype(np.uint8)


def _written(text: str, glyphs: dict[str, np.ndarray]) -> np.ndarray:
    """f64[100, 130]: a text, centered as Gymnasium does, in its picture's pixels."""
    offsets = [0.0]
    for before, after in pairwise(text):
        ones = (before, after).count("1")
        kern = -6.0 if ones == 2 else -2.0 if before == "-" else -2.5 * ones
        offsets.append(offsets[-1] + (_MINUS_ADVANCE if before == "-" else _ADVANCE) + kern)
    width = offsets[-1] + _ADVANCE - 1
    left, top = _CENTER[0] - width / 2, _CENTER[1] - _LINE // 2 - (HEIGHT - 100)
    page = np.zeros((100, _PAGE))
    for character, offset in zip(text, offsets, strict=True):
        x, y, right, bottom = _INK[character]
        column = max(round(left + offset) + x, 0)
        page[top + y : top + bottom, column : column + right - x] = glyphs[character]
    return page


def _glyph(character: str) -> np.ndarray:
    """f64[h, w]: a character in white, stretched to its box of ink."""
    from matplotlib import get_data_path  # slow to import, and only its font is needed

    left, top, right, bottom = _INK[character]
    font = ImageFont.truetype(Path(get_data_path()) / "fonts/ttf/DejaVuSans-Bold.ttf", 160)
    image = Image.new("L", (200, 240))
    ImageDraw.Draw(image).text((20, 20), character, fill=255, font=font)
    ink = image.crop(image.getbbox())
    return np.asarray(ink.resize((right - left, bottom - top), Image.Resampling.BOX), np.float64)
