"""How much there is to learn from a level: estimates of regret, as pure functions of what one student did on it.

A score takes the `Evidence` of one level and returns one number; callers vmap. Regret itself,
max_π V(π, θ) − V(student, θ), needs an optimal policy, which each score replaces by an estimate. Section 4.2 of the
paper compares the two it uses, MaxMC and the positive value loss.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from tutelage.learning.returns import Episodes


class Evidence(NamedTuple):
    """What one student did on one level, in the units of reward."""

    first: Bool[Array, " T"]
    """Which steps are the first of an episode."""
    value: Float[Array, " T"]
    """V(s_t), the student's own estimate."""
    advantage: Float[Array, " T"]
    """Generalized advantage estimates."""
    episodes: Episodes
    """Scalars: the episodes of this rollout."""
    best_return: Float[Array, ""]
    """R_max, the best on this level so far, this rollout included (discounted with `Method.discounted_returns`)."""
    regret: Float[Array, ""]
    """Between two students (`utilities.regret`); NaN unless both played the level (`Need.BOTH_STUDENTS`)."""
    optimal_return: Float[Array, ""]
    """From an oracle; NaN if the domain has none (`Need.ORACLE`)."""


Score = Callable[[Evidence], Float[Array, ""]]


class Need(Enum):
    """What a score or a utility needs besides one student's trajectory. Without it, values would be NaN or wrong."""

    BOTH_STUDENTS = auto()
    """Protagonist and antagonist on the same level: `students=2`, and only for new levels."""
    ORACLE = auto()
    """The optimal return, from `Domain.optimal_return`."""
    SOLVED = auto()
    """What counts as solved, from `Domain.solved_above`."""


F = TypeVar("F", bound=Callable[..., Any])


def needs(*what: Need) -> Callable[[F], F]:
    """Declare what a score or a utility needs, so that a method or a domain without it is refused at once.

    @needs(Need.ORACLE)
    def relative_regret(evidence: Evidence) -> jax.Array:
        return 1 - evidence.episodes.mean_return / evidence.optimal_return
    """

    def declare(function: F) -> F:
        function.needs = frozenset(what)  # type: ignore[attr-defined]
        return function

    return declare


def needs_of(function: Callable[..., Any] | None) -> frozenset[Need]:
    """What a score or a utility declares; `functools.partial` keeps the declaration of the function it wraps."""
    return getattr(getattr(function, "func", function), "needs", frozenset())


def max_mc(evidence: Evidence) -> Float[Array, ""]:
    """Maximum Monte Carlo: (1/T) Σ_t (R_max − V(s_t)), for sparse rewards at the end of an episode (section 4.2)."""
    return jnp.mean(evidence.best_return - evidence.value)


def max_mc_start(evidence: Evidence) -> Float[Array, ""]:
    """MaxMC for dense rewards: the mean of R_max − V(s_0) over the first states of episodes (section 4.2)."""
    return jnp.sum((evidence.best_return - evidence.value) * evidence.first) / evidence.first.sum()


def max_mc_start_clipped(evidence: Evidence) -> Float[Array, ""]:
    """The same with max(0, R_max − V(s_0)), as in the released code."""
    return max_mc_start(evidence._replace(value=jnp.minimum(evidence.value, evidence.best_return)))


def positive_value_loss(evidence: Evidence) -> Float[Array, ""]:
    """(1/T) Σ_t max(A_t, 0): by how much returns were better than expected (section 4.2)."""
    return jnp.mean(jnp.maximum(evidence.advantage, 0.0))


def l1_value_loss(evidence: Evidence) -> Float[Array, ""]:
    """(1/T) Σ_t |A_t|: the score of the first PLR paper (Jiang, Grefenstette and Rocktäschel, 2021)."""
    return jnp.mean(jnp.abs(evidence.advantage))


@needs(Need.BOTH_STUDENTS)
def paired_regret(evidence: Evidence) -> Float[Array, ""]:
    """The regret that PAIRED's teacher maximizes."""
    return evidence.regret


@needs(Need.ORACLE)
def true_regret(evidence: Evidence) -> Float[Array, ""]:
    """The optimal return − the student's mean return."""
    return evidence.optimal_return - evidence.episodes.mean_return


@needs(Need.SOLVED)
def learnability(evidence: Evidence) -> Float[Array, ""]:
    """p(1 − p) with p the share of episodes solved: highest for levels that are solved half of the time."""
    return evidence.episodes.solved * (1 - evidence.episodes.solved)
