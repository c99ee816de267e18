"""A trained policy outside of training: acts on single observations."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tutelage.learning.network import Carry, Network, Packed, Params
from tutelage.types import Action, Domain, Key, Obs


class Policy:
    """Acts on single observations, as they come from one environment.

    carry = policy.initial_carry()
    action, carry = policy.act(obs, carry, key)
    """

    def __init__(self, network: Network, params: Params) -> None:
        """A network and its learned parameters."""
        self.network, self.params = network, params
        self.weights = jax.jit(network.pack)(params)
        self._act = jax.jit(self._acts, static_argnames="greedy")

    def initial_carry(self) -> Carry:
        """The carry at the start of an episode."""
        return self.network.initial_carry(1)

    def act(self, obs: Obs, carry: Carry, key: Key | None = None) -> tuple[Action, Carry]:
        """Sample an action, or take the greedy one if there is no key. Also returns the next carry."""
        return self._act(self.weights, carry, obs, jax.random.key(0) if key is None else key, greedy=key is None)

    def _acts(self, weights: Packed, carry: Carry, obs: Obs, key: Key, *, greedy: bool) -> tuple[Action, Carry]:
        carry, head = self.network.step(weights, carry, jax.tree.map(lambda x: x[None], obs), jnp.zeros(1, bool))
        policy = jax.tree.map(lambda x: x[0], head.policy)
        return policy.mode() if greedy else policy.sample(key), carry


def fresh_params(domain: Domain, network: Network, key: Key) -> Params:
    """Untrained parameters."""
    _, obs = domain.env.reset(key, domain.env.load(domain.design.sample(key)))
    return network.init(key, jax.tree.map(lambda x: x[None, None], obs))
