"""Closed curves as uniform cubic B-splines: a few control points stand for a whole circuit.

The curve runs through the parameter 0 ≤ u < n once around its n control points, and is the same from either
side.
"""

from __future__ import annotations

import numpy as np


def basis(u: np.ndarray, n: int) -> np.ndarray:
    """f64[U, n]: the weight of each of n ≥ 4 control points at parameters u [U], which wrap around."""
    whole = np.floor(u).astype(int)
    t = u - whole
    weights = ((1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3)
    matrix = np.zeros((len(u), n))
    for k, weight in enumerate(weights):
        matrix[np.arange(len(u)), (whole + k - 1) % n] = weight / 6
    return matrix


def curve(points: np.ndarray, samples: int) -> np.ndarray:
    """f64[samples, 2]: the closed curve of control points [n, 2], evenly spaced along its length."""
    n = len(points)
    fine = basis(np.linspace(0, n, 40 * n + 1), n) @ points
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(fine, axis=0), axis=1))])
    at = np.interp(np.linspace(0, along[-1], samples, endpoint=False), along, np.linspace(0, n, 40 * n + 1))
    return basis(at, n) @ points


def fit(points: np.ndarray, n: int, smoothing: float = 1e-3) -> tuple[np.ndarray, float]:
    """The n control points whose curve passes nearest to `points` [m, 2], and its largest distance from them.

    Points are met at parameters in proportion to the square roots of their gaps, which gives bends, where
    surveys are dense, more control points than straights. `smoothing` weighs second differences, and decides
    where the points leave the fit open.
    """
    gap = np.sqrt(np.linalg.norm(np.roll(points, -1, 0) - points, axis=1))
    u = np.concatenate([[0.0], np.cumsum(gap)[:-1]]) * n / gap.sum()
    eye = np.eye(n)
    bend = np.roll(eye, 1, 1) - 2 * eye + np.roll(eye, -1, 1)
    matrix = np.concatenate([basis(u, n), np.sqrt(smoothing) * bend])
    control = np.linalg.lstsq(matrix, np.concatenate([points, np.zeros((n, 2))]), rcond=None)[0]
    return control, float(np.linalg.norm(basis(u, n) @ control - points, axis=1).max())
