"""Calling what somebody else wrote: compiled soon, and with sentences instead of tracebacks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from tutelage.types import InputError, Key

_SOON = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Everything runs only once or twice here, so ask the compiler for plain code, soon, instead of quick code, late."""


def require(kept: bool, otherwise: str) -> None:
    """Raise unless a promise is kept."""
    if not kept:
        raise InputError(otherwise)


def called(name: str, f: Callable[..., Any], *args: Any) -> Any:
    """What `f` gives; if it fails, a sentence that says so of `name`."""
    try:
        return f(*args)
    except Exception as error:
        raise InputError(f"`{name}` {_explained(error)}") from error


def traced(name: str, f: Callable[..., Any], *args: Any) -> Any:
    """The type of what `f` gives, without computing anything."""
    return called(name, partial(jax.eval_shape, f), *args)


def compiled(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` inside `jit`."""
    return jax.jit(f, compiler_options=_SOON)


def _explained(error: Exception) -> str:
    match error:
        case jax.errors.ConcretizationTypeError() | jax.errors.TracerIntegerConversionError():
            return (
                "lets Python decide on an array's value, which is not known when it is traced; use `jnp.where`, "
                "`lax.cond` or `lax.scan`."
            )
        case jax.errors.TracerArrayConversionError():
            return "hands a traced array to NumPy; use jax.numpy instead."
        case jax.errors.NonConcreteBooleanIndexError():
            return (
                "makes an array whose shape depends on values; use `jnp.where` with three arguments to keep it static."
            )
        case jax.errors.UnexpectedTracerError():
            return "uses an array that an earlier call left behind; keep all that lasts in the state."
        case _:
            first_line = (str(error).splitlines() or [""])[0]
            return f"failed with {type(error).__name__}: {first_line}"


def or_default(key: Key | None) -> Key:
    """A key, also for those who do not care which. Not a default argument: importing should not wake JAX's devices."""
    return jax.random.key(0) if key is None else key
