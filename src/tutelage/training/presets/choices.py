"""Functions that the presets of all domains share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tutelage.curriculum.methods import Method
from tutelage.types import InputError


def with_curator(method: Method, **changes: Any) -> Method:
    """The method with another curator; one without a curator stays as it is."""
    return replace(method, curator=replace(method.curator, **changes)) if method.curator else method


def checked_name(what: str, name: str, known: Iterable[str]) -> str:
    """The name, if it is one of `known`; otherwise an `InputError` that suggests the nearest."""
    known = list(known)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise InputError(f"There is no {what} {name!r}; choose one of {', '.join(known)}.{hint}")
    return name
