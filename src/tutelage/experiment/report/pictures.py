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
"""Pixels: enough for a picture shown half as wide, on a screen of double density."""

FILM_BYTES = 400_000
"""A film that is larger loses every second frame until it is not."""


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


def png(picture: Any, side: int = SIDE) -> str:
    """A picture u8[H, W, 3], made smaller if it is larger than `side`."""
    return _uri(_small(picture, side), "PNG", optimize=True)


def gif(frames: Sequence[Any], milliseconds: int, side: int = 2 * SIDE) -> str:
    """A film of pictures u8[H, W, 3], which loops. The last frame stays for a second."""
    pictures = [_small(frame, side) for frame in frames]
    while True:
        first, *rest = pictures
        durations = [milliseconds] * len(rest) + [1000]
        uri = _uri(first, "GIF", save_all=True, append_images=rest, duration=durations, loop=0)
        if len(uri) <= FILM_BYTES or len(pictures) < 8:
            return uri
        pictures = [*pictures[:-1:2], pictures[-1]]
        milliseconds *= 2


def _small(picture: Any, side: int) -> Image.Image:
    image = Image.fromarray(np.asarray(picture))
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    return image.quantize(128, dither=Image.Dither.NONE)  # drawings have few colours, and a palette is a third the size


def _uri(image: Image.Image, form: str, **options: Any) -> str:
    content = io.BytesIO()
    image.save(content, form, **options)
    return f"data:image/{form.lower()};base64,{b64encode(content.getvalue()).decode()}"
