"""The type checker of the tests."""

from collections.abc import Callable
from typing import Any

from beartype import beartype


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check a function's arguments and results at every call.

    Constructors are left out: a record refuses what a user may get wrong in a sentence, and tests read that sentence.
    """
    return function if function.__name__ == "__init__" else beartype(function)
