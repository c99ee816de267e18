"""Layers that several networks share, as flax modules, and a check of sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.nn.initializers import orthogonal

from tutelage.learning.distributions import Beta
from tutelage.learning.network import Params
from tutelage.networks import lstm
from tutelage.types import Box, InputError


class ScannedLSTM(nn.Module):
    """A plain LSTM cell scanned over time, cleared where an episode begins."""

    hidden: int

    @nn.compact
    def __call__(self, carry: lstm.Carry, xs: tuple[jax.Array, jax.Array]) -> tuple[lstm.Carry, jax.Array]:
        """(carry, (features f32[T, B, F], first bool[T, B])) → (carry, h f32[T, B, H])."""

        def cell(module: nn.Module, carry: lstm.Carry, xs: tuple[jax.Array, jax.Array]) -> Any:
            features, first = xs
            h, c = (jnp.where(first[:, None], 0.0, x) for x in carry)
            initial = {"kernel_init": orthogonal(), "recurrent_kernel_init": orthogonal()}
            lstm_cell = nn.OptimizedLSTMCell(self.hidden, **initial, parent=module, name="lstm")
            (c, h), out = lstm_cell((c, h), features)
            return (h, c), out

        return nn.scan(cell, variable_broadcast="params", split_rngs={"params": False})(self, carry, xs)


class MLP(nn.Module):
    """Fully connected layers; the last one is linear, with orthogonal initial weights of gain `scale`."""

    sizes: Sequence[int]
    scale: float
    activation: Callable[[jax.Array], jax.Array]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """f32[..., F] → f32[..., sizes[-1]]"""
        for i, size in enumerate(self.sizes[:-1]):
            x = self.activation(nn.Dense(size, kernel_init=orthogonal(2**0.5), name=f"layer{i}")(x))
        return nn.Dense(self.sizes[-1], kernel_init=orthogonal(self.scale), name="out")(x)


def mlp_layers(params: Params) -> list[Params]:
    """The parameters of an MLP's layers, in order."""
    return [params[f"layer{i}"] for i in range(len(params) - 1)] + [params["out"]]


def beta_policy(alpha: jax.Array, beta: jax.Array, actions: Box) -> Beta:
    """Beta distributions over a box from unbounded outputs f32[..., D], with α, β = 1 + softplus."""
    low, high = (jnp.broadcast_to(jnp.array(x), alpha.shape) for x in (actions.low, actions.high))
    return Beta(1 + nn.softplus(alpha), 1 + nn.softplus(beta), low, high)


def check_sizes(module: nn.Module, *names: str) -> None:
    """Refuse sizes of layers that are not positive; None stands for a layer that is left out."""
    for name in names:
        size = getattr(module, name)
        each = [] if size is None else [size] if isinstance(size, int) else size
        if any(units < 1 for units in each):
            raise InputError(f"{type(module).__name__} needs layers with at least one unit; got {name} = {size}.")
