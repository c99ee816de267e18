"""Tasks of a Ray cluster: one task for each run, on as many nodes as there are.

All nodes see the run directories at the same path, and have the package installed. A task trains in the process of its
Ray worker, so that a run never outlives it. When a node is lost, Ray starts the task elsewhere, and the run
continues from its newest checkpoint. Each start writes a line with its node to the run's log, which the table reads.
"""

from __future__ import annotations

import os
import re
import runpy
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from tutelage.files import sole_writer
from tutelage.studies.local import claimed_cores, pin
from tutelage.studies.study import Resources, StudyRun
from tutelage.training.run_writer import say
from tutelage.types import InputError

PATIENCE = 120.0
"""Seconds to wait for a process on a lost node to release a run."""


class RayTasks:
    """An executor that gives all runs to a Ray cluster, which starts them as soon as their resources are free."""

    def __init__(self, address: str = "auto", resources: Resources | None = None) -> None:
        """Connect to the cluster at `address`, or to the one of this machine."""
        try:
            import ray
        except ImportError:
            raise InputError("Ray is not installed: pip install 'tutelage[ray]'.") from None
        self._ray, self._resources = ray, resources or Resources()
        try:
            if ":" in address:  # Ray itself tries for many minutes
                host, _, port = address.rpartition("/")[2].rpartition(":")
                socket.create_connection((host, int(port)), timeout=10).close()
            ray.init(address=address, log_to_driver=False, logging_level="error", ignore_reinit_error=True)
        except (RuntimeError, ValueError, OverflowError, OSError, ray.exceptions.RayError) as error:
            raise InputError(
                f"No Ray cluster answers at {address!r} ({str(error).strip():.200}). Start one with: ray start --head"
            ) from None
        wanted = {"CPU": self._resources.cpus, "GPU": self._resources.gpus}
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= x for name, x in wanted.items()) for node in nodes):
            say(f"No node of the cluster has what a run needs ({wanted}). Runs wait until there is one.")
        # max_calls: JAX keeps its devices for the life of a process, so every run gets a process of its own
        self._function = ray.remote(
            num_cpus=self._resources.cpus,
            num_gpus=self._resources.gpus,
            max_retries=self._resources.max_retries,
            max_calls=1,
        )(run_here)

    def start(self, run: StudyRun, pause_at: int | None) -> RayTask:
        size = run.log.stat().st_size if run.log.exists() else 0
        function = self._function.options(name=f"{run.variant}, seed {run.seed}")
        return RayTask(self._ray, function.remote(run, pause_at, self._resources, os.getcwd()), run, size)


class RayTask:
    """A run's task."""

    def __init__(self, ray: Any, reference: Any, run: StudyRun, offset: int) -> None:
        self._ray, self._reference, self._run, self._offset = ray, reference, run, offset
        self._starts: list[bytes] = []

    def poll(self) -> int | None:
        """The exit code. Ray's message about a task that could not be run goes to the run's log."""
        if not self._ray.wait([self._reference], timeout=0)[0]:
            return None
        try:
            return int(self._ray.get(self._reference))
        except self._ray.exceptions.TaskCancelledError:
            return 130
        except self._ray.exceptions.RayError as error:
            with self._run.log.open("a") as log:
                log.write(f"{error}\n")
            return 1

    def stop(self) -> None:
        """Interrupt it, as Ctrl-C would, so that it saves and ends."""
        self._ray.cancel(self._reference, force=False)

    def place(self) -> str | None:
        """The node, and how often the run was lost, from the run's log since the task was submitted."""
        try:
            with self._run.log.open("rb") as file:
                file.seek(self._offset)  # where the last call ended
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return None
        self._offset += len(whole + newline)
        self._starts += re.findall(rb"^\[(\S+)\] tutelage ", whole, re.MULTILINE)
        if not self._starts:
            return None
        return f"on {self._starts[-1].decode()}" + (f", lost {lost}×" if (lost := len(self._starts) - 1) else "")


def run_here(run: StudyRun, pause_at: int | None, resources: Resources, cwd: str) -> int:
    """Run a `tutelage` command in this process, and return its exit code."""
    node = socket.gethostname()
    if not Path(cwd).is_dir() or not (Path(cwd) / run.log.parent).is_dir():
        raise InputError(f"{Path(cwd) / run.log.parent} is not there on {node}: choose --runs that all nodes share.")
    os.chdir(cwd)
    sys.path.insert(0, cwd)  # where a user's own modules are
    log = os.open(run.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for stream in (1, 2):
        os.dup2(log, stream)
    if 0 < resources.gpus < 1:
        os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * resources.gpus:.3f}")
    with claimed_cores(resources.cpus) as cores:
        pin(cores)
        try:
            _wait_until_free(run.directory)
            sys.argv = ["tutelage", *run.command(pause_at)]
            print(f"[{node}] {' '.join(sys.argv)}", flush=True)
            runpy.run_module("tutelage", run_name="__main__")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:
            traceback.print_exc()
            return 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
    return 0


def _wait_until_free(directory: Path) -> None:
    """Wait until a process on a lost node has released the run."""
    end = time.monotonic() + PATIENCE
    while directory.exists():
        try:
            with sole_writer(directory):
                return
        except InputError:
            if time.monotonic() > end:
                raise
            time.sleep(1)
