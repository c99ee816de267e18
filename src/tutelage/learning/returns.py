"""Advantages (GAE), episodes' returns, and the running statistics that rewards are scaled by.

Pure functions on one env's trajectory [T]; callers vmap over envs.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from tutelage.learning import mesh


def gae(
    reward: Float[Array, " T"],
    value: Float[Array, " T"],
    terminated: Bool[Array, " T"],
    truncated: Bool[Array, " T"],
    truncation_value: Float[Array, " T"],
    last_value: Float[Array, ""],
    gamma: float,
    gae_lambda: float,
) -> Float[Array, " T"]:
    """Generalized advantage estimation over a trajectory that may hold many episodes.

        δ_t = r_t + γ·V'_t − V(s_t),   A_t = δ_t + γλ·A_{t+1}  (A_{t+1} = 0 across an episode's end)

    V'_t is 0 after termination, `truncation_value` where a time limit truncated the episode, `last_value` after the
    last step, else V(s_{t+1}).

    Args:
        reward, value, terminated, truncated: of each step.
        truncation_value: 0 where a time limit counts as an end.
        last_value: 0 if the rollout's end counts as an end.
        gamma: γ.
        gae_lambda: λ.

    Returns:
        The advantages; the value targets are these plus `value`.
    """
    following = jnp.append(value[1:], last_value)
    following = jnp.where(truncated, truncation_value, following) * ~terminated
    delta = reward + gamma * following - value
    continues = 1.0 - (terminated | truncated)

    def over_step(later: Array, xs: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, continues = xs
        advantage = delta + gamma * gae_lambda * continues * later
        return advantage, advantage

    return lax.scan(over_step, jnp.zeros_like(last_value), (delta, continues), reverse=True)[1]


class Episodes(NamedTuple):
    """The episodes of one env's trajectory. If none has ended, the running one counts as ended."""

    number: Int[Array, ""]
    mean_return: Float[Array, ""]
    best_return: Float[Array, ""]
    mean_length: Float[Array, ""]
    solved: Float[Array, ""]  # the share whose return is above a threshold


def endings(reward: Float[Array, " T"], done: Bool[Array, " T"]) -> tuple[Bool[Array, " T"], Float[Array, " T"]]:
    """Where the episodes of a trajectory end, and the running return of each.

    Args:
        reward: of each step.
        done: true at the last step of an episode.

    Returns:
        True at the end of each of the `Episodes`: `done`, or the last step if that is true nowhere.
        The undiscounted sum of rewards since the episode began; its return where it ends.
    """
    done = done.at[-1].set(done[-1] | ~done.any())
    return done, discounted_sums(reward, done, 1.0)


def discounted(reward: Float[Array, " T"], first: Bool[Array, " T"], gamma: float) -> Float[Array, " T"]:
    """γ^t r_t with t counted from the `first` step of each episode: rewards whose sum is the discounted return."""
    step = jnp.arange(reward.size)
    return reward * gamma ** (step - lax.cummax(jnp.where(first, step, 0)))


def episodes(reward: Float[Array, " T"], done: Bool[Array, " T"], solved_above: float = 0.0) -> Episodes:
    """Undiscounted returns of the episodes in a trajectory that starts with a reset.

    Args:
        reward: of each step.
        done: true at the last step of an episode.
        solved_above: an episode is solved if its return is greater.
    """
    done, totals = endings(reward, done)
    number = done.sum()
    last = jnp.max(jnp.where(done, jnp.arange(done.size), -1))
    return Episodes(
        number=number,
        mean_return=jnp.sum(totals * done) / number,
        best_return=jnp.max(jnp.where(done, totals, -jnp.inf)),
        mean_length=(last + 1) / number,
        solved=jnp.sum((totals > solved_above) & done) / number,
    )


class RunningMoments(NamedTuple):
    """Running moments of a stream of numbers."""

    number: Float[Array, "*S"]
    mean: Float[Array, "*S"]
    squares: Float[Array, "*S"]  # the sum of squared deviations from the mean

    @property
    def std(self) -> Float[Array, "*S"]:
        """The standard deviation; 1 before the first update."""
        return jnp.where(self.number > 0, jnp.sqrt(self.squares / jnp.maximum(self.number, 1.0) + 1e-8), 1.0)


def zero_moments() -> RunningMoments:
    """The moments of an empty stream."""
    return RunningMoments(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))


def update_moments(moments: RunningMoments, values: Float[Array, " ..."]) -> RunningMoments:
    """Add every device's `values` (the parallel variance of Chan, Golub and LeVeque)."""
    count = jnp.asarray(values.size * mesh.count(), jnp.float32)
    mean = mesh.mean(values.mean())
    squares = mesh.mean(jnp.square(values - mean).sum()) * mesh.count()
    total = moments.number + count
    gap = mean - moments.mean
    return RunningMoments(
        number=total,
        mean=moments.mean + gap * count / total,
        squares=moments.squares + squares + gap**2 * moments.number * count / total,
    )


def discounted_sums(reward: Float[Array, " T"], done: Bool[Array, " T"], gamma: float) -> Float[Array, " T"]:
    """G_t = r_t + γ·G_{t−1}, restarted with each episode: rewards are scaled by the std of these."""

    def over_step(running: Array, xs: tuple[Array, Array]) -> tuple[Array, Array]:
        reward, done = xs
        total = reward + gamma * running
        return jnp.where(done, 0.0, total), total

    return lax.scan(over_step, jnp.zeros(()), (reward, done))[1]
