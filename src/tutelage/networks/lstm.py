"""The fast recurrent core: small integers → product → ReLU → LSTM over whole sequences, with its own backward pass.

The computation is that of a plain cell scanned over time,

    e_t = [relu(x_t · E), s_t]                         x_t small integers, s_t passed through unchanged
    i, f, g, o = e_t · W + (h_{t−1} · k_t) · U          k_t = 0 where an episode begins, else 1
    c_t = σ(f) ⊙ c_{t−1} k_t + σ(i) ⊙ tanh(g),   h_t = σ(o) ⊙ tanh(c_t)

and so are its gradients; only the order of the work differs from autodiff. Time is cut into chunks that fit the cache.
Inside a chunk all input projections are one matrix product, the scan over its steps computes only h · U (backward:
dz · Uᵀ) and the gates, and the weights' gradients are products over the whole chunk after the scan. Since
σ(z) = (1 + tanh(z/2))/2, the caller halves the columns of i, f and o (`halve`), and one tanh over all four gates is
then the only activation, forward and backward.

There are no biases: a caller adds them to the rows of W that a one-hot s_t selects, or gives x_t a column of ones.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

Carry = tuple[jax.Array, jax.Array]
"""(h, c), each f32[B, H]."""


class Weights(NamedTuple):
    """The core's matrices."""

    encoder: jax.Array  # f32[I, E]
    gates: jax.Array  # f32[H + E + X, 4H]: U above W, their columns in the order i, f, g, o, halved


class Inputs(NamedTuple):
    """The input; leading axes [B] or [T, B]."""

    integers: jax.Array  # u8[..., I]
    passed: jax.Array  # u8[..., X]


class _Trace(NamedTuple):
    """Residuals of the backward pass, in chunks: every leaf is [T/C, C, B, ...]."""

    features: jax.Array  # f32[..., E + X]
    gates: jax.Array  # f32[..., 4H]: after the tanh
    cell: jax.Array  # f32[..., H]
    hidden: jax.Array  # f32[..., H]


def halve(columns: jax.Array) -> jax.Array:
    """Halve the columns of i, f and o of f32[..., 4H], so that σ becomes a tanh."""
    size = columns.shape[-1] // 4
    return columns * jnp.repeat(jnp.array([0.5, 0.5, 1.0, 0.5]), size)


def zero_carry(batch: int, size: int) -> Carry:
    """The carry at the start of an episode."""
    return jnp.zeros((batch, size)), jnp.zeros((batch, size))


def unroll(
    weights: Weights, carry: Carry, inputs: Inputs, first: jax.Array, *, chunk: int = 32, dtype: Any = None
) -> tuple[Carry, jax.Array]:
    """The carry after the last step, and every step's h, f32[T, B, H].

    The carry is cleared before steps where `first` bool[T, B] says that an episode begins. `chunk` steps are taken at
    once; the last chunk may be shorter. Matrix products round their operands to `dtype` and add up in float32.
    """
    length = len(first)
    if length == 1:  # acting, which needs no residuals
        now, begins = jax.tree.map(lambda x: x[0], (inputs, first))
        hidden, cell = _clear(carry, begins)
        features = _encode(weights.encoder, now, dtype)
        gates = jnp.tanh(_product(jnp.concatenate([hidden, features], -1), weights.gates, dtype))
        cell, hidden = _advance(gates, cell)
        return (hidden, cell), hidden[None]
    whole = length - length % chunk
    every_h = []
    for start, stop, size in ((0, whole, chunk), (whole, length, length - whole)):
        if start < stop:
            part, begins = jax.tree.map(lambda x, start=start, stop=stop: x[start:stop], (inputs, first))
            carry, h = _unroll_chunks(size, dtype, weights, carry, part, begins)
            every_h.append(h)
    return carry, jnp.concatenate(every_h)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _unroll_chunks(
    chunk: int, dtype: Any, weights: Weights, carry: Carry, inputs: Inputs, first: jax.Array
) -> tuple[Carry, jax.Array]:
    """`unroll` for a T that `chunk` divides."""
    return _forward(chunk, dtype, weights, carry, inputs, first)[0]


def _forward(
    chunk: int, dtype: Any, weights: Weights, carry: Carry, inputs: Inputs, first: jax.Array
) -> tuple[tuple[Carry, jax.Array], Any]:
    size = carry[0].shape[-1]
    recurrent, projection = weights.gates[:size], weights.gates[size:]

    def over_chunk(carry: Carry, xs: tuple[Inputs, jax.Array]) -> tuple[Carry, _Trace]:
        inputs, first = xs
        features = _encode(weights.encoder, inputs, dtype)
        projected = _product(features, projection, dtype)

        def over_step(carry: Carry, xs: tuple[jax.Array, jax.Array]) -> tuple[Carry, Any]:
            projected, first = xs
            hidden, cell = _clear(carry, first)
            gates = jnp.tanh(projected + _product(hidden, recurrent, dtype))
            cell, hidden = _advance(gates, cell)
            return (hidden, cell), (gates, cell, hidden)

        carry, (gates, cell, hidden) = lax.scan(over_step, carry, (projected, first))
        return carry, _Trace(features, gates, cell, hidden)

    last, trace = lax.scan(over_chunk, carry, _chunked(chunk, (inputs, first)))
    return (last, _flat(trace.hidden)), (weights, carry, inputs, first, trace)


def _backward(chunk: int, dtype: Any, residuals: Any, cotangents: tuple[Carry, jax.Array]) -> tuple[Any, ...]:
    weights, carry, inputs, first, trace = residuals
    last_bar, hidden_bar = cotangents
    size = carry[0].shape[-1]
    encoded = weights.encoder.shape[-1]
    recurrent_t, projection_t = weights.gates[:size].T, weights.gates[size : size + encoded].T

    # h and c as they stood before each chunk
    before_h, before_c = (
        jnp.concatenate([start[None], each[:-1, -1]])
        for start, each in zip(carry, (trace.hidden, trace.cell), strict=True)
    )

    def over_chunk(loop: Any, xs: Any) -> tuple[Any, None]:
        carry_bar, encoder_bar, gates_bar = loop
        inputs, first, trace, hidden_bar, before_h, before_c = xs
        keep = 1.0 - first[..., None].astype(jnp.float32)
        previous_h = jnp.concatenate([before_h[None], trace.hidden[:-1]]) * keep
        previous_c = jnp.concatenate([before_c[None], trace.cell[:-1]]) * keep

        def over_step(carry_bar: Carry, xs: Any) -> tuple[Carry, jax.Array]:
            h_bar, c_bar = carry_bar
            gates, cell, previous_c, hidden_bar, keep = xs
            i, f, g, o = jnp.split(gates, 4, -1)
            squashed = jnp.tanh(cell)
            h_bar = h_bar + hidden_bar
            c_bar = c_bar + h_bar * (0.5 * o + 0.5) * (1 - squashed**2)
            bars = [0.5 * g * c_bar, 0.5 * previous_c * c_bar, (0.5 * i + 0.5) * c_bar, 0.5 * squashed * h_bar]
            z_bar = jnp.concatenate(bars, -1) * (1 - gates**2)
            return (_product(z_bar, recurrent_t, dtype) * keep, (0.5 * f + 0.5) * c_bar * keep), z_bar

        steps = (trace.gates, trace.cell, previous_c, hidden_bar, keep)
        carry_bar, z_bar = lax.scan(over_step, carry_bar, steps, reverse=True)

        gates_bar += _weight_gradient(jnp.concatenate([previous_h, trace.features], -1), z_bar, dtype)
        features = trace.features[..., :encoded]
        features_bar = _product(z_bar, projection_t, dtype) * (features > 0)
        encoder_bar += _weight_gradient(inputs.integers.astype(jnp.float32), features_bar, dtype)
        return (carry_bar, encoder_bar, gates_bar), None

    loop = (last_bar, jnp.zeros_like(weights.encoder), jnp.zeros_like(weights.gates))
    xs = (*_chunked(chunk, (inputs, first)), trace, _chunked(chunk, hidden_bar), before_h, before_c)
    (carry_bar, encoder_bar, gates_bar), _ = lax.scan(over_chunk, loop, xs, reverse=True)
    return Weights(encoder_bar, gates_bar), carry_bar, None, None


_unroll_chunks.defvjp(_forward, _backward)


def _encode(encoder: jax.Array, inputs: Inputs, dtype: Any) -> jax.Array:
    """f32[..., E + X]"""
    embedded = jax.nn.relu(_product(inputs.integers.astype(jnp.float32), encoder, dtype))
    return jnp.concatenate([embedded, inputs.passed.astype(jnp.float32)], -1)


def _clear(carry: Carry, first: jax.Array) -> Carry:
    keep = 1.0 - first[:, None].astype(jnp.float32)
    return carry[0] * keep, carry[1] * keep


def _advance(gates: jax.Array, cell: jax.Array) -> Carry:
    """The cell and h after a step, from tanh of the halved gates f32[B, 4H]."""
    i, f, g, o = jnp.split(gates, 4, -1)
    cell = (0.5 * f + 0.5) * cell + (0.5 * i + 0.5) * g
    return cell, (0.5 * o + 0.5) * jnp.tanh(cell)


def _product(rows: jax.Array, matrix: jax.Array, dtype: Any) -> jax.Array:
    """f32[..., M] · f32[M, N], the operands rounded to `dtype`, the sums in float32."""
    if dtype is None:
        return rows @ matrix
    return jnp.matmul(rows.astype(dtype), matrix.astype(dtype), preferred_element_type=jnp.float32)


def _weight_gradient(rows: jax.Array, bars: jax.Array, dtype: Any) -> jax.Array:
    """Σ rowsᵀ · bars over all leading axes."""
    transposed = rows.reshape(-1, rows.shape[-1]).T
    if dtype is not None:
        # XLA on CPU multiplies a transposed left side in float32 unless it first becomes an array of its own
        transposed = lax.optimization_barrier(transposed.astype(dtype))
    return _product(transposed, bars.reshape(-1, bars.shape[-1]), dtype)


def _chunked(chunk: int, tree: Any) -> Any:
    """[T, ...] → [T/C, C, ...]"""
    return jax.tree.map(lambda x: x.reshape(-1, chunk, *x.shape[1:]), tree)


def _flat(x: jax.Array) -> jax.Array:
    """[T/C, C, ...] → [T, ...]"""
    return x.reshape(-1, *x.shape[2:])
