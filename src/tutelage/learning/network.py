"""What a policy network is: pure functions, as in optax, so that networks of any library can be used.

A network maps observations to a distribution over actions and a value. It may be recurrent: its carry is cleared where
an episode begins. `apply` is used for acting (T = 1, inside a rollout's scan) and for learning (whole rollouts).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from tutelage.learning.distributions import Distribution
from tutelage.types import Key, Obs

Params = Any
"""A pytree of weights: what is learned, saved and exported."""

Packed = Any
"""Weights in the form that `apply` takes."""

Carry = Any
"""A recurrent network's state between two steps, leaves [B, ...]; the empty tuple if it is not recurrent."""


class Head(NamedTuple):
    """A network's output; leading axes [T, B] from `Network.apply`, [B] from `Network.step`."""

    policy: Distribution
    value: Float[Array, "*batch"]


def _identity(params: Params) -> Packed:
    return params


class Network(NamedTuple):
    """A policy and its value function."""

    init: Callable[[Key, Obs], Params]
    """Parameters, given an example observation whose leaves are [T, B, ...]."""
    initial_carry: Callable[[int], Carry]
    """The carry of B envs at the start of an episode."""
    apply: Callable[[Packed, Carry, Obs, Bool[Array, "T B"]], tuple[Carry, Head]]
    """(weights, carry, obs [T, B, ...], first bool[T, B]) → (carry after the last step, Head)."""
    pack: Callable[[Params], Packed] = _identity
    """Rearrange the parameters once for many calls of `apply`; differentiable."""
    block: int | None = None
    """For a network that is not recurrent: differentiate at most this many steps at once on a CPU, and add up, so that
    activations stay in the cache. None, or if such blocks cannot be equal: all at once."""

    @property
    def recurrent(self) -> bool:
        """Whether the output depends on earlier observations."""
        return bool(jax.tree.leaves(jax.eval_shape(lambda: self.initial_carry(1))))

    def step(self, weights: Packed, carry: Carry, obs: Obs, first: Bool[Array, " B"]) -> tuple[Carry, Head]:
        """`apply` on one step of B envs; leaves [B, ...]."""
        carry, head = self.apply(weights, carry, jax.tree.map(lambda x: x[None], obs), first[None])
        return carry, jax.tree.map(lambda x: x[0], head)


def from_flax(module: Any, initial_carry: Callable[[int], Carry] = lambda _: ()) -> Network:
    """A flax module whose `__call__(carry, obs, first) -> (carry, Head)` works on leaves [T, B, ...]."""

    def init(key: Key, obs: Obs) -> Params:
        length, batch = jax.tree.leaves(obs)[0].shape[:2]
        first = jnp.zeros((length, batch), bool)
        return module.init(key, initial_carry(batch), obs, first)["params"]

    def apply(params: Params, carry: Carry, obs: Obs, first: Bool[Array, "T B"]) -> tuple[Carry, Head]:
        return module.apply({"params": params}, carry, obs, first)

    return Network(init, initial_carry, apply)
