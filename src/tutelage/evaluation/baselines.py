"""Baselines: the network before training, random actions, and the optimal return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.evaluation.evaluate import Evaluator, LevelResult, draw_groups
from tutelage.learning.distributions import Beta, Categorical
from tutelage.learning.network import Head, Network, Params
from tutelage.learning.policy import fresh_params
from tutelage.types import Discrete, Domain, InputError, Key, Obs, Space, TestLevel


def uniform_network(actions: Space) -> Network:
    """A policy without parameters that draws every action with the same probability."""

    def apply(params: Params, carry: Any, obs: Obs, first: jax.Array) -> tuple[Any, Head]:
        if isinstance(actions, Discrete):
            return carry, Head(Categorical(jnp.zeros((*first.shape, actions.n))), jnp.zeros(first.shape))
        low, high = (
            jnp.broadcast_to(jnp.float32(bound), (*first.shape, len(bound))) for bound in (actions.low, actions.high)
        )
        return carry, Head(Beta(jnp.ones_like(low), jnp.ones_like(low), low, high), jnp.zeros(first.shape))

    return Network(lambda key, obs: (), lambda batch: (), apply)


def untrained_results(evaluator: Evaluator, network: Network, key: Key) -> list[LevelResult]:
    """Results of the network before training."""
    # another key than the evaluation's, so that the weights are independent of the levels
    params = jax.jit(partial(fresh_params, evaluator.domain, network))(jax.random.fold_in(key, 1))
    return evaluator(params, key)


def random_results(domain: Domain, levels: Sequence[TestLevel], episodes: int, key: Key) -> list[LevelResult]:
    """Results of uniformly drawn actions, on the levels that every policy plays under this key."""
    return Evaluator(domain, levels, uniform_network(domain.env.actions), episodes)((), key)


def with_optimal(results: list[LevelResult], optimal: Sequence[LevelResult] | None) -> list[LevelResult]:
    """Results with the optimal returns of their episodes, from `optimal_results` under the same key, if any."""
    if optimal is None:
        return results
    return [replace(result, optimal=best.returns) for result, best in zip(results, optimal, strict=True)]


def optimal_results(domain: Domain, levels: Sequence[TestLevel], episodes: int, key: Key) -> list[LevelResult]:
    """The optimal returns, by the domain's oracle, of the levels that every policy plays under this key."""
    if domain.optimal_return is None:
        raise InputError(f"{domain.name} has no oracle (Domain.optimal_return), so the optimal return is not known.")
    results = {}
    for draws in chain.from_iterable(draw_groups(levels, episodes)):
        oracle = partial(domain.optimal_return, draws.env)
        drawn, keys = draws(key)
        best = jnp.broadcast_to(jax.jit(oracle if draws.same_level else jax.vmap(oracle))(drawn), keys.shape)
        for level, returns in zip(draws.levels, draws.by_level(np.asarray(best)), strict=True):
            results[level.name] = LevelResult(level.name, returns, None, domain.solved_above, returns)
    return [results[level.name] for level in levels]
