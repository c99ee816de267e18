"""Devices: the env axis B is split over them, everything else is the same on each.

`on_devices(f)` runs a function once on every device of a mesh. Inside it the functions of this module cut out this
device's part of an array, and put the parts together again. With one device they do nothing, so no algorithm depends on
the number of devices. On a CPU a device is a core (`use_cores`): two devices with a thread each are faster than one
device with two threads. `use_cores` has no effect on accelerators.

The devices may be those of several processes (`training.processes`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array

from tutelage.types import InputError

AXIS = "envs"


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


def shard(tree: Any) -> Any:
    """The part of this device, of arrays [B, ...] that every device holds whole."""

    def cut(x: Array) -> Array:
        part = x.shape[0] // count()
        return lax.dynamic_slice_in_dim(x, lax.axis_index(AXIS) * part, part)

    return jax.tree.map(cut, tree)


def gather(tree: Any) -> Any:
    """The inverse of `shard`: arrays [B, ...], put together from every device's part."""
    return lax.all_gather(tree, AXIS, tiled=True)


def mean(tree: Any) -> Any:
    """The mean over devices."""
    return lax.pmean(tree, AXIS)
