"""Processes on the cores of this machine: as many runs at a time as there are cores, one core each.

Two runs on a core each do more than one run on two cores. Each run is a process of its own, so a crash, or running out
of memory, ends that run only. Its output goes to a log beside its directory.
"""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tutelage.learning.mesh import cores
from tutelage.studies.study import StudyRun
from tutelage.types import InputError


class LocalProcesses:
    """An executor that starts one process for each run."""

    def __init__(self, processes: int | None = None, cpus: int = 1) -> None:
        """At most `processes` at a time (default: as many as the cores allow), with `cpus` cores each."""
        if processes is not None and processes < 1:
            raise InputError(f"processes must be at least 1, not {processes}.")
        if cpus > cores():
            raise InputError(f"Each run is to have {cpus} cores, and there are {cores()}: ask for fewer cpus.")
        self._cpus, self._most = cpus, processes or cores() // cpus
        self._tasks: list[LocalTask] = []

    def start(self, run: StudyRun, pause_at: int | None) -> LocalTask | None:
        self._tasks = [task for task in self._tasks if task.poll() is None]
        if len(self._tasks) == self._most:
            return None
        self._tasks.append(LocalTask(run, pause_at, self._cpus))
        return self._tasks[-1]


class LocalTask:
    """A run's process."""

    def __init__(self, run: StudyRun, pause_at: int | None, cpus: int) -> None:
        self._stack = ExitStack()
        pinned = self._stack.enter_context(claimed_cores(cpus))
        with run.log.open("ab") as log:
            # a session of its own: the terminal's Ctrl-C reaches us only, and we ask each process to stop
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tutelage", *run.command(pause_at)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        with suppress(ProcessLookupError):
            pin(pinned, self._process.pid)

    def poll(self) -> int | None:
        if self._process.poll() is not None:
            self._stack.close()
        return self._process.returncode

    def stop(self) -> None:
        self._process.terminate()

    def place(self) -> str:
        return ""


@contextmanager
def claimed_cores(count: int) -> Iterator[set[int]]:
    """Cores of this machine, if possible ones that no other run is pinned to. The end of the block frees them."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    locks = Path(tempfile.gettempdir()) / f"tutelage-cores-{os.getuid()}"
    locks.mkdir(mode=0o700, exist_ok=True)
    found: list[int] = []
    with ExitStack() as stack:
        for core in allowed:
            if len(found) < count:
                lock = stack.enter_context((locks / str(core)).open("w"))
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    found.append(core)
        taken = [core for core in allowed if core not in found]
        yield {*found, *random.sample(taken, min(len(taken), count - len(found)))}


def pin(pinned: set[int], process: int = 0) -> None:
    """Let a process, or this thread and what it starts, run on these cores only; where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process, pinned)
