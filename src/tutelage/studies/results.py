"""A study's results as small tidy files, which can be kept when the run directories are gone.

evaluations.csv    a row for each run, evaluation and test level
training.csv       a row for each run and evaluation: metrics, averaged since the evaluation before
runs.csv           a row for each run: how far it came, how long it took, and the options it was started with

Writing them again replaces the rows of runs that have come further, and keeps those of runs whose directories are not
here. So a study can be run in several sittings and on several machines, with these files as its memory.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.files import csv_text, read_csv, write_atomically
from tutelage.studies.study import StudyRun
from tutelage.training.run import CONFIG, EVALUATION_COLUMNS, EVALUATIONS, PROGRESS, Row, Run
from tutelage.types import InputError

WHO = ("variant", "method", "seed")

TRAINING, RUNS = "training.csv", "runs.csv"

Table = dict[tuple[str, int], list[Row]]
"""The rows of each variant and seed."""


def collect(runs: Sequence[StudyRun], out: str | Path, allow: Sequence[str] = ()) -> list[Path]:
    """Write the three tables of all runs that have begun, and return their paths.

    Rows that are there already are kept, unless the directory of their run is here and has come as far.
    """
    out = Path(out)
    tables = {name: read_table(out / name) for name in (EVALUATIONS, TRAINING, RUNS)}
    for each in runs:
        if (each.directory / CONFIG).exists():
            found = _rows(each, allow)
            before = tables[RUNS].get(each.key)
            if before is None or int(before[0]["steps"]) <= found[RUNS][0]["steps"]:
                for name, rows in found.items():
                    tables[name][each.key] = rows
    if not tables[RUNS]:
        raise InputError("None of the study's runs has begun: run the study first.")
    order = [*dict.fromkeys([each.key for each in runs] + [*tables[RUNS]])]
    known = {EVALUATIONS: EVALUATION_COLUMNS, TRAINING: PROGRESS, RUNS: (*PROGRESS, "finished", "seconds", "devices")}
    for name, table in tables.items():
        rows = [row for key in order for row in table.get(key, ())]
        columns = [*WHO, *known[name]]
        columns += sorted({column for row in rows for column in row} - {*columns})
        write_atomically(out / name, csv_text(rows, columns))
    return [out / name for name in tables]


def read_table(path: Path) -> Table:
    """The rows of one of the three files by variant and seed; empty if there is none."""
    table: Table = {}
    for row in read_csv(path):
        try:
            table.setdefault((row["variant"], int(row["seed"])), []).append(row)
        except (KeyError, ValueError):
            raise InputError(f"{path} is no table of a study's results: give --results another directory.") from None
    return table


def finished_in(results: Path, runs: Sequence[StudyRun]) -> set[tuple[str, int]]:
    """Which of these runs have reached their end, with the same options, by the tables in `results`."""
    rows = {key: rows[-1] for key, rows in read_table(results / RUNS).items()}
    # tables without the column are older than it
    return {
        each.key
        for each in runs
        if (row := rows.get(each.key))
        and row["finished"] == "True"
        and row.get("options", "") in ("", shlex.join(each.options))
    }


def _rows(each: StudyRun, allow: Sequence[str]) -> Mapping[str, list[Row]]:
    """What the three tables say of one run."""
    run = Run.load(each.directory, allow)
    who = {"variant": each.variant, "method": each.options[0], "seed": each.seed}
    evaluations, metrics = run.evaluations(), run.metrics()
    training = _averages(metrics, sorted({row["iteration"] for row in evaluations}))
    return {
        EVALUATIONS: [who | row for row in evaluations],
        TRAINING: [who | row for row in training],
        RUNS: [who | _summary(run, metrics) | {"options": shlex.join(each.options)}],
    }


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
    saved = run.saved()
    finished = saved is not None and saved.progress.finished(run.config)
    return last | {"finished": finished, "seconds": round(seconds, 1), "devices": run.config.devices}
