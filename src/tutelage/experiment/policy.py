"""A trained student outside of training: its file, and one that acts.

The file is safetensors: numbers and a few words, never code. Tensors are named by their paths among the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from tutelage.experiment import checkpoints
from tutelage.learning.network import Network, Packed, Params
from tutelage.types import Action, Domain, InputError, Key, Obs


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


def save_policy(path: str | Path, params: Params, about: Mapping[str, str]) -> None:
    """Write parameters, and words about them, to a file that is whole or not there."""
    checkpoints.write(Path(path), params, dict(about))


def load_policy(path: str | Path, like: Params) -> Params:
    """Read parameters shaped `like` others, of which only shapes and types are looked at.

    Raises:
        InputError: if there is no such file, if it is damaged, or if it does not fit.
    """
    if not Path(path).exists():
        raise InputError(f"{path} is not there yet: a run has a policy from its first checkpoint on.")
    return checkpoints.fit(checkpoints.read(Path(path)).arrays, like, Path(path))
