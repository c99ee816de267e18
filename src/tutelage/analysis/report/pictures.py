"""Pictures as data URIs, so that a page needs no other file."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from PIL import Image

from tutelage.types import Design, Json

SIDE = 240
"""Pixels of a picture's height: it is shown half as large, which suits screens of double density."""

FILM_SIDE = 300
"""Videos are shown larger."""

PLAIN = Image.Dither.NONE
"""Drawings have few colours: they need no dithering, and with a palette they are a third the size."""


class Levels:
    """Draws the levels of a design, each but once."""

    def __init__(self, design: Design) -> None:
        self._design = design
        self._image = jax.jit(design.image)
        self._drawn: dict[str, str] = {}

    def __call__(self, level: Json) -> str:
        """The picture of a level that is given as plain data."""
        name = repr(level)
        if name not in self._drawn:
            self._drawn[name] = png(self._image(self._design.from_json(level)))
        return self._drawn[name]


def png(picture: Any) -> str:
    """A picture u8[H, W, 3]."""
    return _uri(_small(picture, SIDE).quantize(64, dither=PLAIN), "PNG", optimize=True)


def gif(frames: Sequence[Any], milliseconds: int, size: int) -> str:
    """A video of pictures u8[H, W, 3], which loops. The last frame stays for a second.

    A video longer than `size` letters loses every second frame until it is not, or has but a few left.
    """
    pictures = [_small(frame, FILM_SIDE) for frame in frames]
    palette = _side_by_side(pictures[:: 1 + len(pictures) // 8]).quantize(255, dither=PLAIN)
    pictures = [picture.quantize(palette=palette, dither=PLAIN) for picture in pictures]
    while True:
        first, *rest = pictures
        durations = [milliseconds] * len(rest) + [1000]
        uri = _uri(first, "GIF", save_all=True, append_images=rest, duration=durations, loop=0)
        if len(uri) <= size or len(pictures) < 8:
            return uri
        pictures = [*pictures[:-1:2], pictures[-1]]
        milliseconds *= 2


def _small(picture: Any, side: int) -> Image.Image:
    image = Image.fromarray(np.asarray(picture))
    image.thumbnail((2 * side, side), Image.Resampling.LANCZOS)
    return image


def _side_by_side(images: Sequence[Image.Image]) -> Image.Image:
    """One picture with the colours of all."""
    width, height = images[0].size
    sheet = Image.new("RGB", (width * len(images), height))
    for place, image in enumerate(images):
        sheet.paste(image, (place * width, 0))
    return sheet


def _uri(image: Image.Image, form: str, **options: Any) -> str:
    content = io.BytesIO()
    image.save(content, form, **options)
    return f"data:image/{form.lower()};base64,{b64encode(content.getvalue()).decode()}"
