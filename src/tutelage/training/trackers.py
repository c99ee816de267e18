"""Metrics sent elsewhere as they come. Each tracker's package is imported only when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from tutelage.types import InputError, Json

TrackerName = Literal["wandb", "tensorboard"]

_MODULES: dict[TrackerName, str] = {"wandb": "wandb", "tensorboard": "tensorboard.summary"}

TENSORBOARD, WANDB = "tensorboard", "wandb"
"""The directories of their files in the run's."""


class Tracker(Protocol):
    """Takes scalars."""

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Numbers by name, after `step` environment steps."""
        ...

    def close(self) -> None:
        """Finish tracking."""
        ...


def check_tracker(name: TrackerName | None) -> None:
    """Refuse a tracker whose package is not installed, before any work."""
    if name is not None:
        _imported(_MODULES[name], name)


def tracker(name: TrackerName, directory: Path, config: Json) -> Tracker:
    """Begin to track a run."""
    return _Wandb(directory, config) if name == "wandb" else _TensorBoard(directory)


class _Wandb:
    def __init__(self, directory: Path, config: Json) -> None:
        wandb = _imported(_MODULES["wandb"], "wandb")
        self._run = wandb.init(project="tutelage", name=str(directory), dir=str(directory), config=config)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self._run.log(dict(scalars), step=step)

    def close(self) -> None:
        self._run.finish()


class _TensorBoard:
    def __init__(self, directory: Path) -> None:
        self._writer = _imported(_MODULES["tensorboard"], "tensorboard").Writer(str(directory / TENSORBOARD))

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


def _imported(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f"Tracking with {package} needs its package: pip install {package}.") from None
