"""A study's results as small tidy files, which can be kept when the run directories are gone.

evaluations.csv    a row for each run, evaluation and test level
training.csv       a row for each run and evaluation: metrics, averaged since the evaluation before
runs.csv           a row for each run: how far it came, and how long it took
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.files import csv_text, write_atomically
from tutelage.studies.study import StudyRun
from tutelage.training.run import CONFIG, EVALUATION_COLUMNS, PROGRESS, Run
from tutelage.types import InputError

WHO = ("variant", "method", "seed")


def collect(runs: Sequence[StudyRun], out: str | Path, allow: Sequence[str] = ()) -> list[Path]:
    """Write the three tables of all runs that have begun, and return their paths."""
    begun = [each for each in runs if (each.directory / CONFIG).exists()]
    if not begun:
        raise InputError("None of the study's runs has begun: run the study first.")
    evaluations: list[dict[str, Any]] = []
    training: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    for each in begun:
        run = Run.load(each.directory, allow)
        who = {"variant": each.variant, "method": each.options[0], "seed": each.seed}
        rows = run.evaluations()
        metrics = run.metrics()
        evaluations += [who | row for row in rows]
        training += [who | row for row in _averages(metrics, sorted({row["iteration"] for row in rows}))]
        summary.append(who | _summary(run, metrics))
    out = Path(out)
    names = dict.fromkeys(name for row in training for name in row if name not in (*WHO, *PROGRESS))
    tables = {
        "evaluations.csv": (evaluations, [*WHO, *EVALUATION_COLUMNS]),
        "training.csv": (training, [*WHO, *PROGRESS, *sorted(names)]),
        "runs.csv": (summary, [*WHO, *PROGRESS, "finished", "seconds", "devices"]),
    }
    for name, (rows, columns) in tables.items():
        write_atomically(out / name, csv_text(rows, columns))
    return [out / name for name in tables]


def _averages(metrics: dict[str, np.ndarray], iterations: Sequence[int]) -> list[dict[str, Any]]:
    """Each metric's mean over the iterations since the evaluation before, and the progress at the evaluation."""
    if not metrics:
        return []
    rows, before = [], 0
    for iteration in iterations:
        since = (metrics["iteration"] > before) & (metrics["iteration"] <= iteration)
        at = np.flatnonzero(metrics["iteration"] == iteration)
        if at.size:
            row: dict[str, Any] = {name: int(metrics[name][at[0]]) for name in PROGRESS}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a metric may be unknown in all of these iterations
                row |= {
                    name: f"{float(np.nanmean(x[since])):.6g}" if np.isfinite(x[since]).any() else None
                    for name, x in metrics.items()
                    if name not in PROGRESS
                }
            rows.append(row)
        before = iteration
    return rows


def _summary(run: Run, metrics: dict[str, np.ndarray]) -> dict[str, Any]:
    last = {name: int(metrics[name][-1]) if metrics else 0 for name in PROGRESS}
    seconds = sum(row["seconds"] for row in run.timing())
    limit = run.config.total_updates
    finished = last["steps"] >= run.config.total_steps or (limit is not None and last["updates"] >= limit)
    return last | {"finished": finished, "seconds": round(seconds, 1), "devices": run.config.devices}
