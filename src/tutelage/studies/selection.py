"""Running a study and selecting its best variant, optionally with successive halving.

A rung pauses runs at a number of steps; nothing else about them changes. A run that continues is equal, bit for
bit, to one that was never paused, and `anneal_lr` decays its learning rate over all of `total_steps`. Decisions are
read off the disk, so a study that was stopped and continued makes the same ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tutelage.files import csv_text, write_atomically
from tutelage.studies.jobs import Executor, Job, run_jobs
from tutelage.studies.results import evaluations, reached_in
from tutelage.studies.study import RunId, Selection, StudyRun
from tutelage.training.run import Row
from tutelage.types import InputError

SELECTION = "selection.csv"


class Ranked(NamedTuple):
    """A variant's place on a rung."""

    rung: int
    steps: int | None
    """Where the rung is; None for the end of the runs."""
    place: int
    variant: str
    score: float | None
    """The mean over seeds; None if not all of them have been evaluated."""
    std: float | None
    """Between seeds."""
    seeds: int
    selected: bool


@dataclass(frozen=True)
class Plan:
    """The state of a study: its runs, and the ranking of its variants."""

    jobs: Sequence[Job]
    """All runs; those that come next are waiting."""
    ranking: Sequence[Ranked]
    """Of all rungs that are complete."""


def plan(
    runs: Sequence[StudyRun],
    selection: Selection | None = None,
    results: str | Path | None = None,
    *,
    again: bool = False,
    failed: Collection[RunId] = (),
) -> Plan:
    """Find out from the files which runs come next; without a `selection`, all do.

    The tidy tables in `results` may hold runs that were made elsewhere, and `again` also runs what was finished there.
    Runs that `failed` are not tried again, and their variants have no score.
    """
    elsewhere = reached_in(Path(results), runs) if results and not again else {}
    jobs = {run.id: Job(run) for run in runs}
    ranking: list[Ranked] = []
    alive = list(dict.fromkeys(run.variant for run in runs))
    for rung, steps in enumerate([*(selection.rungs if selection else ()), None], start=1):
        stage = [job for job in jobs.values() if job.run.variant in alive]
        for job in stage:
            _look(job, steps, elsewhere, failed)
        if selection is None or any(job.status == "waiting" for job in stage):
            break
        rows = evaluations([job.run for job in stage], Path(results) if results else None)
        ranking += _ranked(rung, steps, [job.run for job in stage], rows, selection)
        alive = [each.variant for each in ranking if each.rung == rung and each.selected]
        if not alive and any(job.status == "paused" for job in stage):
            raise InputError(f"No variant was evaluated until {steps:,} steps: evaluate more often.")
        for job in stage if steps is not None else ():
            if job.run.variant not in alive and job.status == "paused":
                job.status = "dropped"
    return Plan(list(jobs.values()), ranking)


def run_study(
    runs: Sequence[StudyRun],
    executor: Executor,
    selection: Selection | None = None,
    results: str | Path | None = None,
    *,
    again: bool = False,
    show: Callable[[Sequence[Job]], object] = lambda jobs: None,
    requests: Sequence[int] = (),
) -> Plan:
    """Run all that is not finished, rung by rung, and write the ranking of a selection to `results`.

    The arguments are those of `plan` and of `run_jobs`. After a request, unfinished runs have the status "stopped".
    """
    failed: set[RunId] = set()
    while True:
        found = plan(runs, selection, results, again=again, failed=failed)
        show(found.jobs)
        if results and found.ranking:
            write_atomically(Path(results) / SELECTION, csv_text([x._asdict() for x in found.ranking], Ranked._fields))
        if not any(job.status == "waiting" for job in found.jobs):
            return found
        run_jobs(found.jobs, executor, show=show, requests=requests)
        failed |= {job.run.id for job in found.jobs if job.status == "failed"}
        if requests or selection is None:
            return found


def _look(job: Job, steps: int | None, elsewhere: Mapping[RunId, tuple[int, bool]], failed: Collection[RunId]) -> None:
    job.look()
    progress, finished = job.run.progress()
    known, known_end = elsewhere.get(job.run.id, (0, False))
    job.pause_at, job.status = steps, "waiting"
    if finished and not job.run.anew:
        job.status = "done"
    elif known_end or (steps is not None and known >= steps > progress.steps):
        job.status = "in results"
    elif job.run.id in failed:
        job.status = "failed"
    elif steps is not None and progress.steps >= steps:
        job.status = "paused"


def _ranked(
    rung: int, steps: int | None, runs: Sequence[StudyRun], rows: Mapping[RunId, Sequence[Row]], selection: Selection
) -> list[Ranked]:
    """All variants of a rung, the best first."""
    scores: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        scores[run.variant].append(_score(run, rows.get(run.id, ()), steps, selection))
    means = {name: float(np.mean(x)) for name, x in scores.items()}  # NaN if a seed has no score
    order = sorted(means, key=lambda name: -math.inf if math.isnan(means[name]) else means[name], reverse=True)
    kept = 1 if steps is None else math.ceil(len(order) * selection.keep)
    out = []
    for place, name in enumerate(order, start=1):
        known = [score for score in scores[name] if not math.isnan(score)]
        mean = None if math.isnan(means[name]) else means[name]
        std = float(np.std(known, ddof=1)) if mean is not None and len(known) > 1 else None
        out.append(Ranked(rung, steps, place, name, mean, std, len(known), place <= kept and mean is not None))
    return out


def _score(run: StudyRun, rows: Sequence[Row], steps: int | None, selection: Selection) -> float:
    """The mean over levels and the last evaluations until a rung; NaN if there are none."""
    wanted = [row for row in rows if not selection.levels or row["level"] in selection.levels]
    wanted = [row for row in wanted if steps is None or int(row["steps"]) <= steps]
    last = sorted({int(row["iteration"]) for row in wanted})[-selection.evaluations :]
    values = [row[selection.metric] for row in wanted if int(row["iteration"]) in last]
    if any(value in (None, "") or float(value) != float(value) for value in values):
        raise InputError(f"{run.variant} has no {selection.metric} in its evaluations: choose another metric.")
    return float(np.mean([float(value) for value in values])) if values else math.nan
