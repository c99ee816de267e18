"""Fit the F1 circuits: surveyed center lines (CSV) → a few control points each, kept in the package.

    python tools/fit_circuits.py <directory of CSV files> src/tutelage/domains/racing/circuits.json

Each file begins with two comment lines, "# Name: circuit; …" and "# benchmark length … world units, limit …
frames; source: …", followed by x, y in meters. The survey is the f1-circuits collection by T. Bacinger (MIT
license); lengths and limits are those of the paper's benchmark. Only `numpy` and this package are needed.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np

from tutelage.domains.racing.suite import basis

TOLERANCE = 2.5  # meters of the real circuit: about one in the game
REVERSED = ("France", "Singapore")  # surveyed against the direction of racing


def main(directory: Path, target: Path) -> None:
    """Write all circuits, one on a line."""
    lines = []
    for path in sorted(directory.glob("*.csv")):
        text = path.read_text()
        circuit = re.search(r"# [^:]*: ([^;]*);", text)
        limits = re.search(r"benchmark length (\d+) world units, limit (\d+) frames", text)
        if circuit is None or limits is None:
            sys.exit(f"{path}: the two comment lines with the circuit's name and its limits are missing.")
        rows = [line.split(",") for line in text.splitlines() if not line.startswith("#")][1:]
        points = np.array(rows, float)
        if path.stem in REVERSED:
            points = np.roll(points[::-1], 1, 0)
        for n in range(32, 2 * len(points), 4):
            control, error = fit(points, n)
            if error <= TOLERANCE:
                break
        entry = {
            "circuit": circuit[1],
            "length": int(limits[1]),
            "frames": int(limits[2]),
            "points": np.round(control, 1).tolist(),
        }
        lines.append(f"{json.dumps(path.stem)}: {json.dumps(entry, ensure_ascii=False, separators=(',', ':'))}")
        print(f"{path.stem}: {len(points)} points → {n}, at most {error:.2f} m off")
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")


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


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
