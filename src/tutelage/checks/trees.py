"""Trees of arrays, compared and put into words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


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

    Unless `exact`, floats may differ by rounding, which may tip a few elements of a large array, like pixels, too.
    """
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True):
        x, y = _plain(x), _plain(y)
        same = (x == y) | ((x != x) & (y != y))
        if not exact and np.issubdtype(x.dtype, np.inexact):
            same |= np.isclose(x, y, rtol=1e-3, atol=1e-3)
        if not same.all() and (exact or same.mean() < 0.99):
            return leaf_at(path)
    return None


def _plain(x: Any) -> np.ndarray[Any, Any]:
    """An array in NumPy, which knows no PRNG keys."""
    is_key = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)


def is_same(a: Any, b: Any) -> jax.Array:
    """bool[]: whether all leaves are equal. An empty tree is never the same: there is nothing to tell it by."""
    if not jax.tree.leaves(a):
        return jnp.bool_(False)
    return jnp.stack(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.all(x == y), a, b))).all()


def is_finite(x: jax.Array) -> jax.Array:
    """bool[]"""
    return jnp.isfinite(x).all() if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.bool_(True)


def type_of(x: Any) -> str:
    """An array's dtype and shape, such as int32[2]."""
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return type(x).__name__
    weak = "weakly typed " if getattr(x, "weak_type", False) else ""
    return f"{weak}{x.dtype}[{', '.join(map(str, x.shape))}]"


def leaf_at(path: Sequence[Any]) -> str:
    """A leaf's place in its tree."""
    return f"leaf `{jax.tree_util.keystr(tuple(path))}`" if path else "only leaf"
