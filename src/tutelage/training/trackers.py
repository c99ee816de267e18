"""Trackers: metrics sent to Weights & Biases or TensorBoard, whose packages are imported only when used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from tutelage.files import write_atomically
from tutelage.types import InputError, Json

TrackerName = Literal["wandb", "tensorboard"]

TENSORBOARD, WANDB = "tensorboard", "wandb"
"""Their directories inside the run directory."""

WANDB_ID = f"{WANDB}/id"


class Tracker(NamedTuple):
    """Logs scalars."""

    log: Callable[[int, Mapping[str, float]], object]
    """Log scalars by name, after a number of environment steps."""
    close: Callable[[], object]


def tracker(name: TrackerName, directory: Path, config: Json) -> Tracker:
    """Start to track the run in `directory`."""
    package = tracking_package(name)
    if name == "wandb":
        identity = directory / WANDB_ID  # of the first time, so that a resumed run continues its curves
        if not identity.exists():
            write_atomically(identity, uuid4().hex[:8])
        options = {"id": identity.read_text(), "resume": "allow", "config": config}
        run = package.init(project="tutelage", name=str(directory), dir=str(directory), **options)
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
