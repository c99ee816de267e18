"""Are methods pure? They must give the same when called again, inside `jit`, and inside `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from tutelage.checks.calls import compiled
from tutelage.checks.trees import differing
from tutelage.types import InputError, Key


def check_agreement(f: Callable[[Key], dict[str, Any]], keys: Key) -> None:
    """Check that what `f` finds, by method, is the same when called again, inside `jit`, and inside `vmap`."""
    plain = [f(key) for key in keys]
    _compare(
        plain[0],
        f(keys[0]),
        "gave two different results for the same arguments, in its {leaf}; draw all that is random from its key with "
        "`jax.random`, and keep nothing outside the state",
        exact=True,
    )
    batched = compiled(jax.vmap(f))(keys)
    together = [jax.tree.map(lambda x, i=i: x[i], batched) for i in range(len(keys))]
    if not differing(plain, together):
        return
    quick = compiled(f)  # only now, to tell `jit` from `vmap`: the compiler takes most of the time of all checks
    for key, expected, got in zip(keys, plain, together, strict=True):
        _compare(
            expected,
            quick(key),
            "gives another result inside `jax.jit`, in its {leaf}; use jax.numpy for what depends on its arguments, "
            "because Python and NumPy run only once, when it is traced",
        )
        _compare(
            expected,
            got,
            "gives another result inside `jax.vmap`, in its {leaf}; write it for one level, with operations that batch",
        )


def _compare(expected: dict[str, Any], got: dict[str, Any], complaint: str, *, exact: bool = False) -> None:
    for method, result in expected.items():
        if leaf := differing(result, got[method], exact=exact):
            raise InputError(f"`{method}` {complaint.format(leaf=leaf)}.")
