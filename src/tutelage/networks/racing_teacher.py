"""The CarRacing teacher of the paper's appendix: convolutions over the sketch ⊕ time step ⊕ noise → policy and value.

It sees the sketch f32[T, B, 10, 10], the `time` i32[T, B], fresh `noise` f32[T, B, Z] and a `mask` bool[T, B, A] of
the cells that it may still choose. Two 2×2 convolutions have 8 and 16 channels, with a ReLU after each (the released
code has one only after the second); the time step becomes 8 numbers; a hidden layer of 256 comes before the logits. The
value is linear in the features, as in the released code. It is not recurrent: the sketch shows all earlier actions.

For an editor that takes coordinates instead of cells, the policy is a Beta distribution for each of them, with
α, β = 1 + softplus as the student's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.nn.initializers import orthogonal, xavier_uniform

from tutelage.learning.distributions import Categorical
from tutelage.learning.network import Head, Network, from_flax
from tutelage.networks.layers import MLP, beta_policy, check_sizes
from tutelage.types import Discrete, Space


class RacingTeacher(nn.Module):
    """Observations have `sketch`, `time`, `noise` and `mask`."""

    actions: Space = Discrete(100)
    steps: int = 12
    """Steps of an editing episode: the time step is a one-hot of this size."""
    channels: Sequence[int] = (8, 16)
    embedding: int = 8
    hidden: int = 256

    @nn.compact
    def __call__(self, carry: Any, obs: Any, first: jax.Array) -> tuple[Any, Head]:
        """(carry, obs, first bool[T, B]) → (carry, Head)."""
        sketch = obs.sketch[..., None]
        for i, channels in enumerate(self.channels):
            conv = nn.Conv(channels, (2, 2), padding="VALID", kernel_init=xavier_uniform(), name=f"conv{i}")
            sketch = nn.relu(conv(sketch))
        time = jax.nn.one_hot(obs.time, self.steps)
        time = nn.Dense(self.embedding, kernel_init=orthogonal(2**0.5), name="time")(time)
        features = jnp.concatenate([sketch.reshape(*first.shape, -1), time, obs.noise], -1)
        outputs = self.actions.n if isinstance(self.actions, Discrete) else 2 * len(self.actions.low)
        out = MLP((self.hidden, outputs), 0.01, nn.relu, name="actor")(features)
        value = MLP((1,), 1.0, nn.relu, name="critic")(features)
        if isinstance(self.actions, Discrete):
            return carry, Head(Categorical(jnp.where(obs.mask, out, -jnp.inf)), value[..., 0])
        alpha, beta = jnp.split(out, 2, -1)
        return carry, Head(beta_policy(alpha, beta, self.actions), value[..., 0])


def racing_teacher(module: RacingTeacher | None = None) -> Network:
    """The CarRacing teacher's network."""
    module = module or RacingTeacher()
    check_sizes(module, "channels", "embedding", "hidden")
    return from_flax(module)
