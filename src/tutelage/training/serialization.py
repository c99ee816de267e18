"""Configurations as plain data, with functions and classes by name.

A function or a class in a configuration is written by its name: `max-mc` if it comes with the library, `module:name` if
it is a user's own. Reading such a file imports a module only if the caller allows that module, because a file from
someone else must not decide what code runs.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import importlib
import os
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar

from tutelage.curriculum import curator, generators, scores, utilities
from tutelage.types import InputError, Json

CLASS = "class"
"""The entry that names the class of a generator or a setup."""

SETUP = "name", "domain", "student", "teacher"
"""What every setup has."""

SCORES = (
    scores.max_mc,
    scores.max_mc_start,
    scores.max_mc_start_clipped,
    scores.positive_value_loss,
    scores.l1_value_loss,
    scores.paired_regret,
    scores.true_regret,
    scores.learnability,
)
PRIORITIZATIONS = (curator.rank, curator.proportional)
UTILITIES = (utilities.regret, utilities.mean_regret, utilities.adversarial)
GENERATORS = (generators.Uniform, generators.Teacher)

LIBRARY: dict[str, Any] = {
    thing.__name__.lower().replace("_", "-"): thing for thing in (*SCORES, *PRIORITIZATIONS, *UTILITIES, *GENERATORS)
}
"""The library's functions and classes by their names in files and on the command line. Domains add their setups."""


def name_of(thing: Any) -> str:
    """The name of a function or a class in files and on the command line."""
    for name, known in LIBRARY.items():
        if known is thing:
            return name
    qualified = getattr(thing, "__qualname__", "<>")
    if "<" in qualified:
        raise InputError(f"{thing!r} has no name that could be saved: define it at the top level of a module.")
    if thing.__module__ == "__main__":
        raise InputError(
            f"{qualified} is defined in the program that runs, from which nothing can be imported later: put it into a "
            "module of its own, and import it from there."
        )
    return f"{thing.__module__}:{qualified}"


def find(name: str, allow: Iterable[str] = ()) -> Any:
    """The function or class of this name; a user's own only if its module is allowed."""
    if name in LIBRARY:
        return LIBRARY[name]
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute) or module.startswith("."):
        known = ", ".join(LIBRARY)
        raise InputError(f"There is no {name!r} in tutelage. Name your own as module:name; the library has {known}.")
    if module not in allow:
        raise InputError(
            f"{name} is not part of tutelage, and no file may decide what code runs. If you trust {module}, allow it: "
            f"--allow {module}, or allow=[{module!r}] in Python."
        )
    return imported(name)


def imported(name: str) -> Any:
    """The object `module:name`; the module may be in the current directory."""
    module, _, attribute = name.partition(":")
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise InputError(f"{name} cannot be imported: {error}.") from None
    except Exception as error:  # whatever the module does when it is imported
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f" ({last.filename}, line {last.lineno})" if last.filename != __file__ else ""
        raise InputError(f"{name} cannot be imported: {type(error).__name__}: {error}{where}.") from error
    return found


def to_plain(value: Any, hint: Any = None) -> Json:
    """A dataclass as dictionaries, lists, strings and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        plain = {f.name: to_plain(getattr(value, f.name), hints[f.name]) for f in dataclasses.fields(value)}
        return {CLASS: name_of(type(value))} | plain if _open(hint) else plain
    if isinstance(value, tuple | list):
        return [to_plain(x) for x in value]
    if callable(value):
        return name_of(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"A configuration can hold numbers, words, functions and dataclasses, not {value!r:.80}.")


def names_in(value: Any, hint: Any = None) -> list[str]:
    """The names of all functions and open classes in a value of the type `hint`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        inside = [name for f in dataclasses.fields(value) for name in names_in(getattr(value, f.name), hints[f.name])]
        return [name_of(type(value)), *inside] if _open(hint) else inside
    if isinstance(value, tuple | list):
        return [name for x in value for name in names_in(x)]
    return [name_of(value)] if callable(value) else []


def from_plain(hint: Any, value: Json, name: str, allow: Iterable[str]) -> Any:
    """The inverse of `to_plain`: a value of the type `hint`, or an `InputError` that says by `name` where it is not."""
    if _open(hint):
        if not isinstance(value, Mapping) or not isinstance(value.get(CLASS), str):
            raise InputError(f"{name} must be a group of options with the entry {CLASS!r}, not {value!r:.80}.")
        kind = find(value[CLASS], allow)
        if not (dataclasses.is_dataclass(kind) and isinstance(kind, type)):
            raise InputError(f"{value[CLASS]} in {name} is not a dataclass.")
        members = ("propose", "learns") if hint is generators.Generator else SETUP
        if lacking := [member for member in members if not hasattr(kind, member)]:
            raise InputError(f"{value[CLASS]} cannot be the {name}: it lacks {' and '.join(lacking)}.")
        return _dataclass(kind, {key: x for key, x in value.items() if key != CLASS}, name, allow)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise InputError(f"{name} must be a group of options, not {value!r:.80}.")
        return _dataclass(hint, value, name, allow)
    origin, choices = typing.get_origin(hint), typing.get_args(hint)
    if value is None and type(None) in choices:
        return None
    if origin in (typing.Union, types.UnionType):
        return from_plain(next(choice for choice in choices if choice is not type(None)), value, name, allow)
    if origin is Literal:
        if value not in choices:
            raise InputError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r:.80}.")
        return value
    if origin in (tuple, list, collections.abc.Sequence):  # a tuple each time, because setups are hashed
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} must be a list, not {value!r:.80}.")
        return tuple(from_plain(choices[0], x, name, allow) for x in value)
    if is_function(hint):
        if not isinstance(value, str):
            raise InputError(f"{name} must be the name of a function, not {value!r:.80}.")
        return find(value, allow)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or not isinstance(hint, type):
        raise InputError(
            f"{name} is declared as {hint}, which cannot be read from a file: declare a number, a word, a function, a "
            "dataclass, or a tuple of one kind of these."
        )
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise InputError(f"{name} must be of type {hint.__name__}, not {value!r:.80}.")
    return value


def is_function(hint: Any) -> bool:
    """Whether a type hint is that of a function."""
    return hint is Callable or typing.get_origin(hint) is collections.abc.Callable


def differences(one: Mapping[str, Json], other: Mapping[str, Json]) -> list[str]:
    """What differs between two flat configurations, a phrase each."""
    pairs = {name: [each.get(name, "absent") for each in (one, other)] for name in sorted(one.keys() | other.keys())}
    return [f"{name}: {a} and {b}" for name, (a, b) in pairs.items() if a != b and (a == a or b == b)]  # NaN is NaN


def flat(value: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    """Nested plain data by dotted names."""
    out: dict[str, Json] = {}
    for name, x in value.items():
        out |= flat(x, f"{prefix}{name}.") if isinstance(x, Mapping) else {f"{prefix}{name}": x}
    return out


@cache  # evaluating annotations is half the time of reading a configuration
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _dataclass(kind: type, value: Mapping[str, Json], name: str, allow: Iterable[str]) -> Any:
    hints, known = _hints(kind), {f.name: f for f in dataclasses.fields(kind)}
    prefix = f"{name}." if name else ""
    for key in value:
        if key not in known:
            raise InputError(f"There is no option {prefix}{key}; known here are: {', '.join(known)}.")
    for key, f in known.items():
        if key not in value and f.default is f.default_factory is dataclasses.MISSING:
            raise InputError(f"The option {prefix}{key} is missing.")
    return kind(**{key: from_plain(hints[key], x, prefix + key, allow) for key, x in value.items()})


def _open(hint: Any) -> bool:
    """Whether a field holds a dataclass of a class that its type does not say: a generator or a setup."""
    return isinstance(hint, TypeVar) or hint is generators.Generator
