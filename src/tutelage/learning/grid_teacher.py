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
from jax.nn.initializers import orthogonal, xavier_uniform

from tutelage.learning import lstm
from tutelage.learning.distributions import Categorical
from tutelage.learning.grid_student import VIEW_SCALE
from tutelage.learning.layers import ScannedLSTM, Tower
from tutelage.learning.network import Head, Network, from_flax

WINDOW = 3


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
        patches = _patches(obs.grid.astype(jnp.float32) / VIEW_SCALE)
        grid = nn.relu(nn.Dense(self.filters, kernel_init=xavier_uniform(), name="conv")(patches))
        time = jax.nn.one_hot(obs.time, self.steps)
        time = nn.Dense(self.embedding, kernel_init=orthogonal(2**0.5), name="time")(time)
        features = jnp.concatenate([grid.reshape(*first.shape, -1), time, obs.noise], -1)
        if self.hidden is not None:
            carry, features = ScannedLSTM(self.hidden, name="memory")(carry, (features, first))
        logits = Tower((*self.head, self.actions), 0.01, self.activation, name="actor")(features)
        if hasattr(obs, "mask"):
            logits = jnp.where(obs.mask, logits, -jnp.inf)
        value = Tower((*self.head, 1), 1.0, self.activation, name="critic")(features)
        return carry, Head(Categorical(logits), value[..., 0])


def grid_teacher(module: GridTeacher | None = None) -> Network:
    """The maze generator's network; without memory by default."""
    module = module or GridTeacher()
    hidden = module.hidden
    return from_flax(module) if hidden is None else from_flax(module, lambda batch: lstm.zeros(batch, hidden))


def _patches(grid: jax.Array) -> jax.Array:
    """f32[..., H, W, C] → f32[..., H − 2, W − 2, 9·C]: each inner cell with its neighbours."""
    rows, columns = (size - WINDOW + 1 for size in grid.shape[-3:-1])
    shifted = [grid[..., i : i + rows, j : j + columns, :] for i in range(WINDOW) for j in range(WINDOW)]
    return jnp.concatenate(shifted, -1)
