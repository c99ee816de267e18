"""What several verbs share: opening runs, and checks of options before any work is done."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import jax

from tutelage.learning.mesh import use_cores
from tutelage.training.compilation import keep_programs
from tutelage.training.config import Setup
from tutelage.training.presets import setup_named
from tutelage.types import InputError, Key


def prepared(domain: str | None) -> type[Setup] | None:
    """The setup class of a user's own environment; JAX has its devices before that module is imported."""
    use_cores()
    keep_programs()
    return setup_named(domain) if domain else None


def seed_key(seed: int) -> Key:
    """A key. Seeds beyond 32 bits would repeat the keys of smaller ones."""
    if not 0 <= seed < 2**32:
        raise InputError(f"A seed is a whole number from 0 to 4294967295, not {seed}.")
    return jax.random.key(seed)


def check_file(path: Path, option: str) -> None:
    """Refuse a place where no file can be written."""
    if path.is_dir():
        raise InputError(f"{path} is a directory: give {option} a file, such as {path / 'name'}.")
    check_directory(path.parent, option, path)


def check_known(name: str, known: Iterable[str], what: str) -> None:
    """Refuse a name that is not known, with a suggestion if one is close."""
    choices = [*known]
    if name not in choices:
        close = get_close_matches(name, choices, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise InputError(f"There is no {what} {name!r}.{hint} There are: {', '.join(choices) or 'none'}.")


def file_name(name: str) -> str:
    """A name for a file, of a level or a suite that may have any name."""
    return re.sub(r"[^\w.-]", "-", name)


def failed_to_write(path: Path, option: str, error: OSError) -> Any:
    """The sentence about a file that could not be written after all."""
    return InputError(f"{path} cannot be written ({error}): give {option} another place.")


def check_directory(directory: Path, option: str, path: Path | None = None) -> None:
    """Refuse a directory where nothing can be written: the nearest one that exists must be one, and be writable."""
    path = path or directory
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    problem = None if directory.is_dir() else f"{directory} is no directory"
    if problem is None and not os.access(directory, os.W_OK | os.X_OK):
        problem = f"you may not write to {directory}"
    if problem:
        raise InputError(f"{path} cannot be written: {problem}. Give {option} another place.")
