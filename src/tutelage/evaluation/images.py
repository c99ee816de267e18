"""Pictures as files: contact sheets, PNG and GIF, written atomically."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from tutelage.files import write_atomically

PAPER, INK = (255, 255, 255), (40, 40, 40)

GAP = 16
"""Pixels between the pictures of a sheet, enough for a line of text."""


def sheet(pictures: Sequence[Any], titles: Sequence[str] = (), columns: int | None = None) -> np.ndarray[Any, Any]:
    """u8[H, W, 3]: pictures u8[h, w, 3] of any sizes side by side, in a grid as square as it can be by default.

    For one video of several episodes, make a sheet of the frames at each time.
    """
    columns = columns or math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    height, width = (GAP + max(picture.shape[axis] for picture in pictures) for axis in (0, 1))
    canvas = Image.new("RGB", (columns * width + GAP, rows * height + GAP), PAPER)
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        canvas.paste(Image.fromarray(np.asarray(picture)), (GAP + column * width, GAP + row * height))
    pen = ImageDraw.Draw(canvas)
    for index, title in enumerate(titles):
        row, column = divmod(index, columns)
        pen.text((GAP + column * width, row * height + 2), title, INK)
    return np.asarray(canvas)


def png(path: str | Path, frame: Any) -> None:
    """Write one picture u8[H, W, 3]."""
    _write(path, Image.fromarray(np.asarray(frame)), "PNG")


def gif(path: str | Path, frames: Iterable[Any], milliseconds: int = 80, scale: int = 1) -> None:
    """Write a video of pictures u8[H, W, 3], each enlarged `scale` times, which loops."""
    first, *rest = (Image.fromarray(np.asarray(frame).repeat(scale, 0).repeat(scale, 1)) for frame in frames)
    _write(path, first, "GIF", save_all=True, append_images=rest, duration=milliseconds, loop=0)


def _write(path: str | Path, picture: Image.Image, kind: str, **options: Any) -> None:
    content = io.BytesIO()
    picture.save(content, kind, **options)
    write_atomically(path, content.getvalue())
