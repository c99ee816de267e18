"""Trackers: metrics sent to Weights & Biases or TensorBoard, whose packages are imported only when used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tutelage.types import InputError, Json

TrackerName = Literal["wandb", "tensorboard"]

TENSORBOARD, WANDB = "tensorboard", "wandb"
"""Their directories inside the run directory."""


class Tracker(NamedTuple):
    """Logs scalars."""

    log: Callable[[int, Mapping[str, float]], object]
    """Log scalars by name, after a number of environment steps."""
    close: Callable[[], object]


def tracker(name: TrackerName, directory: Path, config: Json) -> Tracker:
    """Start to track the run in `directory`."""
    package = tracking_package(name)
    if name == "wandb":
        run = package.init(project="tutelage", name=str(directory), dir=str(directory), config=config)
        return Tracker(lambda step, scalars: run.log(dict(scalars), step=step), run.finish)
    writer = package.Writer(str(directory / TENSORBOARD))

    def log(step: int, scalars: Mapping[str, float]) -> None:
        for scalar, value in scalars.items():
            writer.add_scalar(scalar, value, step)

    return Tracker(log, writer.close)


def tracking_package(name: TrackerName) -> Any:
    """The package of a tracker, or an `InputError` if it is not installed."""
    try:
        return importlib.import_module("wandb" if name == "wandb" else "tensorboard.summary")
    except ImportError:
        raise InputError(f"Tracking with {name} needs its package: pip install {name}.") from None
