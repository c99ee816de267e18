"""Running many runs: what waits is started, what runs is watched, and a stop reaches everybody.

Where runs are executed is an `Executor`'s business: processes on the cores of this machine (`local`), or tasks of a Ray
cluster (`cluster`). A run that has begun is resumed, and one that is done is left alone, so the same command goes on
with what was stopped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from tutelage.studies.study import StudyRun
from tutelage.training.run import METRICS
from tutelage.types import InputError

Status = Literal["waiting", "running", "paused", "done", "in results", "dropped", "failed", "stopped"]

POLL = 0.5
"""Seconds between two looks at the runs."""

TAIL = 2**16
"""Bytes at the end of a log that surely hold its last row."""


class Task(Protocol):
    """A run that was given to an executor."""

    def poll(self) -> int | None:
        """Its exit code; None as long as it has none."""
        ...

    def stop(self) -> None:
        """Ask it to save and end."""
        ...

    def place(self) -> str | None:
        """Where it runs, if there is something to say; None as long as it waits for a place."""
        ...


class Executor(Protocol):
    """Something that runs `tutelage` commands."""

    def start(self, run: StudyRun, pause_at: int | None) -> Task | None:
        """Start a run, or go on with it, until its end or so many steps; None if there is no place for it now."""
        ...


@dataclass
class Job:
    """A run and how it is going."""

    run: StudyRun
    pause_at: int | None = None
    """Where to pause it; None: go on to its end."""
    status: Status = "waiting"
    steps: int = 0
    total_steps: int | None = None
    """None as long as the run has not begun."""
    place: str = ""
    """Where it runs, if there is something to say."""
    left: float | None = None
    """Seconds until it is done, at the speed that it had since it was started."""
    task: Task | None = field(default=None, repr=False)
    _first: tuple[float, int] | None = field(default=None, repr=False)

    def look(self) -> None:
        """Read how far the run has come."""
        if self.total_steps is None and self.run.begun:
            with suppress(InputError):
                self.total_steps = self.run.load().config.total_steps
        self.steps, now = last_steps(self.run.directory / METRICS), time.monotonic()
        if self.task and self.steps and self._first is None:
            self._first = now, self.steps
        if self._first and self.total_steps and self.steps > self._first[1]:
            target = min(self.total_steps, self.pause_at or self.total_steps)
            pace = (now - self._first[0]) / (self.steps - self._first[1])
            self.left = max(0.0, pace * (target - self.steps))


def run_jobs(
    jobs: Sequence[Job],
    executor: Executor,
    *,
    show: Callable[[Sequence[Job]], object] = lambda jobs: None,
    requests: Sequence[int] = (),
) -> None:
    """Run all that waits, and write into each job how it ended.

    Args:
        jobs: what there is; those with another status than "waiting" are only shown.
        executor: where to run them.
        show: called whenever something may have changed.
        requests: those of `stop_requests`. As soon as there is one, all runs are asked to save and stop.
    """
    asked = False
    try:
        while any(job.status == "waiting" or job.task for job in jobs):
            for job in jobs:
                if job.status == "waiting" and not job.task and not requests:
                    job.run.log.parent.mkdir(parents=True, exist_ok=True)
                    job.task = executor.start(job.run, job.pause_at)
                    if job.task is None:
                        break
            time.sleep(POLL)
            if requests and not asked:
                asked = True
                _stop(jobs)
            for job in jobs:
                if job.task:
                    _watch(job, job.task, stopping=asked)
            show(jobs)
    finally:
        if not asked:
            _stop(jobs)  # an error is on its way


def _watch(job: Job, task: Task, *, stopping: bool) -> None:
    code, place = task.poll(), task.place()
    job.look()
    if place is not None:
        job.status, job.place = "running", place
    if code is not None:
        job.task = None
        job.status = "stopped" if stopping and code else "failed" if code else "done"
        if job.status == "done" and job.pause_at is not None and not job.run.progress()[1]:
            job.status = "paused"


def _stop(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.task:
            job.task.stop()
        elif job.status == "waiting":
            job.status = "stopped"


def last_steps(metrics: Path) -> int:
    """The environment steps in the last whole row of a log; 0 if there is none. Reads the end of the file only."""
    try:
        with metrics.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(-min(file.tell(), TAIL), os.SEEK_CUR)
            *rows, _ = file.read().split(b"\n")
        return int(rows[-1].split(b",")[1]) if rows else 0
    except (FileNotFoundError, IndexError, ValueError):
        return 0
