"""One run in several processes, maybe on several machines, which share their devices.

Each process runs the same program; only the first one writes files (`is_main`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from tutelage.learning.mesh import AXIS
from tutelage.types import InputError

SHUTDOWN = 10
"""Seconds that a process waits for the others before it ends."""


def use_processes(
    coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None
) -> None:
    """Share the devices of several processes. Call it in each of them, before anything asks JAX for its devices.

    Under SLURM, Open MPI and Kubernetes, JAX finds the arguments by itself.

    Args:
        coordinator: HOST:PORT at which process 0 listens.
        num_processes: how many there are.
        process_id: which this is, from 0.

    Raises:
        InputError: if they cannot be found or are invalid, or if JAX already has its devices.
    """
    given = [x is not None for x in (coordinator, num_processes, process_id)]
    if any(given) and not all(given):
        raise InputError("Give all of coordinator (HOST:PORT), num_processes and process_id, or none of them.")
    if num_processes is not None and process_id is not None and not 0 <= process_id < num_processes:
        raise InputError(f"process_id counts from 0 to {num_processes - 1}, not {process_id}.")
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise InputError(f"The coordinator is the address of process 0 as HOST:PORT, not {coordinator!r}.")
    try:
        jax.distributed.initialize(coordinator, num_processes, process_id, shutdown_timeout_seconds=SHUTDOWN)
    except (RuntimeError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(
            f"The processes did not find each other ({first:.200}). Outside of SLURM, Open MPI and Kubernetes, tell "
            "each process the coordinator's address, the number of processes and its own: --coordinator HOST:PORT "
            "--num-processes N --process-id I."
        ) from error


def is_main() -> bool:
    """Whether this is the process that writes files."""
    return jax.process_index() == 0


def broadcast_from_main(tree: Any) -> Any:
    """The arrays of process 0 in every process; the others give arrays of the same shapes and types."""
    if jax.process_count() == 1:
        return tree
    # as bytes: arrays are sent by adding zeros to them, and −0 + 0 is 0
    arrays = jax.tree.map(lambda x: np.array(x, order="C"), tree)
    sent = multihost_utils.broadcast_one_to_all(jax.tree.map(lambda x: x.reshape(-1).view(np.uint8), arrays))
    return jax.tree.map(lambda x, data: np.asarray(data).view(x.dtype).reshape(x.shape), arrays, sent)


@contextmanager
def fail_together() -> Iterator[None]:
    """A block that fails in all processes if it fails in one. They wait for each other at its end.

    Raises:
        InputError: if it failed in another one.
    """
    failed: Exception | None = None
    try:
        yield
    except Exception as error:
        if jax.process_count() == 1:
            raise
        failed = error
    if jax.process_count() > 1:
        all_failed = multihost_utils.process_allgather(np.int32(failed is not None))
        if failed is not None:
            raise failed
        if all_failed.any():
            raise InputError(f"Process {int(all_failed.argmax())} has failed; see its own message.")


@contextmanager
def detect_lost_process() -> Iterator[None]:
    """Raise `InputError` if a collective fails because another process has ended."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # JAX's, of several kinds
        if jax.process_count() == 1 or not any(word in str(error) for word in ("Gloo", "NCCL", "coordination service")):
            raise
        raise InputError(
            f"Process {jax.process_index()} has lost another process of this run, and ends. All until the newest "
            "checkpoint is saved: resume it, with the same or another number of processes."
        ) from error


def exit_process(code: int) -> None:
    """End this process at once, if it is one of several: a normal exit would wait for processes that are gone."""
    if jax.distributed.is_initialized():
        if is_main():
            time.sleep(1)  # the others end with this one, so let them print their errors first
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def global_max(number: int, mesh: Mesh) -> Array:
    """i32[]: the highest of all processes' numbers, computed asynchronously."""
    one = np.full(1, number, np.int32)
    share = NamedSharding(mesh, PartitionSpec(AXIS))
    return _global_max(jax.make_array_from_callback((mesh.size,), share, lambda _: one))


@jax.jit
def _global_max(numbers: Array) -> Array:
    return numbers.max()
