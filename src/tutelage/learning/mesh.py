"""Devices: the env axis B is split over them, everything else is the same on each.

`on_devices(f)` runs a function once on every device of a mesh. Inside it the functions of this module cut out this
device's part of an array, and put the parts together again. With one device they do nothing, so no algorithm depends on
the number of devices. On a CPU a device is a core (`use_cores`): two devices with a thread each are faster than one
device with two threads. `use_cores` has no effect on accelerators.

With `use_processes` the devices are those of several processes, maybe on several machines. Each process runs the same
program; only the first one writes files (`leads`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from tutelage.types import InputError

AXIS = "envs"

SHUTDOWN = 10
"""Seconds that a process waits for the others before it ends."""


def use_cores(count: int | None = None) -> None:
    """Make every CPU core, or `count` of them, a device. Call it before anything else asks JAX for its devices.

    Raises:
        InputError: if JAX already has its devices, and they are not `count`, or just one though there are more cores.
    """
    wanted = count or cores()
    try:
        jax.config.update("jax_num_cpu_devices", wanted)
    except RuntimeError as error:  # JAX is running, and cannot change its devices
        made = len(jax.devices("cpu"))
        if made != wanted and (count or made == 1):
            raise InputError(
                f"JAX is running with {made} CPU device(s) and cannot change them to {wanted}: call use_cores() right "
                "after the imports, before anything makes an array or a key or asks for devices."
            ) from error


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


def leads() -> bool:
    """Whether this is the process that writes files."""
    return jax.process_index() == 0


def from_first(tree: Any) -> Any:
    """The arrays of process 0 in every process; the others give arrays of the same shapes and types."""
    if jax.process_count() == 1:
        return tree
    # as bytes: arrays are sent by adding zeros to them, and −0 + 0 is 0
    arrays = jax.tree.map(lambda x: np.array(x, order="C"), tree)
    sent = multihost_utils.broadcast_one_to_all(jax.tree.map(lambda x: x.reshape(-1).view(np.uint8), arrays))
    return jax.tree.map(lambda x, data: np.asarray(data).view(x.dtype).reshape(x.shape), arrays, sent)


@contextmanager
def together() -> Iterator[None]:
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
def noticing_loss() -> Iterator[None]:
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


def leave(code: int) -> None:
    """End this process at once, if it is one of several: a normal exit would wait for processes that are gone."""
    if jax.distributed.is_initialized():
        if leads():
            time.sleep(1)  # the others end with this one, so let them print their errors first
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def read(tree: Any) -> Any:
    """Arrays that are equal on all devices, as NumPy arrays. Raises if a collective has failed on any device."""
    if jax.process_count() > 1:
        # a failure of one device is not reported to devices of this process that wait for it
        left, pause = [shard.data for shard in jax.tree.leaves(tree)[0].addressable_shards], 1e-4
        while left:
            for x in left:
                if x.is_ready():
                    x.block_until_ready()  # this is what raises
            left, pause = [x for x in left if not x.is_ready()], min(1.5 * pause, 5e-3)
            time.sleep(pause if left else 0)
    return jax.device_get(tree)


def highest(number: int, mesh: Mesh) -> Array:
    """i32[]: the highest of all processes' numbers, computed asynchronously."""
    one = np.full(1, number, np.int32)
    share = NamedSharding(mesh, PartitionSpec(AXIS))
    return _highest(jax.make_array_from_callback((mesh.size,), share, lambda _: one))


@jax.jit
def _highest(numbers: Array) -> Array:
    return numbers.max()


def cores() -> int:
    """How many cores this process may use."""
    # only Linux has the affinity
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_mesh(batch: int, devices: int | None = None) -> Mesh:
    """A mesh of as many devices as divide `batch` envs evenly, at most `devices` of them (default: all there are).

    Every process has as many of them as the others.

    Raises:
        InputError: if there are more processes than that, or if `batch` cannot be divided among them.
    """
    processes = jax.process_count()
    owned: list[list[jax.Device]] = [[] for _ in range(processes)]
    for device in jax.devices():
        owned[device.process_index].append(device)
    most = min((devices or jax.device_count()) // processes, *map(len, owned))
    for each in range(most, 0, -1):
        if batch % (each * processes) == 0:
            return Mesh(np.asarray([device for own in owned for device in own[:each]]), (AXIS,))
    raise InputError(
        f"{processes} processes cannot share {batch} envs evenly, each with a device of its own: choose a number of "
        "envs that the number of processes divides, and at least as many devices."
    )


def on_devices(f: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
    """`f` on every device at once. Arguments and results are whole, and equal on all devices."""
    return jax.shard_map(f, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec(), check_vma=False)


def count() -> int:
    """How many devices share the envs: a static number."""
    return lax.axis_size(AXIS)


def own(tree: Any) -> Any:
    """The part of this device, of arrays [B, ...] that every device holds whole."""

    def cut(x: Array) -> Array:
        part = x.shape[0] // count()
        return lax.dynamic_slice_in_dim(x, lax.axis_index(AXIS) * part, part)

    return jax.tree.map(cut, tree)


def whole(tree: Any) -> Any:
    """The inverse of `own`: arrays [B, ...], put together from every device's part."""
    return lax.all_gather(tree, AXIS, tiled=True)


def mean(tree: Any) -> Any:
    """The mean over devices."""
    return lax.pmean(tree, AXIS)
