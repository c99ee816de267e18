"""Zero-shot suites: 20 F1 circuits, ten held-out Bézier tracks, and the original CarRacing.

Circuits are closed splines fitted by `tools/fit_circuits.py` to the surveyed center lines of the f1-circuits
collection (T. Bacinger, MIT license), scaled to the lengths and run with the frame limits of the paper's
benchmark. All are played by Gymnasium's rules: no early end, and a penalty for leaving the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from math import ceil
from typing import NamedTuple

import jax
import numpy as np

from tutelage.domains.racing import gymnasium_tracks, track
from tutelage.domains.racing.design import RacingDesign
from tutelage.domains.racing.env import RacingEnv, View, gymnasium_rules
from tutelage.domains.racing.texture import Canvas
from tutelage.types import InputError, Key, TestLevel

F1_TILES = 5000
F1_FIELD = 500.0  # meters: the circuits do not fit on Gymnasium's
F1_CANDIDATES = 512  # tiles are so short that a fast car meets hundreds in an action
RELEASED_FRAMES = {"Mexico": 3000, "Russia": 2000}
"""Where the released code's limits are not the paper's."""
HELD_OUT = 10  # Bézier tracks for testing
HELD_OUT_SEED = 20_210_606


class Circuit(NamedTuple):
    """One entry of `circuits.json`."""

    name: str
    circuit: str
    length: int  # world units, the meters of the game
    frames: int
    points: np.ndarray  # f64[n, 2] control points of a closed spline, meters of the real circuit


@cache
def circuits() -> tuple[Circuit, ...]:
    """All circuits, in alphabetical order."""
    text = files("tutelage.domains.racing").joinpath("circuits.json").read_text(encoding="utf-8")
    return tuple(
        Circuit(name, entry["circuit"], entry["length"], entry["frames"], np.array(entry["points"]))
        for name, entry in json.loads(text).items()
    )


def basis(u: np.ndarray, n: int) -> np.ndarray:
    """f64[U, n]: the weight of each of n ≥ 4 control points of a closed uniform cubic B-spline at parameters u [U].

    The curve goes once around its control points as u goes from 0 to n.
    """
    whole = np.floor(u).astype(int)
    t = u - whole
    weights = ((1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3)
    matrix = np.zeros((len(u), n))
    for k, weight in enumerate(weights):
        matrix[np.arange(len(u)), (whole + k - 1) % n] = weight / 6
    return matrix


def curve(points: np.ndarray, samples: int) -> np.ndarray:
    """f64[samples, 2]: the closed spline of control points [n, 2], evenly spaced along its length."""
    n = len(points)
    fine = basis(np.linspace(0, n, 40 * n + 1), n) @ points
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(fine, axis=0), axis=1))])
    at = np.interp(np.linspace(0, along[-1], samples, endpoint=False), along, np.linspace(0, n, 40 * n + 1))
    return basis(at, n) @ points


def center_line(circuit: Circuit, size: int = F1_TILES) -> track.CenterLine:
    """The road of a circuit in world units: `size` points, its bounding box centered on the origin."""
    points = curve(circuit.points, size)
    points -= (points.min(0) + points.max(0)) / 2
    points *= circuit.length / np.linalg.norm(np.roll(points, -1, 0) - points, axis=1).sum()
    return track.from_closed_line(points, size)


@cache
def _lines() -> tuple[track.CenterLine, ...]:
    return tuple(map(center_line, circuits()))


def f1(view: View, frames: Mapping[str, int] | None = None) -> tuple[TestLevel, ...]:
    """The 20 circuits, some with other limits than the paper's if they are named in `frames`.

    Their arrays have one shape, so that circuits with the same limit share a program.
    """
    canvas, limits = _canvas(_lines()), {each.name: each.frames for each in circuits()} | dict(frames or {})
    roads = zip(limits.items(), _lines(), strict=True)
    return tuple(on_line(name, line, limit, view, canvas=canvas) for (name, limit), line in roads)


def bezier(view: View) -> tuple[TestLevel, ...]:
    """Ten fixed Bézier tracks, with control points from the whole square."""
    env = gymnasium_rules(RacingEnv(view=view))
    return tuple(TestLevel(f"Bezier{i + 1}", env, partial(_held_out, i)) for i in range(HELD_OUT))


def _held_out(number: int, key: Key) -> track.Level:
    return RacingDesign(disc=False).sample(jax.random.fold_in(jax.random.key(HELD_OUT_SEED), number))


def original_car_racing(view: View) -> tuple[TestLevel, ...]:
    """Gymnasium's own random tracks, a new one for each episode."""
    env = gymnasium_rules(RacingEnv(view=view, canvas=Canvas(extent=256.0)))
    return (TestLevel("CarRacing", env, gymnasium_tracks.draw),)


def on_line(
    name: str, line: track.CenterLine, frames: int, view: View, field: float = F1_FIELD, canvas: Canvas | None = None
) -> TestLevel:
    """Any closed road as a test level, on a canvas of its own size; `field` is half the side of its field, meters."""
    if (reach := _reach(line)) > field:
        raise InputError(f"{name} reaches {reach:.0f} m, beyond its field of {field:.0f} m. Scale it down.")
    track.check_size(line.points.shape[0])
    env = replace(
        gymnasium_rules(RacingEnv(view=view)),
        frames=frames,
        field=field,
        canvas=canvas or _canvas([line]),
        candidates=min(F1_CANDIDATES, line.points.shape[0]),
    )
    return TestLevel(name, env, lambda _: line)


def _canvas(lines: Sequence[track.CenterLine]) -> Canvas:
    """A canvas on which any of these roads fits, with the widest of their tiles."""
    longest = max(float(track.steps(line).max()) for line in lines)
    extent = 16.0 * ceil(max(map(_reach, lines)) / 16)
    return Canvas(extent, window=longest + 2 * (track.HALF_WIDTH + track.BORDER))


def _reach(line: track.CenterLine) -> float:
    """Meters from the origin, along either axis, to the outer side of the farthest curb."""
    return float(np.abs(line.points).max()) + track.HALF_WIDTH + track.BORDER
