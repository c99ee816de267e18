"""Devices: the env axis B is split over them, everything else is the same on each.

`on_devices(f)` runs a function once on every device of a mesh. Inside it the functions of this module cut out this
device's part of an array, and put the parts together again. With one device they do nothing, so no algorithm asks how
many devices there are. On a CPU a device is a core (`use_cores`): two devices with a thread each are faster than one
device with two threads. `use_cores` has no effect on accelerators.
"""

from __future__ import annotations

import os
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


def cores() -> int:
    """How many cores this process may use."""
    # only Linux has the affinity
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_mesh(batch: int, devices: int | None = None) -> Mesh:
    """A mesh of as many devices as divide `batch` envs evenly, at most `devices` of them (default: all there are)."""
    available = jax.devices()
    most = min(devices or len(available), len(available))
    count = next(n for n in range(most, 0, -1) if batch % n == 0)
    return Mesh(np.asarray(available[:count]), (AXIS,))


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
