"""The bar that shows how far a run has come."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tqdm import tqdm


class ProgressBar:
    """Steps done of all, how fast, and how well."""

    def __init__(self, title: str, total: int, done: int, quiet: bool) -> None:
        self._quiet, self._shown = quiet, dict[str, str]()
        self._bar = tqdm(
            total=total,
            initial=done,
            unit=" steps",
            unit_scale=True,
            smoothing=0.1,
            desc=title,
            disable=True if quiet else None,
        )

    def update(self, steps: int, scalars: Mapping[str, float]) -> None:
        """So many more steps, and the metrics of the iteration they were made in."""
        kind = "replayed" if scalars["replay"] else "new"
        metrics = {"solved": f"{kind}/solved", "return": f"{kind}/return", "score": "replayed/score"}
        self._shown |= {name: f"{scalars[metric]:.2f}" for name, metric in metrics.items() if metric in scalars}
        self._bar.set_postfix(self._shown, refresh=False)
        self._bar.update(steps)

    def write(self, line: str) -> None:
        """A line above the bar."""
        if not self._quiet:
            tqdm.write(line, file=sys.stderr)

    def close(self) -> None:
        """Leave it as it is."""
        self._bar.close()
