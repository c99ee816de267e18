"""The domains that come with the library, and how to name one's own."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from tutelage.training.config import Setup
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.presets.racing import RacingSetup
from tutelage.types import InputError

SETUPS: dict[str, type[Setup]] = {setup.name: setup for setup in (MazeSetup, RacingSetup)}


def known_setup(name: str) -> type[Setup]:
    """One that comes with the library. Nothing is imported, so the name may be a stranger's."""
    if name not in SETUPS:
        raise InputError(
            f"The domain {name!r} does not come with tutelage. Name the class of its setup, as module:Class, or choose "
            f"one of {', '.join(SETUPS)}."
        )
    return SETUPS[name]


def setup_named(name: str) -> type[Setup]:
    """One that comes with the library, or a user's own as `module:Class`, which is imported, also from here."""
    module, colon, attribute = name.partition(":")
    if not colon:
        return known_setup(name)
    if not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise InputError(f"{name!r} names no class: write module:Class, such as own_environment:FerrySetup.")
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{name} cannot be imported: {error}.") from None
    missing = [part for part in ("name", "domain", "student", "teacher", "preset") if not hasattr(found, part)]
    if missing:
        raise InputError(f"{name} is no Setup: it lacks {', '.join(missing)}.")
    return found
