"""Running a study on the cores of this machine: as many runs at a time as there are cores, one core each.

Two runs on a core each do more than one run on two cores. Each run is a process of its own, so a crash, or running out
of memory, ends that run only. Its output goes to a log beside its directory. A run that has begun is resumed, and one
that is done is left alone, so the same command goes on with a study that was stopped.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tutelage.studies.study import StudyRun
from tutelage.training.run import CONFIG, METRICS, Run
from tutelage.training.train import stop_requests
from tutelage.types import InputError

Status = Literal["waiting", "running", "done", "failed", "stopped", "in results"]

POLL = 0.5
"""Seconds between two looks at the processes."""

TAIL = 2**16
"""Bytes at the end of a log that surely hold its last row."""


@dataclass
class Job:
    """A run of a study and how it is going."""

    run: StudyRun
    total_steps: int
    status: Status = "waiting"
    steps: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    core: int | None = None
    asked_to_stop: bool = False

    @property
    def log(self) -> Path:
        """Where the process writes what it says."""
        return self.run.directory.with_suffix(".log")

    def look(self) -> None:
        """Read how far the run has come."""
        self.steps = last_steps(self.run.directory / METRICS)


def run_study(
    runs: Sequence[StudyRun],
    total_steps: Sequence[int],
    *,
    processes: int | None = None,
    allow: Sequence[str] = (),
    elsewhere: Collection[tuple[str, int]] = (),
    show: Callable[[Sequence[Job]], object] = lambda jobs: None,
    requests: list[int] | None = None,
) -> list[Job]:
    """Run all that is not done yet.

    Args:
        runs: the study's.
        total_steps: how long each of them is.
        processes: how many at a time (default: one for each core).
        allow: modules of the user's own that runs may import.
        elsewhere: the variants and seeds of runs that were finished elsewhere, and are left alone.
        show: called whenever something may have changed.
        requests: those of `stop_requests`, if the caller wants to know them.

    Returns:
        The runs with their final status. After SIGINT or SIGTERM all processes are asked to save and stop, and what is
        not done has the status "stopped".

    Raises:
        InputError: if `processes` is less than 1.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    processes = len(cores) if processes is None else processes
    if processes < 1:
        raise InputError(f"processes must be at least 1, not {processes}.")
    jobs = [Job(run, steps) for run, steps in zip(runs, total_steps, strict=True)]
    for job in jobs:
        job.look()
        if finished(job.run.directory, allow):
            job.status = "done"
        elif job.run.key in elsewhere:
            job.status = "in results"
    free = [cores[i % len(cores)] for i in range(processes)]
    with stop_requests() if requests is None else contextlib.nullcontext(requests) as requests:
        while any(job.status in ("waiting", "running") for job in jobs):
            for job in jobs:
                if job.status == "waiting" and free and not requests:
                    _start(job, free.pop(0), allow)
            time.sleep(POLL)
            if requests:
                _stop(jobs)
            for job in jobs:
                if job.process is not None and job.status == "running":
                    job.look()
                    if (code := job.process.poll()) is not None:
                        job.status = "done" if code == 0 else "stopped" if requests else "failed"
                        assert job.core is not None
                        free.append(job.core)
            show(jobs)
    return jobs


def finished(directory: Path, allow: Sequence[str] = ()) -> bool:
    """Whether a run directory holds a run that has reached its end, and has saved it."""
    if not (directory / CONFIG).exists():
        return False
    try:
        run = Run.load(directory, allow)
        saved = run.saved()
    except InputError:  # what is wrong with it, its own process will say
        return False
    return saved is not None and saved.progress.finished(run.config)


def _start(job: Job, core: int, allow: Sequence[str]) -> None:
    resumes = (job.run.directory / CONFIG).exists()
    words = ["resume", str(job.run.directory)] if resumes else job.run.command
    command = [sys.executable, "-m", "tutelage", *words, *(["--allow", *allow] if allow and resumes else [])]
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as log:
        # a session of its own: the terminal's Ctrl-C reaches us only, and we ask each process to stop
        job.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    if hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(job.process.pid, {core})
    job.status, job.core = "running", core


def _stop(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.status == "waiting":
            job.status = "stopped"
        elif job.status == "running" and job.process is not None and not job.asked_to_stop:
            job.process.terminate()
            job.asked_to_stop = True


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
