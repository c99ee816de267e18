"""The strip at the bottom of a frame: score, speed, four wheel speeds, steering and turning rate.

Gymnasium draws it on 1000×100 pixels and averages them down to 96×12. Bars are rectangles, so their share of
a pixel is a product of two overlaps. The score is looked up in a table of all scores, averaged beforehand;
its digits come from another typeface than Gymnasium's, stretched to the same boxes: at two pixels a digit
there is no more to see.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tutelage.domains.racing.averaging import area_weights
from tutelage.domains.racing.physics import Car

ROWS, COLUMNS = 12, 96
_WIDTH, _HEIGHT = 1000 / COLUMNS, 100 / ROWS  # of a pixel of ours in Gymnasium's
_BOTTOM = 800  # where Gymnasium's rows end
_COLORS = np.array(
    [(255, 255, 255), (0, 0, 255), (0, 0, 255), (51, 0, 255), (51, 0, 255), (0, 255, 0), (255, 0, 0)],
    np.float32,
)

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
_ADVANCE = {"-": 15.0}
_DIGIT_ADVANCE = 25.0


def strip(car: Car, score: jax.Array) -> jax.Array:
    """f32[12, 96, 3]: the dashboard, as mean colors before rounding."""
    speed = jnp.sqrt((car.velocity[0] ** 2).sum())
    heights = jnp.concatenate([0.02 * speed[None], 0.01 * car.roll])
    dials = jnp.stack([-10 * (car.angle[1] - car.angle[0]), -0.8 * car.spin[0]])
    shown = jnp.concatenate([speed[None], car.roll, dials]).astype(jnp.float32)

    # Gymnasium cuts coordinates to whole pixels and fills both ends; where bars touch, the next hides one.
    place = 25.0 * jnp.array([5, 7, 8, 9, 10])
    bar_end = place + jnp.array([26, 25, 25, 25, 26])
    upright = _overlap(*_filled(780 - 20 * heights, jnp.float32(780)), _BOTTOM - 100, _HEIGHT, ROWS)
    across = _overlap(place, bar_end, 0, _WIDTH, COLUMNS)
    zero = 25.0 * jnp.array([20, 30])
    level = _overlap(jnp.full(2, 720.0), jnp.full(2, 761.0), _BOTTOM - 100, _HEIGHT, ROWS)
    along = _overlap(*_filled(zero + 25 * dials, zero), 0, _WIDTH, COLUMNS)

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
    rows = area_weights(ROWS, 100)[_TEXT[0]]
    columns = area_weights(COLUMNS, 1000)[_TEXT[1], :_PAGE]
    table = [rows @ _written(f"{score:04d}", glyphs) @ columns.T for score in range(LOWEST, HIGHEST + 1)]
    return np.round(table).astype(np.uint8)


def _written(text: str, glyphs: dict[str, np.ndarray]) -> np.ndarray:
    """f64[100, 130]: a text, centerd as Gymnasium does, in its picture's pixels."""
    offsets = [0.0]
    for before, after in pairwise(text):
        ones = (before, after).count("1")
        kern = -6.0 if ones == 2 else -2.0 if before == "-" else -2.5 * ones
        offsets.append(offsets[-1] + _ADVANCE.get(before, _DIGIT_ADVANCE) + kern)
    width = offsets[-1] + _DIGIT_ADVANCE - 1
    left, top = _CENTER[0] - width / 2, _CENTER[1] - _LINE // 2 - (_BOTTOM - 100)
    page = np.zeros((100, _PAGE))
    for character, offset in zip(text, offsets, strict=True):
        x, y, right, bottom = _INK[character]
        column = max(round(left + offset) + x, 0)
        page[top + y : top + bottom, column : column + right - x] = glyphs[character]
    return page


def _glyph(character: str) -> np.ndarray:
    """f64[h, w]: a character in white, stretched to its box of ink."""
    left, top, right, bottom = _INK[character]
    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans-Bold.ttf", 160)
    image = Image.new("L", (200, 240))
    ImageDraw.Draw(image).text((20, 20), character, fill=255, font=font)
    ink = image.crop(image.getbbox())
    return np.asarray(ink.resize((right - left, bottom - top), Image.Resampling.BOX), np.float64)
