"""Running many runs: start those that wait, watch those that run, and stop all of them on request.

An `Executor` runs them: in processes on the cores of this machine (`local`), or as tasks of a Ray cluster
(`ray_tasks`). A run that has begun is resumed, and a finished one is skipped, so the same command continues after a
stop.
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

Status = Literal["waiting", "begun", "running", "paused", "done", "in results", "dropped", "failed", "stopped"]
"""`begun` is what others see of a run that has steps and no end: it runs, or it was stopped."""

POLL = 0.5
"""Seconds between two polls of the runs."""

TAIL = 2**16
"""Bytes at the end of a log that are enough for its last row."""


class Task(Protocol):
    """A run that was given to an executor."""

    def poll(self) -> int | None:
        """Its exit code; None as long as it has none."""

    def stop(self) -> None:
        """Ask it to save and end."""

    def place(self) -> str | None:
        """Where it runs, or an empty string; None as long as it waits for resources."""


class Executor(Protocol):
    """Something that runs `tutelage` commands."""

    def start(self, run: StudyRun, pause_at: int | None) -> Task | None:
        """Start or resume a run, to its end or to `pause_at` steps; None if there are no resources for it now."""


@dataclass
class Job:
    """A run and its status."""

    run: StudyRun
    pause_at: int | None = None
    """After how many steps to pause it; None: never."""
    status: Status = "waiting"
    steps: int = 0
    total_steps: int | None = None
    """None as long as the run has not begun."""
    place: str = ""
    """Where it runs, or an empty string."""
    left: float | None = None
    """Seconds until it is done, at its mean speed since it was started."""
    task: Task | None = field(default=None, repr=False)
    _first: tuple[float, int] | None = field(default=None, repr=False)

    def look(self) -> None:
        """Update steps and the time left from the run's log."""
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
    """Run all waiting jobs, and set the final status of each; jobs with another status are only shown.

    `show` is called whenever something may have changed. After the first of the `requests`, which are those of
    `stop_requests`, all runs are told to save and stop.
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
            _stop(jobs)  # only after an error


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
