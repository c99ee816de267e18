"""How much is there to learn from a level? Estimates of regret, as pure functions of what one student did on it.

A score takes the `Evidence` of one level and gives one number; callers vmap. Regret itself,
max_π V(π, θ) − V(student, θ), needs an optimal policy; each function says what it puts in that policy's place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tutelage.learning.returns import Episodes


class Evidence(NamedTuple):
    """What one student did on one level, in the units of reward."""

    first: jax.Array  # bool[T]: an episode begins with this step
    value: jax.Array  # f32[T]: V(s_t) as the student saw it
    advantage: jax.Array  # f32[T]: by generalised advantage estimation
    episodes: Episodes  # scalars: the episodes of this visit
    best_return: jax.Array  # f32[]: the best ever seen on this level, this visit's included
    regret: jax.Array  # f32[]: as two students show it (`utilities.regret`); NaN unless both played the level
    optimal_return: jax.Array  # f32[]: from an oracle; NaN where there is none


Score = Callable[[Evidence], jax.Array]


def max_mc(evidence: Evidence) -> jax.Array:
    """Maximum Monte Carlo: (1/T) Σ_t (R_max − V(s_t)), for sparse rewards given at an episode's end (section 3)."""
    return jnp.mean(evidence.best_return - evidence.value)


def max_mc_start(evidence: Evidence) -> jax.Array:
    """MaxMC for dense rewards, max(0, R_max − V(s_0)): only an episode's first state has all of it still to earn."""
    gap = jnp.maximum(evidence.best_return - evidence.value, 0.0)
    return jnp.sum(gap * evidence.first) / evidence.first.sum()


def positive_value_loss(evidence: Evidence) -> jax.Array:
    """(1/T) Σ_t max(A_t, 0): by how much returns were better than expected (section 3)."""
    return jnp.mean(jnp.maximum(evidence.advantage, 0.0))


def l1_value_loss(evidence: Evidence) -> jax.Array:
    """(1/T) Σ_t |A_t|: the score of the first PLR paper (Jiang, Grefenstette and Rocktäschel, 2021)."""
    return jnp.mean(jnp.abs(evidence.advantage))


def paired_regret(evidence: Evidence) -> jax.Array:
    """The regret that PAIRED's teacher maximises: needs two students on the same level."""
    return evidence.regret


def true_regret(evidence: Evidence) -> jax.Array:
    """The optimal return − the student's mean return: needs a domain with an oracle."""
    return evidence.optimal_return - evidence.episodes.mean_return


def learnability(evidence: Evidence) -> jax.Array:
    """p(1 − p) with p the share of episodes solved: highest for levels that are solved half of the time."""
    return evidence.episodes.solved * (1 - evidence.episodes.solved)
