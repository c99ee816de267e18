"""A wide layer behind a convolution, over a sequence of grids of which each differs little from the one before.

The plain computation, for the 3×3 patches x_p of a grid at its P inner positions and numbers s passed by them,

    z = Σ_p relu(x_p · E) · W_p + s · V,

reads W (for the maze teacher 21,632 × 1,024 numbers) with every one of the grid's positions at every step, although an
edit changes only the nine patches around one cell. So sum up changes instead: with f_p = relu(x_p · E),

    z_t = z_{t−1} + Σ_{p changed at t} (f_p(t) − f_p(t−1)) · W_p + (s_t − s_{t−1}) · V,

where of s the whole is taken, not the change: that part is narrow. The changes are gathered by position, so that a
product has the rows of all steps and workers in which the same patch changed, and each W_p is read once. Nothing is
assumed about the grids: more changes are more rows, and the loop over them is as long as it has to be.

Backward, a change is to blame for its own step and all later ones, and the same loop collects the gradients.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

WINDOW = 3

ROWS = 32
"""Changes that one product takes at once: about as many as a position has in a batch of editing episodes."""

Kernels = tuple[jax.Array, ...]
"""W above V, its columns cut into any number of arrays f32[P·F + X, Nᵢ]. N is the sum of all Nᵢ."""


def patches(grid: jax.Array) -> jax.Array:
    """[..., H, W, C] → [..., P, 9·C]: each inner cell with its neighbours, row by row."""
    rows, columns = (size - WINDOW + 1 for size in grid.shape[-3:-1])
    shifted = [grid[..., i : i + rows, j : j + columns, :] for i in range(WINDOW) for j in range(WINDOW)]
    return jnp.concatenate(shifted, -1).reshape(*grid.shape[:-3], rows * columns, -1)


def project(encoder: jax.Array, kernels: Kernels, grid: jax.Array, passed: jax.Array) -> jax.Array:
    """z of every step, f32[T, B, N].

    Args:
        encoder: E, f32[9·C + 1, F]; the last row is the bias.
        kernels: W and V.
        grid: u8[T, B, H, W, C].
        passed: s, f32[T, B, X].
    """
    length, batch = grid.shape[:2]
    frames = _with_ones(patches(grid))  # [T, B, P, I]
    # The grids of all workers begin much alike, so all refer to one of them, which in turn is a change from nothing.
    # Nothing has no 1 in the bias's column, so its features are zero.
    reference = frames[:1, :1]
    now = jnp.concatenate([reference.reshape(1, *frames.shape[2:]), frames.reshape(-1, *frames.shape[2:])])
    first = jnp.broadcast_to(reference, (1, *frames.shape[1:]))
    before = jnp.concatenate([first, frames[:-1]]).reshape(-1, *frames.shape[2:])
    before = jnp.concatenate([jnp.zeros_like(now[:1]), before])
    changes, direct = _changes(encoder, kernels, jnp.stack([before, now]), passed.reshape(length * batch, -1))
    steps = changes[1:].reshape(length, batch, -1)
    return changes[0] + jnp.cumsum(steps, 0) + direct.reshape(steps.shape)


@jax.custom_vjp
def _changes(
    encoder: jax.Array, kernels: Kernels, pairs: jax.Array, passed: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Σ_p (f_p(after) − f_p(before)) · W_p of each of R pairs of grids, f32[R, N], and passed · V.

    `pairs` is u8[2, R, P, I]: before and after.
    """
    return _forward(encoder, kernels, pairs, passed)[0]


def _forward(encoder: jax.Array, kernels: Kernels, pairs: jax.Array, passed: jax.Array) -> Any:
    filters = encoder.shape[1]
    pairs, rows, counts = _by_position(pairs)
    positions, _, total = pairs.shape[:3]

    def over_position(changes: jax.Array, xs: Any) -> tuple[jax.Array, None]:
        position, pairs, rows, count = xs
        weights = [_rows_of(kernel, position, filters) for kernel in kernels]

        def over_block(block: jax.Array, changes: jax.Array) -> jax.Array:
            where = lax.dynamic_slice_in_dim(rows, block * ROWS, ROWS)
            before, after = jax.nn.relu(_take(pairs, where) @ encoder)
            change = after - before
            product = jnp.concatenate([change @ weight for weight in weights], -1)
            return changes.at[where].add(product, mode="drop")

        return lax.fori_loop(0, -(-count // ROWS), over_block, changes), None

    columns = sum(kernel.shape[1] for kernel in kernels)
    xs = (jnp.arange(positions), pairs, rows, counts)
    changes, _ = lax.scan(over_position, jnp.zeros((total, columns)), xs)
    direct = jnp.concatenate([passed @ kernel[positions * filters :] for kernel in kernels], -1)
    return (changes, direct), (encoder, kernels, passed, xs)


def _backward(residuals: Any, cotangents: tuple[jax.Array, jax.Array]) -> tuple[Any, ...]:
    encoder, kernels, passed, xs = residuals
    changes_bar, direct_bar = cotangents
    filters = encoder.shape[1]
    cuts = np.cumsum([kernel.shape[1] for kernel in kernels])[:-1]
    parts = jnp.split(changes_bar, cuts, -1)

    def over_position(loop: Any, xs: Any) -> tuple[Any, None]:
        encoder_bar, kernel_bars = loop
        position, pairs, rows, count = xs
        weights = [_rows_of(kernel, position, filters) for kernel in kernels]

        def over_block(block: jax.Array, loop: Any) -> Any:
            encoder_bar, weight_bars = loop
            where = lax.dynamic_slice_in_dim(rows, block * ROWS, ROWS)
            inputs = _take(pairs, where)
            features = jax.nn.relu(inputs @ encoder)
            change = features[1] - features[0]
            bars = [part.at[where].get(mode="fill", fill_value=0) for part in parts]
            weight_bars = [total + change.T @ bar for total, bar in zip(weight_bars, bars, strict=True)]
            change_bar = sum(bar @ weight.T for bar, weight in zip(bars, weights, strict=True))
            features_bar = jnp.stack([-change_bar, change_bar]) * (features > 0)
            encoder_bar += jnp.einsum("kri,krf->if", inputs, features_bar)
            return encoder_bar, weight_bars

        start = (encoder_bar, [jnp.zeros_like(weight) for weight in weights])
        encoder_bar, weight_bars = lax.fori_loop(0, -(-count // ROWS), over_block, start)
        kernel_bars = [
            lax.dynamic_update_slice_in_dim(total, bar, position * filters, 0)
            for total, bar in zip(kernel_bars, weight_bars, strict=True)
        ]
        return (encoder_bar, kernel_bars), None

    direct_bars = jnp.split(direct_bar, cuts, -1)
    behind = len(xs[0]) * filters
    kernel_bars = [
        jnp.zeros_like(kernel).at[behind:].set(passed.T @ bar)
        for kernel, bar in zip(kernels, direct_bars, strict=True)
    ]
    passed_bar = sum(bar @ kernel[behind:].T for kernel, bar in zip(kernels, direct_bars, strict=True))
    (encoder_bar, kernel_bars), _ = lax.scan(over_position, (jnp.zeros_like(encoder), kernel_bars), xs)
    return encoder_bar, tuple(kernel_bars), None, passed_bar


_changes.defvjp(_forward, _backward)


def _by_position(pairs: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sort u8[2, R, P, I] into positions.

    Returns the pairs as [P, 2, R, I]; for each position the rows that change, i32[P, R'], followed by R, which is no
    row, as often as it takes; and how many they are, i32[P].
    """
    total = pairs.shape[1]
    pairs = jnp.moveaxis(pairs, 2, 0)
    changed = jnp.any(pairs[:, 0] != pairs[:, 1], -1)
    rows = jnp.sort(jnp.where(changed, jnp.arange(total), total), -1)
    rows = jnp.pad(rows, ((0, 0), (0, -total % ROWS)), constant_values=total)
    return pairs, rows, changed.sum(-1)


def _take(pairs: jax.Array, rows: jax.Array) -> jax.Array:
    """Some rows of u8[2, R, I] as numbers, f32[2, ROWS, I]; zeros for what is no row."""
    return pairs.at[:, rows].get(mode="fill", fill_value=0).astype(jnp.float32)


def _rows_of(kernel: jax.Array, position: jax.Array, filters: int) -> jax.Array:
    """W_p, f32[F, Nᵢ]"""
    return lax.dynamic_slice_in_dim(kernel, position * filters, filters)


def _with_ones(x: jax.Array) -> jax.Array:
    return jnp.concatenate([x, jnp.ones((*x.shape[:-1], 1), x.dtype)], -1)
