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

from tutelage.domains.racing import spline

TOLERANCE = 2.5  # meters of the real circuit: about one in the game


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
        for n in range(32, 2 * len(points), 4):
            control, error = spline.fit(points, n)
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
