"""Running many runs: start those that wait, watch those that run, and stop all of them on request.

An `Executor` runs them: in processes on the cores of this machine (`local`), or as tasks of a Ray cluster
(`ray_tasks`). A run that has begun is resumed, and a finished one is skipped, so the same command continues after a
stop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tutelage.studies.study import StudyRun
from tutelage.training.config import Config
from tutelage.training.run import METRICS, PROGRESS, Progress

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
    share: float = 0.0
    """How much of the run is done; 0 as long as it has not begun."""
    place: str = ""
    """Where it runs, or an empty string."""
    left: float | None = None
    """Seconds until it pauses or is done, at its mean speed since it was started."""
    task: Task | None = field(default=None, repr=False)
    _config: Config[Any] | None = field(default=None, repr=False)
    _first: tuple[float, float] | None = field(default=None, repr=False)

    def look(self) -> None:
        """Update the share that is done and the time left from the run's log."""
        self._config = self._config or self.run.config()
        progress, now = last_progress(self.run.directory / METRICS), time.monotonic()
        if self._config is None or not progress.steps:
            return
        self.share = progress.share(self._config)
        if self.task and self._first is None:
            self._first = now, self.share
        if self._first and self.share > self._first[1]:
            target = min(1.0, self.share * self.pause_at / progress.steps) if self.pause_at else 1.0
            pace = (now - self._first[0]) / (self.share - self._first[1])
            self.left = max(0.0, pace * (target - self.share))


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


def last_progress(metrics: Path) -> Progress:
    """The progress in the last whole row of a log; none if there is no row. Reads the end of the file only."""
    try:
        with metrics.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(-min(file.tell(), TAIL), os.SEEK_CUR)
            *rows, _ = file.read().split(b"\n")
        return Progress(*map(int, rows[-1].split(b",")[: len(PROGRESS)]))
    except (FileNotFoundError, IndexError, ValueError):
        return Progress()
