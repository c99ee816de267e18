"""Calling code that somebody else wrote and comparing what it gives, with sentences instead of tracebacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tutelage.types import InputError, Key

_COMPILE_FAST = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Each program runs only once or twice here, so compile time matters more than run time."""


def require(kept: Any, otherwise: str) -> None:
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
    return jax.jit(f, compiler_options=_COMPILE_FAST)


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
            return "makes an array whose shape depends on values; use `jnp.where` with three arguments."
        case jax.errors.UnexpectedTracerError():
            return "uses an array that an earlier call left behind; keep everything that lasts in the state."
        case _:
            first_line, _, _ = str(error).partition("\n")
            return f"failed with {type(error).__name__}: {first_line}"


def check_pure(f: Callable[[Key], dict[str, Any]], key: Key) -> None:
    """Check that `f`, which gives results by method, gives the same again, inside `jit`, and inside `vmap`."""
    keys = jax.random.split(key)
    plain = [f(key) for key in keys]
    _compare(
        plain[0],
        f(keys[0]),
        "gave two different results for the same arguments, in its {leaf}; draw everything random from its key with "
        "`jax.random`, and keep nothing outside the state",
        exact=True,
    )
    batched = compiled(jax.vmap(f))(keys)
    together = [jax.tree.map(lambda x, i=i: x[i], batched) for i in range(len(keys))]
    if not differing(plain, together):
        return
    jitted = compiled(f)  # only now, to tell `jit` from `vmap`: compiling takes most of the time of all checks
    for key, expected, got in zip(keys, plain, together, strict=True):
        _compare(
            expected,
            jitted(key),
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


def retyped(before: Any, after: Any) -> str | None:
    """In words, the first leaf whose type is not the same in two trees of `jax.eval_shape`."""
    old, new = (
        {leaf_at(path): type_of(x) for path, x in jax.tree_util.tree_leaves_with_path(tree)} for tree in (before, after)
    )
    for leaf in old | new:
        if leaf not in new:
            return f"it lacks the {leaf}"
        if leaf not in old:
            return f"it has a {leaf} too many"
        if old[leaf] != new[leaf]:
            return f"its {leaf} is {new[leaf]} instead of {old[leaf]}"
    structures: list[Any] = [jax.tree.structure(tree) for tree in (before, after)]
    if structures[0] != structures[1]:
        return f"it is a {type(after).__name__} instead of a {type(before).__name__}, or holds one"
    return None


def differing(a: Any, b: Any, *, exact: bool = False) -> str | None:
    """The first leaf in which two trees of one structure differ.

    Unless `exact`, floats may differ by rounding, and rounding may change 1 % of the elements of an array, like pixels.
    """
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True):
        x, y = _numpy(x), _numpy(y)
        same = (x == y) | ((x != x) & (y != y))
        if not exact and np.issubdtype(x.dtype, np.inexact):
            same |= np.isclose(x, y, rtol=1e-3, atol=1e-3)
        if not same.all() and (exact or same.mean() < 0.99):
            return leaf_at(path)
    return None


def _numpy(x: Any) -> NDArray[Any]:
    is_key = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)


def is_same(a: Any, b: Any) -> jax.Array:
    """bool[]: whether all leaves are equal; false for empty trees, which cannot be told apart."""
    if not jax.tree.leaves(a):
        return jnp.array(False)
    same: jax.Array = jnp.stack(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.all(x == y), a, b))).all()
    return same


def type_of(x: Any) -> str:
    """An array's dtype and shape, such as int32[2]."""
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return type(x).__name__
    weak = "weakly typed " if getattr(x, "weak_type", False) else ""
    return f"{weak}{x.dtype}[{', '.join(map(str, x.shape))}]"


def is_scalar(x: Any, kind: Any) -> bool:
    """Whether this is one number of a kind, such as `jnp.floating`."""
    return getattr(x, "shape", None) == () and jnp.issubdtype(x.dtype, kind)


def check_picture(name: str, x: Any) -> None:
    """Check that this is an RGB picture."""
    require(
        getattr(x, "dtype", None) == np.uint8 and x.ndim == 3 and x.shape[2] == 3,
        f"`{name}` gives {type_of(x)}; let it give a picture uint8[H, W, 3].",
    )


def leaf_at(path: Sequence[Any]) -> str:
    """A leaf's place in its tree."""
    return f"leaf `{jax.tree_util.keystr(tuple(path))}`" if path else "only leaf"
