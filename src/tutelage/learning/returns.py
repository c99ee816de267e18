"""What a rollout earned: advantages (GAE), episodes' returns, and running statistics to scale rewards by.

Pure functions on one worker's trajectory [T]; callers vmap over workers.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from tutelage.learning import mesh


def gae(
    reward: jax.Array,
    value: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    truncation_value: jax.Array,
    last_value: jax.Array,
    gamma: float,
    gae_lambda: float,
) -> jax.Array:
    """Generalised advantage estimation over a trajectory that may hold many episodes.

        δ_t = r_t + γ·V'_t − V(s_t),   A_t = δ_t + γλ·A_{t+1}  (A_{t+1} = 0 across an episode's end)

    V'_t, the worth of what follows, is 0 after termination, `truncation_value` where a limit of time cut the episode
    short (0 if such a limit counts as an end), `last_value` after the last step, else V(s_{t+1}).

    Args:
        reward, value, terminated, truncated, truncation_value: [T].
        last_value: f32[], 0 if the rollout's end counts as an end.
        gamma: γ.
        gae_lambda: λ.

    Returns:
        f32[T]; the value targets are these plus `value`.
    """
    following = jnp.append(value[1:], last_value)
    following = jnp.where(truncated, truncation_value, following) * ~terminated
    delta = reward + gamma * following - value
    going_on = 1.0 - (terminated | truncated)

    def over_step(later: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, going_on = xs
        advantage = delta + gamma * gae_lambda * going_on * later
        return advantage, advantage

    return lax.scan(over_step, jnp.zeros_like(last_value), (delta, going_on), reverse=True)[1]


class Episodes(NamedTuple):
    """The episodes of one worker's trajectory. If none has ended, the running one counts as if it had."""

    number: jax.Array  # i32[]
    mean_return: jax.Array  # f32[]
    best_return: jax.Array  # f32[]
    mean_length: jax.Array  # f32[]
    solved: jax.Array  # f32[]: the share whose return was above a threshold


def endings(reward: jax.Array, done: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where the episodes of a trajectory end, and what each has earned so far.

    Args:
        reward: f32[T].
        done: bool[T], true at the last step of an episode.

    Returns:
        bool[T], true at the end of each of the `Episodes`: `done`, or the last step if that is true nowhere.
        f32[T]: the undiscounted sum of rewards since the episode began; its return where it ends.
    """
    done = done.at[-1].set(done[-1] | ~done.any())

    def over_step(running: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, done = xs
        total = running + reward
        return jnp.where(done, 0.0, total), total

    return done, lax.scan(over_step, jnp.zeros(()), (reward, done))[1]


def episodes(reward: jax.Array, done: jax.Array, solved_above: float = 0.0) -> Episodes:
    """Undiscounted returns of the episodes in a trajectory that starts with a reset.

    Args:
        reward: f32[T].
        done: bool[T], true at the last step of an episode.
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
    """Running moments of discounted returns; part of a learner's state."""

    seen: jax.Array  # f32[]: how many
    mean: jax.Array  # f32[]
    squares: jax.Array  # f32[]: the sum of squared deviations from the mean

    @property
    def deviation(self) -> jax.Array:
        """f32[]: the standard deviation; 1 until something has been seen."""
        return jnp.where(self.seen > 0, jnp.sqrt(self.squares / jnp.maximum(self.seen, 1.0) + 1e-8), 1.0)


def no_moments() -> RunningMoments:
    """Before anything has been seen."""
    return RunningMoments(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))


def discounted_sums(reward: jax.Array, done: jax.Array, gamma: float) -> jax.Array:
    """f32[T]: G_t = r_t + γ·G_{t−1}, begun anew with each episode: what `RunningMoments` measures."""

    def over_step(running: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, done = xs
        total = reward + gamma * running
        return jnp.where(done, 0.0, total), total

    return lax.scan(over_step, jnp.zeros(()), (reward, done))[1]


def update_moments(spread: RunningMoments, values: jax.Array) -> RunningMoments:
    """Take every device's `values` of any shape into account (Chan's rule for joining moments)."""
    count = jnp.asarray(values.size * mesh.count(), jnp.float32)
    mean = mesh.mean(values.mean())
    squares = mesh.mean(jnp.square(values - mean).sum()) * mesh.count()
    total = spread.seen + count
    gap = mean - spread.mean
    return RunningMoments(
        seen=total,
        mean=spread.mean + gap * count / total,
        squares=spread.squares + squares + gap**2 * spread.seen * count / total,
    )
