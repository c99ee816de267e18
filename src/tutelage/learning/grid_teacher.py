"""The maze generator of the paper's appendix: conv 3×3×128 over the grid ⊕ time → 10 ⊕ noise → (LSTM 256) → heads.

The convolution is written as a product with the grid's 3×3 patches: XLA on CPU differentiates that several times faster
than `lax.conv`, and the grid is small integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.nn.initializers import orthogonal, xavier_uniform

from tutelage.learning import lstm
from tutelage.learning.distributions import Categorical
from tutelage.learning.grid_student import VIEW_SCALE
from tutelage.learning.layers import ScannedLSTM, Tower
from tutelage.learning.network import Head, Network, Params, from_flax
from tutelage.learning.projection import patches, project


class GridTeacher(nn.Module):
    """Observations have `grid` u8[T, B, H, W, C], `time` i32[T, B], `noise` f32[T, B, Z]; maybe `mask` bool[T, B, A]"""

    actions: int = 169
    steps: int = 27
    """Steps of an editing episode: the time step is a one-hot of this size."""
    filters: int = 128
    embedding: int = 10
    hidden: int | None = None
    """Size of the LSTM; None for a generator without memory."""
    head: Sequence[int] = (32, 32)
    activation: Callable[[jax.Array], jax.Array] = nn.relu

    @nn.compact
    def __call__(self, carry: Any, obs: Any, first: jax.Array) -> tuple[Any, Head]:
        """(carry, obs, first bool[T, B]) → (carry, Head)."""
        grid = patches(obs.grid.astype(jnp.float32) / VIEW_SCALE)
        grid = nn.relu(nn.Dense(self.filters, kernel_init=xavier_uniform(), name="conv")(grid))
        time = jax.nn.one_hot(obs.time, self.steps)
        time = nn.Dense(self.embedding, kernel_init=orthogonal(2**0.5), name="time")(time)
        features = jnp.concatenate([grid.reshape(*first.shape, -1), time, obs.noise], -1)
        if self.hidden is not None:
            carry, features = ScannedLSTM(self.hidden, name="memory")(carry, (features, first))
        logits, value = self.tower("actor")(features), self.tower("critic")(features)
        return carry, _head(obs, logits, value)

    @nn.nowrap
    def tower(self, name: str) -> Tower:
        """One of the heads: `actor` or `critic`."""
        outputs, scale = (self.actions, 0.01) if name == "actor" else (1, 1.0)
        return Tower((*self.head, outputs), scale, self.activation, name=name)


def plain_grid_teacher(module: GridTeacher) -> Network:
    """The module as it stands, differentiated by JAX: the reference for `grid_teacher`."""
    hidden = module.hidden
    return from_flax(module) if hidden is None else from_flax(module, lambda batch: lstm.zeros(batch, hidden))


def grid_teacher(module: GridTeacher | None = None) -> Network:
    """The maze generator's network, fast; without memory by default."""
    module = module or GridTeacher()
    plain = plain_grid_teacher(module)
    if module.hidden is None:
        return plain

    def apply(params: Params, carry: lstm.Carry, obs: Any, first: jax.Array) -> tuple[lstm.Carry, Head]:
        cell = params["memory"]["lstm"]
        kernels = tuple(cell[f"i{gate}"]["kernel"] for gate in "ifgo")
        recurrent = jnp.concatenate([cell[f"h{gate}"]["kernel"] for gate in "ifgo"], -1)
        bias = jnp.concatenate([cell[f"h{gate}"]["bias"] for gate in "ifgo"], -1)
        encoder = jnp.concatenate([params["conv"]["kernel"] / VIEW_SCALE, params["conv"]["bias"][None]])
        time = jax.nn.one_hot(obs.time, module.steps) @ params["time"]["kernel"] + params["time"]["bias"]
        passed = jnp.concatenate([time, obs.noise], -1)
        if len(first) == 1:
            grid = jax.nn.relu(patches(obs.grid.astype(jnp.float32)) @ encoder[:-1] + encoder[-1])
            features = jnp.concatenate([grid.reshape(*first.shape, -1), passed], -1)
            projected = jnp.concatenate([features @ kernel for kernel in kernels], -1)
        else:
            projected = project(encoder, kernels, obs.grid, passed)

        def over_step(carry: lstm.Carry, xs: tuple[jax.Array, jax.Array]) -> tuple[lstm.Carry, jax.Array]:
            projected, first = xs
            h, c = (jnp.where(first[:, None], 0.0, x) for x in carry)
            i, f, g, o = jnp.split(projected + h @ recurrent, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        carry, h = lax.scan(over_step, carry, (projected + bias, first))
        logits, value = (module.tower(name).apply({"params": params[name]}, h) for name in ("actor", "critic"))
        return carry, _head(obs, logits, value)

    return Network(plain.init, plain.carry, apply)


def _head(obs: Any, logits: jax.Array, value: jax.Array) -> Head:
    """Logits f32[T, B, A], but −∞ where a mask forbids the action; values f32[T, B, 1]."""
    if hasattr(obs, "mask"):
        logits = jnp.where(obs.mask, logits, -jnp.inf)
    return Head(Categorical(logits), value[..., 0])
