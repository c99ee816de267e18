"""What a policy network is: four functions, optax-shaped, so that any library's networks drop in.

A network maps observations to a distribution over actions and a value. It may be recurrent: its carry is cleared where
an episode begins. One `apply` serves both uses: acting (T = 1, inside a rollout's scan) and learning (whole rollouts).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tutelage.learning.distributions import Distribution
from tutelage.types import Key, Obs

Params = Any
"""A pytree of weights: what is learned, saved and exported."""

Packed = Any
"""Weights as `apply` wants them."""


class Head(NamedTuple):
    """A network's output."""

    policy: Distribution  # leaves [T, B, ...]
    value: jax.Array  # f32[T, B]


def _as_they_are(params: Params) -> Packed:
    return params


class Network(NamedTuple):
    """A policy and its value function."""

    init: Callable[[Key, Obs], Params]
    """Parameters, given an example observation whose leaves are [T, B, ...]."""
    carry: Callable[[int], Any]
    """The cleared recurrent carry of B workers; the empty tuple if the network has no memory."""
    apply: Callable[[Packed, Any, Obs, jax.Array], tuple[Any, Head]]
    """(weights, carry, obs [T, B, ...], first bool[T, B]) → (carry after the last step, Head)."""
    pack: Callable[[Params], Packed] = _as_they_are
    """Rearrange the parameters once for many calls of `apply`; differentiable."""

    @property
    def recurrent(self) -> bool:
        """Whether what it says now depends on what it saw before."""
        return bool(jax.tree.leaves(jax.eval_shape(lambda: self.carry(1))))


def from_flax(module: Any, carry: Callable[[int], Any] = lambda _: ()) -> Network:
    """A flax module whose `__call__(carry, obs, first) -> (carry, Head)` works on leaves [T, B, ...]."""

    def init(key: Key, obs: Obs) -> Params:
        length, batch = jax.tree.leaves(obs)[0].shape[:2]
        first = jnp.zeros((length, batch), bool)
        return module.init(key, carry(batch), obs, first)["params"]

    def apply(params: Params, carry: Any, obs: Obs, first: jax.Array) -> tuple[Any, Head]:
        return module.apply({"params": params}, carry, obs, first)

    return Network(init, carry, apply)
