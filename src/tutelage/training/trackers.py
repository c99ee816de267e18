"""Trackers: metrics sent to Weights & Biases or TensorBoard, whose packages are imported only when used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from tutelage.types import InputError, Json

TrackerName = Literal["wandb", "tensorboard"]

TENSORBOARD, WANDB = "tensorboard", "wandb"
"""Their directories inside the run directory."""


class Tracker(Protocol):
    """Logs scalars."""

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Log scalars by name, after `step` environment steps."""
        ...

    def close(self) -> None: ...


class _Wandb:
    def __init__(self, package: Any, directory: Path, config: Json) -> None:
        self._run = package.init(project="tutelage", name=str(directory), dir=str(directory), config=config)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self._run.log(dict(scalars), step=step)

    def close(self) -> None:
        self._run.finish()


class _TensorBoard:
    def __init__(self, package: Any, directory: Path, config: Json) -> None:
        self._writer = package.Writer(str(directory / TENSORBOARD))

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


def check_tracker(name: TrackerName | None) -> None:
    """Refuse a tracker whose package is not installed, before any work."""
    if name is not None:
        _package(name)


def tracker(name: TrackerName, directory: Path, config: Json) -> Tracker:
    """Start to track the run in `directory`."""
    return (_Wandb if name == "wandb" else _TensorBoard)(_package(name), directory, config)


def _package(name: TrackerName) -> Any:
    try:
        return importlib.import_module("wandb" if name == "wandb" else "tensorboard.summary")
    except ImportError:
        raise InputError(f"Tracking with {name} needs its package: pip install {name}.") from None
