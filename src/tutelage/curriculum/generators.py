"""Generators: where new levels come from (the paper's first, slow teacher).

A generator is three functions, optax-shaped. `uniform` and `fixed` draw; `teacher` is a policy that builds levels step
by step in the design's editor and learns by PPO, rewarded at its last step with the utility of what it built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tutelage.learning import ppo as learning
from tutelage.learning.network import Network
from tutelage.learning.ppo import PPO, Metrics
from tutelage.learning.rollout import collect_rollout
from tutelage.types import Design, Key, Level


class Generator(NamedTuple):
    """A source of levels, maybe one that learns."""

    init: Callable[[Key], Any]
    """A key to the generator's state."""
    propose: Callable[[Any, Key], tuple[Level, Any]]
    """(state, keys [B]) → each worker's queue of levels [B, N, ...], and a trace to learn from."""
    learn: Callable[[Any, Any, jax.Array, Key], tuple[Any, Metrics]]
    """(state, trace, utility f32[B], key) → (state, metrics)."""


def _learns_nothing(state: Any, trace: Any, utility: jax.Array, key: Key) -> tuple[Any, Metrics]:
    return state, {}


def uniform(design: Design, queue: int = 1) -> Generator:
    """Domain randomisation: a queue of fresh draws for each worker (see `rollout`)."""

    def propose(state: Any, keys: Key) -> tuple[Level, Any]:
        return jax.vmap(lambda key: jax.vmap(design.sample)(jax.random.split(key, queue)))(keys), ()

    return Generator(lambda key: (), propose, _learns_nothing)


def fixed(levels: Level, queue: int = 1) -> Generator:
    """Draw each worker's queue from a given set of levels, leaves [M, ...]."""
    size = jax.tree.leaves(levels)[0].shape[0]

    def propose(state: Any, keys: Key) -> tuple[Level, Any]:
        which = jax.vmap(lambda key: jax.random.randint(key, (queue,), 0, size))(keys)
        return jax.tree.map(lambda x: jnp.asarray(x)[which], levels), ()

    return Generator(lambda key: (), propose, _learns_nothing)


def teacher(design: Design, network: Network, ppo: PPO) -> Generator:
    """A policy that builds one level per worker in the design's editor."""
    editor = design.editor

    def init(key: Key) -> Any:
        obs = jax.eval_shape(lambda: editor.reset(key, editor.load(()))[1])
        return learning.init(ppo, network, key, jax.tree.map(lambda x: jnp.zeros((1, 1, *x.shape), x.dtype), obs))

    def propose(learner: learning.Learner, keys: Key) -> tuple[Level, Any]:
        weights = network.pack(learner.params)
        play_keys, build_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        rollout, state = collect_rollout(editor, network, weights, play_keys, (), editor.horizon)
        levels = jax.vmap(design.build)(build_keys, state)
        return jax.tree.map(lambda x: x[:, None], levels), rollout

    def learn(learner: learning.Learner, rollout: Any, utility: jax.Array, key: Key) -> tuple[Any, Metrics]:
        rollout = rollout._replace(reward=jnp.zeros_like(rollout.reward).at[-1].set(utility))
        learner = learning.update_return_stats(ppo, learner, rollout)
        return learning.update(ppo, network, learner, rollout, learning.estimate(ppo, learner, rollout), key)

    return Generator(init, propose, learn)
