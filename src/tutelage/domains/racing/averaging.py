"""How Gymnasium makes 96 pixels out of its many: each is the mean of an equal stretch of them."""

from __future__ import annotations

import numpy as np


def area_weights(ours: int, theirs: int) -> np.ndarray:
    """f64[ours, theirs]: the weight of each of their pixels in each of ours, along one axis."""
    pitch = theirs / ours
    low = pitch * np.arange(ours)[:, None]
    pixel = np.arange(theirs)
    shared = np.minimum(low + pitch, pixel + 1) - np.maximum(low, pixel)
    return np.clip(shared, 0, None) / pitch
