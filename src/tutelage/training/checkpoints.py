"""Checkpoints: arrays and a description in one file, written atomically.

The format is safetensors: it holds numbers and strings only, so a file from someone else cannot run code. A digest of
the content is stored as well, because a disk may corrupt a file.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from tutelage.files import DamagedError, numbered, write_atomically
from tutelage.types import InputError, Json

SUFFIX, ENTRY = ".safetensors", "tutelage"


class Checkpoint(NamedTuple):
    """A checkpoint in memory."""

    path: Path
    about: Json
    arrays: dict[str, np.ndarray]


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """A pytree's arrays by their paths in it."""
    leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(tree))
    return {_name(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def write(path: Path, tree: Any, about: Json) -> None:
    """Save a pytree's arrays, and a description of them."""
    arrays = named_arrays(tree)
    words = json.dumps(about)
    # one entry only: the library writes several in an order that changes from one time to the next
    entry = json.dumps({"about": words, "digest": _digest(words, arrays)})
    write_atomically(path, save(arrays, metadata={ENTRY: entry}))


def read(path: Path) -> Checkpoint:
    """Read a checkpoint, or raise a `DamagedError` if the file is not one, or not what was saved."""
    path.open("rb").close()  # raises `OSError`
    try:
        with safe_open(path, framework="numpy") as file:
            entry = json.loads((file.metadata() or {})[ENTRY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dictionary
        about, whole = json.loads(entry["about"]), entry["digest"] == _digest(entry["about"], arrays)
    except (SafetensorError, OSError, KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read as a checkpoint: {error}.") from None
    if not whole or not isinstance(about, dict):
        raise DamagedError(f"{path} does not hold what was saved: its digest does not match.")
    return Checkpoint(path, about, arrays)


def fit(arrays: dict[str, np.ndarray], like: Any, source: Path) -> Any:
    """Arrays by name as a pytree shaped `like` another, whose leaves need only a shape and a type."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(like)
    wanted = {_name(path): leaf for path, leaf in leaves}
    for name, leaf in wanted.items():
        if name not in arrays:
            raise InputError(f"{source} lacks {name}: it was saved by another network or method.")
        found, needed = (f"{x.dtype}{list(x.shape)}" for x in (arrays[name], leaf))
        if found != needed:
            raise InputError(f"{name} in {source} is {found}, but {needed} is needed.")
    if extra := sorted(arrays.keys() - wanted.keys()):
        raise InputError(f"{source} holds {extra[0]}, which is not needed: it was saved by another network or method.")
    return jax.tree_util.tree_unflatten(tree, [arrays[name] for name in wanted])


def file_of(directory: Path, iteration: int) -> Path:
    return directory / f"{iteration:08}{SUFFIX}"


def saved(directory: Path) -> list[Path]:
    """All checkpoints in a directory, the newest first."""
    return list(numbered(directory, SUFFIX).values())


def also_in(directory: Path, path: Path) -> None:
    """Put a checkpoint into a second directory, as a hard link if possible."""
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
