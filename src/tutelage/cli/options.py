"""Functions that several verbs share: opening runs, and checking options before any work is done."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import jax

from tutelage.learning.mesh import use_cores
from tutelage.training.compilation import keep_programs
from tutelage.training.config import check_seed
from tutelage.training.run import CONFIG, EPISODES, EVALUATIONS, METRICS, POLICY, TIMING, Run, find_runs
from tutelage.types import InputError, Key


def prepare() -> None:
    """Set up devices and the compilation cache, before a user's module is imported and asks JAX for its devices."""
    use_cores()
    keep_programs()


def open_runs(directories: Sequence[Path], pretrained: str | None, allow: Iterable[str]) -> list[Run]:
    """The runs in and below these directories, or the agent of that name that comes with the package."""
    if pretrained is not None and directories:
        raise InputError(f"Give either a run directory or --pretrained {pretrained}, not both.")
    if pretrained is None and not directories:
        raise InputError("Name at least one run directory, or an agent that comes with tutelage: --pretrained maze.")
    return [Run.pretrained(pretrained)] if pretrained else find_runs(directories, allow)


def seed_key(seed: int) -> Key:
    """The key of a seed, which must have 32 bits."""
    check_seed(seed)
    return jax.random.key(seed)


def check_file(path: Path, option: str, suffix: str = "") -> None:
    """Refuse a path where no file can be written, or whose suffix is not `suffix`."""
    if path.is_dir():
        raise InputError(f"{path} is a directory: give {option} a file, such as {path / f'name{suffix}'}.")
    if path.name in (CONFIG, METRICS, TIMING, EVALUATIONS, EPISODES, POLICY) and (path.parent / CONFIG).exists():
        raise InputError(f"{path} belongs to the run in {path.parent}: give {option} another name.")
    if suffix and path.suffix.lower() != suffix:
        raise InputError(f"{path} should end with {suffix}, because that is what is written.")
    check_directory(path.parent, option, path)


def file_name(name: str) -> str:
    """The name of a level or a suite as a file name."""
    return re.sub(r"[^\w.-]", "-", name)


def check_directory(directory: Path, option: str, path: Path | None = None) -> None:
    """Refuse a directory where nothing can be written: the nearest one that exists must be one, and be writable."""
    path = path or directory
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    problem = None if directory.is_dir() else f"{directory} is not a directory"
    if problem is None and not os.access(directory, os.W_OK | os.X_OK):
        problem = f"you may not write to {directory}"
    if problem:
        raise InputError(f"{path} cannot be written: {problem}. Give {option} another place.")
