"""A trained policy outside of training: acts on single observations."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tutelage.learning.network import Network, Packed, Params
from tutelage.types import Action, Domain, Key, Obs


class Policy:
    """Acts on single observations, as they come from one environment.

    memory = policy.start()
    action, memory = policy.act(obs, memory, key)
    """

    def __init__(self, network: Network, params: Params) -> None:
        """A network and what it learned."""
        self.network, self.params = network, params
        self.weights = jax.jit(network.pack)(params)
        self._act = jax.jit(partial(act, network), static_argnames="greedy")
        self._nothing = jax.random.key(0)

    def start(self) -> Any:
        """The memory with which an episode begins."""
        return self.network.carry(1)

    def act(self, obs: Obs, memory: Any, key: Key | None = None) -> tuple[Action, Any]:
        """Draw an action; without a key, take the likeliest. Also returns what to remember."""
        return self._act(self.weights, memory, obs, self._nothing if key is None else key, greedy=key is None)


def act(
    network: Network, weights: Packed, memory: Any, obs: Obs, key: Key, *, greedy: bool = False
) -> tuple[Action, Any]:
    """One action on one observation, and the memory [1, ...] after it; not compiled, to be used in loops that are."""
    memory, head = network.apply(weights, memory, jax.tree.map(lambda x: x[None, None], obs), jnp.zeros((1, 1), bool))
    policy = jax.tree.map(lambda x: x[0, 0], head.policy)
    return policy.mode() if greedy else policy.sample(key), memory


def fresh_params(domain: Domain, network: Network, key: Key) -> Params:
    """Parameters that have learned nothing yet."""
    _, obs = domain.env.reset(key, domain.env.load(domain.design.sample(key)))
    return network.init(key, jax.tree.map(lambda x: x[None, None], obs))
