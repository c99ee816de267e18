"""Runs that were measured at different times, brought to common ones, so that they have a mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tutelage.analysis.statistics import Scores

Curve = tuple[np.ndarray[Any, Any], Scores]
"""Times x[N], which never fall, and values y[N]; NaN where nothing was measured."""


def align(curves: Sequence[Curve], points: int = 120) -> tuple[Scores, Scores]:
    """Common times [n] and each run's values then [R, n], over the span in which all R runs were measured.

    Runs measured at the same few times keep them. Otherwise the span is cut into n ≤ `points` cells: a run's values in
    a cell are averaged, and its value at the cell's middle is read off the line through these averages. n is 0 if the
    runs have no time in common; runs without a value at all are left out.
    """
    measured = [(x[known], y[known]) for x, y in curves if (known := np.isfinite(y)).any()]
    if not measured:
        return np.empty(0), np.empty((0, 0))
    x, _ = measured[0]
    if len(x) <= points and all(np.array_equal(x, other) for other, _ in measured) and (np.diff(x) > 0).all():
        return x.astype(np.float64), np.stack([y for _, y in measured])
    start, end = max(x[0] for x, _ in measured), min(x[-1] for x, _ in measured)
    if start > end:
        return np.empty(0), np.empty((len(measured), 0))
    cells = max(1, min(points, *(int(((x >= start) & (x <= end)).sum()) for x, _ in measured)))
    edges = np.linspace(start, end, cells + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    return middles, np.stack([np.interp(middles, *_averages(x, y, edges)) for x, y in measured])


def _averages(x: np.ndarray[Any, Any], y: Scores, edges: Scores) -> tuple[Scores, Scores]:
    """The mean time and the mean value of each cell that has any; what lies outside has a cell on either side."""
    cell = np.searchsorted(edges[1:-1], x, side="right") + 1
    cell = np.where(x < edges[0], 0, np.where(x > edges[-1], len(edges), cell))
    _, cell, count = np.unique(cell, return_inverse=True, return_counts=True)
    return np.bincount(cell, x) / count, np.bincount(cell, y) / count
