"""The domains that come with the library, each with its presets, and how to name one of your own."""

from __future__ import annotations

from tutelage.training.config import Setup
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.presets.racing import RacingSetup
from tutelage.training.serialization import LIBRARY, SETUP, imported
from tutelage.types import InputError

SETUPS: dict[str, type[Setup]] = {setup.name: setup for setup in (MazeSetup, RacingSetup)}

LIBRARY |= SETUPS


def setup_named(name: str) -> type[Setup]:
    """A setup of the library, or a user's own as `module:Class`, which is imported, also from the current directory."""
    module, colon, attribute = name.partition(":")
    if not colon:
        if name not in SETUPS:
            known = ", ".join(SETUPS)
            raise InputError(f"The domain {name!r} does not come with tutelage: choose {known}, or a module:Class.")
        return SETUPS[name]
    if not module or not attribute or module.startswith("."):
        raise InputError(f"A domain of your own is named module:Class, as in my_maze:Setup; got {name!r}.")
    found: type[Setup] = imported(name)
    missing = [part for part in (*SETUP, "preset") if not hasattr(found, part)]
    if missing:
        raise InputError(f"{name} is not a Setup: it lacks {', '.join(missing)}.")
    return found
