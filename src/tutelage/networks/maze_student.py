"""The maze student of the paper's appendix: conv 3×3×16 → (⊕ direction → 5) → LSTM 256 → policy and value heads.

Without an LSTM (`hidden=None`) the heads read the features of the present step alone. With `dense` units, one fully
connected layer reads the whole view in place of the convolution: fewer features, so that a step takes half the time.

`MazeStudent` is the plain flax module. `maze_student` is the network to use: the same parameters and the same function,
evaluated by the fast core of `lstm.py`. Besides that core, three things make it fast on a CPU: the convolution over the
small integer view is one product with a Toeplitz matrix, the direction's embedding and all biases are folded into the
rows that the direction's one-hot selects, and both heads are one product per layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.nn.initializers import orthogonal, xavier_uniform
from jax.scipy.linalg import block_diag

from tutelage.learning.distributions import Categorical
from tutelage.learning.network import Head, Network, Params, from_flax
from tutelage.networks import convolution, lstm
from tutelage.networks.layers import MLP, ScannedLSTM, check_sizes, mlp_layers

VIEW_SCALE = 10.0
"""MiniGrid's codes are divided by this before the convolution."""

DIRECTIONS = 4


class MazeStudent(nn.Module):
    """Observations have `image` u8[T, B, V, V, C] and `direction` u8[T, B]."""

    actions: int = 7
    filters: int = 16
    dense: int | None = None
    """Units of a fully connected layer over the view; None for the convolution."""
    embedding: int = 5
    hidden: int | None = 256
    """Size of the LSTM; None for a student that is not recurrent."""
    head: Sequence[int] = (32, 32)
    activation: Callable[[jax.Array], jax.Array] = nn.relu

    @nn.compact
    def __call__(self, carry: lstm.Carry, obs: Any, first: jax.Array) -> tuple[lstm.Carry, Head]:
        """(carry, obs, first bool[T, B]) → (carry, Head)."""
        view = obs.image.astype(jnp.float32) / VIEW_SCALE
        if self.dense is None:
            view = nn.Conv(self.filters, (3, 3), padding="VALID", kernel_init=xavier_uniform(), name="conv")(view)
        else:
            view = view.reshape(*view.shape[:2], -1)
            view = nn.Dense(self.dense, kernel_init=orthogonal(2**0.5), name="dense")(view)
        view = nn.relu(view).reshape(*view.shape[:2], -1)
        direction = jax.nn.one_hot(obs.direction, DIRECTIONS)
        direction = nn.Dense(self.embedding, kernel_init=orthogonal(2**0.5), name="direction")(direction)
        features = jnp.concatenate([view, direction], -1)
        if self.hidden is not None:
            carry, features = ScannedLSTM(self.hidden, name="memory")(carry, (features, first))
        logits = MLP((*self.head, self.actions), 0.01, self.activation, name="actor")(features)
        value = MLP((*self.head, 1), 1.0, self.activation, name="critic")(features)
        return carry, Head(Categorical(logits), value[..., 0])


Layers = tuple[tuple[jax.Array, jax.Array], ...]
"""(kernel, bias) of each layer of both heads side by side; the first A outputs of the last one are logits."""


class _Packed(NamedTuple):
    lstm: lstm.Weights
    heads: Layers


def plain_maze_student(module: MazeStudent) -> Network:
    """The module as it stands, differentiated by JAX: the reference for `maze_student`."""
    return from_flax(module, lambda batch: () if module.hidden is None else lstm.zero_carry(batch, module.hidden))


def maze_student(module: MazeStudent | None = None, *, chunk: int = 32, dtype: Any = None) -> Network:
    """The maze student, fast; the paper's by default. `chunk` and `dtype` (such as bfloat16) are `lstm.unroll`'s."""
    module = module or MazeStudent()
    check_sizes(module, "filters", "dense", "embedding", "hidden", "head")
    plain = plain_maze_student(module)
    if module.hidden is None:
        return plain._replace(apply=partial(_apply_feedforward, module))

    def pack(params: Params) -> _Packed:
        cell = params["memory"]["lstm"]
        inputs = jnp.concatenate([cell[f"i{gate}"]["kernel"] for gate in "ifgo"], -1)
        recurrent = jnp.concatenate([cell[f"h{gate}"]["kernel"] for gate in "ifgo"], -1)
        bias = jnp.concatenate([cell[f"h{gate}"]["bias"] for gate in "ifgo"], -1)
        from_view, from_direction = inputs[: -module.embedding], inputs[-module.embedding :]
        embedding = params["direction"]["kernel"] + params["direction"]["bias"]
        gates = lstm.halve(jnp.concatenate([recurrent, from_view, embedding @ from_direction + bias]))
        return _Packed(lstm.Weights(_view_matrix(params, len(from_view)), gates), _side_by_side(params))

    def apply(weights: _Packed, carry: lstm.Carry, obs: Any, first: jax.Array) -> tuple[lstm.Carry, Head]:
        ones = jnp.ones((*first.shape, 1), obs.image.dtype)
        inputs = lstm.Inputs(
            integers=jnp.concatenate([obs.image.reshape(*first.shape, -1), ones], -1),
            passed=jax.nn.one_hot(obs.direction, DIRECTIONS, dtype=jnp.uint8),
        )
        carry, h = lstm.unroll(weights.lstm, carry, inputs, first, chunk=chunk, dtype=dtype)
        return carry, _heads(module, weights.heads, h)

    return Network(plain.init, plain.initial_carry, apply, pack)


def _apply_feedforward(module: MazeStudent, params: Params, carry: Any, obs: Any, first: jax.Array) -> tuple[Any, Head]:
    if module.dense is None:
        conv = convolution.Layer(params["conv"]["kernel"] / VIEW_SCALE, params["conv"]["bias"], stride=1)
        view = convolution.stack([conv], obs.image.reshape(-1, *obs.image.shape[2:])).reshape(*first.shape, -1)
    else:
        view = jnp.concatenate([obs.image.reshape(*first.shape, -1), jnp.ones((*first.shape, 1))], -1)
        view = nn.relu(view @ _view_matrix(params, module.dense))
    direction = jax.nn.one_hot(obs.direction, DIRECTIONS) @ params["direction"]["kernel"] + params["direction"]["bias"]
    return carry, _heads(module, _side_by_side(params), jnp.concatenate([view, direction], -1))


def _heads(module: MazeStudent, layers: Layers, features: jax.Array) -> Head:
    """Policy and value from features f32[T, B, F]."""
    out = features
    for i, (kernel, bias) in enumerate(layers):
        out = (module.activation(out) if i > 0 else out) @ kernel + bias
    return Head(Categorical(out[..., :-1]), out[..., -1])


def _view_matrix(params: Params, features: int) -> jax.Array:
    """The layer over the view's small integers as a matrix f32[V·V·C + 1, features]; the last row is the bias."""
    if "dense" in params:
        return jnp.concatenate([params["dense"]["kernel"] / VIEW_SCALE, params["dense"]["bias"][None]])
    filters = params["conv"]["bias"].size
    return _toeplitz(params["conv"], round((features / filters) ** 0.5) + 2)


def _toeplitz(conv: Params, side: int) -> jax.Array:
    """The convolution over a V×V view (then scaled) as a matrix f32[V·V·C + 1, P·P·F]; the last row is the bias."""
    kernel = conv["kernel"] / VIEW_SCALE  # [3, 3, C, F]
    window, _, channels, filters = kernel.shape
    positions = side - window + 1
    # touches[k, y, p]: output position p reads input y through row k of the kernel
    y, p = jnp.arange(side)[:, None], jnp.arange(positions)
    touches = jnp.stack([y == p + k for k in range(window)]).astype(kernel.dtype)
    matrix = jnp.einsum("iyp,jxq,ijcf->yxcpqf", touches, touches, kernel)
    matrix = matrix.reshape(side * side * channels, positions * positions * filters)
    return jnp.concatenate([matrix, jnp.tile(conv["bias"], positions**2)[None]])


def _side_by_side(params: Params) -> Layers:
    """Both heads' layers as one product each: the first reads the same input, the others are block-diagonal."""
    layers: list[tuple[jax.Array, jax.Array]] = []
    for both in zip(mlp_layers(params["actor"]), mlp_layers(params["critic"]), strict=True):
        kernels, biases = ([head[kind] for head in both] for kind in ("kernel", "bias"))
        kernel = block_diag(*kernels) if layers else jnp.concatenate(kernels, -1)
        layers.append((kernel, jnp.concatenate(biases)))
    return tuple(layers)
