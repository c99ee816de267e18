"""The maze teacher of the paper's appendix: conv 3×3×128 over the grid ⊕ time → 10 ⊕ noise → (LSTM 256) → heads.

`MazeTeacher` is the plain flax module. The convolution is written as a product with the grid's 3×3 patches: XLA on CPU
differentiates that several times faster than `lax.conv`.

`maze_teacher` is the network to use: the same parameters and the same function. Nearly all work is the product of the
grid's 21,632 features with the next layer, of the LSTM (× 1,024) or of both heads (× 64). An editor changes one cell in
a step, which `projection.py` exploits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.nn.initializers import orthogonal, xavier_uniform

from tutelage.learning.distributions import Categorical
from tutelage.learning.network import Head, Network, Params, from_flax
from tutelage.networks import lstm, projection
from tutelage.networks.layers import MLP, ScannedLSTM, check_sizes, mlp_layers
from tutelage.networks.maze_student import VIEW_SCALE
from tutelage.types import InputError

SEQUENCE = 128
"""Fewer grids than this are treated as one step of several envs, not as a sequence of edits."""

CHANNELS = 3
"""Numbers in each cell of a grid: MiniGrid's code."""


class MazeTeacher(nn.Module):
    """Observations have `grid` u8[T, B, H, W, C], `time` i32[T, B], `noise` f32[T, B, Z]; maybe `mask` bool[T, B, A]"""

    actions: int = 169
    steps: int = 27
    """Steps of an editing episode: the time step is a one-hot of this size."""
    filters: int = 128
    embedding: int = 10
    hidden: int | None = None
    """Size of the LSTM; None for a teacher that is not recurrent."""
    head: Sequence[int] = (32, 32)
    activation: Callable[[jax.Array], jax.Array] = nn.relu

    @nn.compact
    def __call__(self, carry: Any, obs: Any, first: jax.Array) -> tuple[Any, Head]:
        """(carry, obs, first bool[T, B]) → (carry, Head)."""
        grid = projection.patches(obs.grid.astype(jnp.float32) / VIEW_SCALE)
        grid = nn.relu(nn.Dense(self.filters, kernel_init=xavier_uniform(), name="conv")(grid))
        time = jax.nn.one_hot(obs.time, self.steps)
        time = nn.Dense(self.embedding, kernel_init=orthogonal(2**0.5), name="time")(time)
        features = jnp.concatenate([grid.reshape(*first.shape, -1), time, obs.noise], -1)
        if self.hidden is not None:
            carry, features = ScannedLSTM(self.hidden, name="memory")(carry, (features, first))
        logits, value = self.mlp("actor")(features), self.mlp("critic")(features)
        return carry, _head(obs, logits, value)

    @nn.nowrap
    def mlp(self, name: str) -> MLP:
        """One of the heads: `actor` or `critic`."""
        outputs, scale = (self.actions, 0.01) if name == "actor" else (1, 1.0)
        return MLP((*self.head, outputs), scale, self.activation, name=name)


def plain_maze_teacher(module: MazeTeacher) -> Network:
    """The module as it stands, differentiated by JAX: the reference for `maze_teacher`."""
    return from_flax(module, lambda batch: () if module.hidden is None else lstm.zero_carry(batch, module.hidden))


class _Carry(NamedTuple):
    """The carry of a recurrent teacher. The projection's part is valid only with the weights that made it."""

    lstm: lstm.Carry
    projection: projection.Carry


class _Packed(NamedTuple):
    projection: projection.Weights
    time: Params
    recurrent: jax.Array  # f32[H, 4H]
    bias: jax.Array  # f32[4H]
    actor: Params
    critic: Params


def maze_teacher(module: MazeTeacher | None = None) -> Network:
    """The maze teacher, fast; not recurrent by default.

    A recurrent one takes grids that have one inner cell for each action.
    """
    module = module or MazeTeacher()
    check_sizes(module, "filters", "embedding", "hidden", "head")
    plain = plain_maze_teacher(module)
    hidden = module.hidden
    if hidden is None:
        return plain._replace(apply=partial(_apply_feedforward, module, plain))

    def initial_carry(batch: int) -> _Carry:
        grid = projection.zero_carry(batch, module.actions, CHANNELS, 4 * hidden)
        return _Carry(lstm.zero_carry(batch, hidden), grid)

    def pack(params: Params) -> _Packed:
        cell = params["memory"]["lstm"]
        # one array of all gates would be easier to use, but making it is a copy of 88 MB
        kernels = tuple(cell[f"i{gate}"]["kernel"] for gate in "ifgo")
        recurrent = jnp.concatenate([cell[f"h{gate}"]["kernel"] for gate in "ifgo"], -1)
        bias = jnp.concatenate([cell[f"h{gate}"]["bias"] for gate in "ifgo"])
        weights = projection.Weights(_encoder(params["conv"]), kernels)
        return _Packed(weights, params["time"], recurrent, bias, params["actor"], params["critic"])

    def apply(weights: _Packed, carry: _Carry, obs: Any, first: jax.Array) -> tuple[_Carry, Head]:
        if (obs.grid.shape[-3] - 2) * (obs.grid.shape[-2] - 2) != module.actions or obs.grid.shape[-1] != CHANNELS:
            raise InputError(
                f"A recurrent teacher takes grids with {CHANNELS} numbers in a cell and one inner cell for each of its "
                f"{module.actions} actions, not {obs.grid.shape[-3:]}; set `actions`, or use plain_maze_teacher."
            )
        passed = _passed(module, weights.time, obs)
        if len(first) == 1:
            projected, z = projection.step(weights.projection, carry.projection, obs.grid, passed, first)
        else:
            projected, z = projection.unroll(weights.projection, obs.grid, passed)
        recurrent, h = _scan_lstm(weights, carry.lstm, z, first)
        logits = module.mlp("actor").apply({"params": weights.actor}, h)
        value = module.mlp("critic").apply({"params": weights.critic}, h)
        return _Carry(recurrent, projected), _head(obs, logits, value)

    return Network(plain.init, initial_carry, apply, pack)


def _apply_feedforward(
    module: MazeTeacher, plain: Network, params: Params, carry: Any, obs: Any, first: jax.Array
) -> tuple[Any, Head]:
    """The same without an LSTM: the wide layer is the first of both heads, side by side."""
    if first.size < SEQUENCE:
        return plain.apply(params, carry, obs, first)
    heads = [mlp_layers(params[name]) for name in ("actor", "critic")]
    kernels = tuple(layers[0]["kernel"] for layers in heads)
    weights = projection.Weights(_encoder(params["conv"]), kernels)
    # PPO gives the steps of a feed-forward policy as one row, [1, T·B], env by env: neighbors differ by one edit
    row = len(first) == 1
    grid, passed = (jnp.swapaxes(x, 0, 1) if row else x for x in (obs.grid, _passed(module, params["time"], obs)))
    _, z = projection.unroll(weights, grid, passed)
    outputs = jnp.split(jnp.swapaxes(z, 0, 1) if row else z, [kernels[0].shape[1]], -1)
    for i, (first_layer, *others) in enumerate(heads):
        outputs[i] += first_layer["bias"]
        for layer in others:
            outputs[i] = module.activation(outputs[i]) @ layer["kernel"] + layer["bias"]
    return carry, _head(obs, *outputs)


def _encoder(conv: Params) -> jax.Array:
    """The convolution, for grids that are not scaled, as f32[9·C + 1, F]; the last row is the bias."""
    return jnp.concatenate([conv["kernel"] / VIEW_SCALE, conv["bias"][None]])


def _passed(module: MazeTeacher, time: Params, obs: Any) -> jax.Array:
    """The inputs other than the grid, f32[T, B, X]."""
    embedded = jax.nn.one_hot(obs.time, module.steps) @ time["kernel"] + time["bias"]
    return jnp.concatenate([embedded, obs.noise], -1)


def _scan_lstm(weights: _Packed, carry: lstm.Carry, z: jax.Array, first: jax.Array) -> tuple[lstm.Carry, jax.Array]:
    """The LSTM over projected inputs f32[T, B, 4H] → (carry, h f32[T, B, H])."""

    def over_step(carry: lstm.Carry, xs: tuple[jax.Array, jax.Array]) -> tuple[lstm.Carry, jax.Array]:
        z, first = xs
        h, c = (jnp.where(first[:, None], 0.0, x) for x in carry)
        i, f, g, o = jnp.split(z + h @ weights.recurrent, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(over_step, carry, (z + weights.bias, first))


def _head(obs: Any, logits: jax.Array, value: jax.Array) -> Head:
    """From logits f32[T, B, A], set to −∞ where the mask forbids the action, and values f32[T, B, 1]."""
    if hasattr(obs, "mask"):
        logits = jnp.where(obs.mask, logits, -jnp.inf)
    return Head(Categorical(logits), value[..., 0])
