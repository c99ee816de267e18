"""Checkpoints: arrays and a few words about them in one file, that is whole or is not there.

The format is safetensors: it holds numbers and strings only, so a file from a stranger cannot run code. A digest over
all of it is kept as well, because a disk may also lose bits in the middle of a file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from tutelage.files import DamagedError, numbered, write_atomically
from tutelage.learning.network import Params
from tutelage.types import InputError, Json

SUFFIX, ENTRY = ".safetensors", "tutelage"


class Checkpoint(NamedTuple):
    """What was saved."""

    path: Path
    about: Json
    arrays: dict[str, np.ndarray]


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """A pytree's arrays by their paths in it."""
    leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(tree))
    return {_name(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def write(path: Path, tree: Any, about: Json) -> None:
    """Save a pytree's arrays, and what is to be known about them."""
    arrays = named_arrays(tree)
    words = json.dumps(about)
    # one entry only: the library writes several in an order that changes from one time to the next
    entry = json.dumps({"about": words, "digest": _digest(words, arrays)})
    write_atomically(path, save(arrays, metadata={ENTRY: entry}))


def read(path: Path) -> Checkpoint:
    """What was saved.

    Raises:
        DamagedError: if the file is not one of ours, is cut off, or holds other bits than were saved.
        OSError: if it may not be read, which says nothing of what it holds.
    """
    path.open("rb").close()
    try:
        with safe_open(path, framework="numpy") as file:
            entry = json.loads((file.metadata() or {})[ENTRY])
            words, digest = entry["about"], entry["digest"]
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dictionary
        if digest != _digest(words, arrays):
            raise DamagedError(f"{path} does not hold what was saved: its digest is another.")
        about = json.loads(words)
    except (SafetensorError, OSError, KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
        if isinstance(error, DamagedError):
            raise
        raise DamagedError(f"{path} cannot be read as a checkpoint: {error}.") from None
    if not isinstance(about, dict):
        raise DamagedError(f"{path} is no checkpoint: it says nothing about its arrays.")
    return Checkpoint(path, about, arrays)


def fit(arrays: dict[str, np.ndarray], like: Any, source: Path) -> Any:
    """Arrays by name as a pytree shaped `like` another, whose leaves need only a shape and a type."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(like)
    out = []
    for path, leaf in leaves:
        name = _name(path)
        if name not in arrays:
            raise InputError(f"{source} lacks {name}: it was saved by something of another shape.")
        found = arrays[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise InputError(
                f"{name} in {source} is {found.dtype}{list(found.shape)}, but {leaf.dtype}{list(leaf.shape)} is needed."
            )
        out.append(found)
    if extra := sorted(arrays.keys() - {_name(path) for path, _ in leaves}):
        raise InputError(f"{source} holds {extra[0]}, which nothing here asks for: it was saved by something else.")
    return jax.tree_util.tree_unflatten(tree, out)


def file_of(directory: Path, iteration: int) -> Path:
    """Where the checkpoint after so many iterations is kept."""
    return directory / f"{iteration:08}{SUFFIX}"


def saved(directory: Path) -> list[Path]:
    """All checkpoints in a directory, the newest first."""
    return list(numbered(directory, SUFFIX).values())


def prune(directory: Path, keep: int) -> None:
    """Delete all but the newest ones."""
    for old in saved(directory)[keep:]:
        old.unlink()


def also_in(directory: Path, path: Path) -> None:
    """Put a checkpoint into a second directory, without a copy of its bytes where the file system can do that."""
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / path.name
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except OSError:
        write_atomically(target, path.read_bytes())


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _digest(words: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.blake2b(words.encode(), digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def save_policy(path: str | Path, params: Params, about: Mapping[str, str]) -> None:
    """Write parameters, and words about them, to a file that is whole or not there."""
    write(Path(path), params, dict(about))


def load_policy(path: str | Path, like: Params) -> Params:
    """Read parameters shaped `like` others, of which only shapes and types are looked at.

    Those that were saved in half precision, as in an agent that comes with the package, become float32 again.

    Raises:
        InputError: if there is no such file, if it is damaged, or if it does not fit.
    """
    if not Path(path).exists():
        raise InputError(f"{path} is not there yet: a run has a policy from its first checkpoint on.")
    arrays = read(Path(path)).arrays
    full = {name: x.astype(np.float32) if x.dtype == np.float16 else x for name, x in arrays.items()}
    return fit(full, like, Path(path))
