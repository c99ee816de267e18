"""The section that comes first: which runs these are, and how far they have come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tutelage.analysis import style
from tutelage.analysis.report.blocks import Section, Table, number
from tutelage.training.run import Run


def overview(groups: Mapping[str, Sequence[Run]]) -> Section:
    """A line for each run."""
    metric = _metric([run for group in groups.values() for run in group])
    head = ["run", "iterations", "steps", "of planned", "updates", "hours", "steps/s"]
    rows = [
        [f"{style.display(label)}, seed {run.config.seed}", *_progress(run), *([_last(run, metric)] if metric else [])]
        for label, group in groups.items()
        for run in group
    ]
    return Section("overview", "At a glance", "", [Table([*head, f"test {metric}"] if metric else head, rows)])


def _progress(run: Run) -> list[str]:
    metrics = run.metrics()
    if not metrics:
        return ["0", "0", "0%", "0", "–", "–"]
    iterations, steps, updates = (int(metrics[name][-1]) for name in ("iteration", "steps", "updates"))
    seconds = sum(row["seconds"] for row in run.timing())
    done = max(steps / run.config.total_steps, updates / run.config.total_updates if run.config.total_updates else 0)
    return [
        f"{iterations:,}",
        f"{steps:,}",
        f"{min(1, done):.0%}",
        f"{updates:,}",
        number(seconds / 3600),
        number(steps / seconds if seconds else None),
    ]


def _metric(runs: Sequence[Run]) -> str | None:
    """What the last column says: what was solved, if anything can be."""
    rows = [row for run in runs for row in run.evaluations()]
    return None if not rows else "return" if any(row["solved"] is None for row in rows) else "solved"


def _last(run: Run, metric: str) -> str:
    """The mean over the test levels of the last evaluation."""
    rows = run.evaluations()
    last = [row[metric] for row in rows if row["iteration"] == rows[-1]["iteration"]]
    return number(float(np.mean(last))) if last else "–"
