"""The metrics of an iteration: the paper's complexity metrics of levels (section 6.1), students on them, the buffer.

For each kind of levels, `new`, `replayed` and `edited`; the second student's are `<kind>/antagonist/…`:

    <kind>/<x>                  for each x of `design.describe`: the mean over the protagonist's levels
    <kind>/return, length       of an episode
    <kind>/solved               the share of episodes solved, if the domain has `solved_above`
    <kind>/solved_<x>           x of solved levels, if x is a number (not a flag); for mazes, solved_shortest_path is
                                the paper's solved path length
    <kind>/action_complexity    the LZW complexity of an episode's actions, if these are discrete; also solved_…
    <kind>/true_regret          the optimal return − the student's, if the domain has an oracle
    replayed/score              the curator's new score of the levels
    replayed/distinct           the share of distinct levels in the batch

    teacher/utility             the teacher's reward
    loss, entropy, …            of the students' updates (`ppo`); antagonist/… and teacher/… of the others'

    buffer/fill                 the share of slots filled
    buffer/score, buffer/age    means over the filled slots; age is the number of iterations since a level was scored
    buffer/score_p10, …         their quantiles: _p10, _p50 and _p90
    buffer/true_regret          the mean over a sample, played whenever a snapshot is taken, if the domain has an oracle
    buffer/generation           how often a level and its ancestors were edited: the mean, if the method edits levels

Every env has the same weight, however many episodes it ended. A level is weighted by the share of its episodes that
were solved, so solved_<x> is Σ share·x / Σ share, and NaN if nothing was solved; likewise solved_action_complexity.
Unsolved levels are left out, as in the released code (which gives every level with a solved episode the same weight).

If an env plays several new levels in a rollout, its first is described, and solved_<x> and true_regret are of the first
episode, which is the one on it. A student's other metrics are of all episodes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from tutelage.curriculum.curator import Buffer
from tutelage.curriculum.lzw import lzw_codes
from tutelage.learning import mesh, returns
from tutelage.learning.ppo import Metrics
from tutelage.learning.returns import Episodes
from tutelage.learning.rollout import Rollout
from tutelage.types import Discrete, Domain, Level, check_described

QUANTILES = (10, 50, 90)
"""Percentiles of scores and ages in the buffer."""


def distinct_share(slots: Int[Array, " B"]) -> Float[Array, ""]:
    """The share of distinct slots."""
    ordered = jnp.sort(slots)
    return (1 + jnp.sum(ordered[1:] != ordered[:-1])) / slots.size


def level_metrics(domain: Domain, queues: Level, rollout: Rollout, episodes: Episodes) -> Metrics:
    """Complexity metrics of the students' levels, and how each student did on them.

    Args:
        domain: where the levels are from.
        queues: the levels of each env on this device, leaves [S, B, N, ...].
        rollout: leaves [S, T, B, ...].
        episodes: leaves [S, B].

    Returns:
        Scalars by the names above without the kind, the same on all devices.
    """
    levels = jax.tree.map(lambda x: x[:, :, 0], queues)
    described = jax.vmap(jax.vmap(domain.design.describe))(levels)  # [S, B]
    check_described(described)
    on_level = episodes
    if jax.tree.leaves(queues)[0].shape[2] > 1:
        on_level = jax.vmap(jax.vmap(partial(_first_episode, domain), 1))(rollout.reward, rollout.done)

    metrics = _mean({"return": episodes.mean_return, "length": episodes.mean_length})
    if domain.solved_above is not None:
        metrics["solved"] = _mean(episodes.solved)
        numbers = {name: x for name, x in described.items() if x.dtype != bool}
        weighted = {f"solved_{name}": on_level.solved * x for name, x in numbers.items()}
        metrics |= _quotients(_mean(weighted), _mean(on_level.solved))
    if isinstance(domain.env.actions, Discrete):
        complexity = jax.vmap(jax.vmap(partial(_complexity, domain, domain.env.actions.n), 1))
        codes, solved_codes, share = _mean(complexity(rollout.action, rollout.first, rollout.reward, rollout.done))
        metrics["action_complexity"] = codes
        if domain.solved_above is not None:
            metrics |= _quotients({"solved_action_complexity": solved_codes}, share)
    if domain.optimal_return is not None:
        optimal_return = partial(domain.optimal_return, domain.env)
        metrics["true_regret"] = _mean(jax.vmap(jax.vmap(optimal_return))(levels) - on_level.mean_return)

    return {name: x[0] for name, x in _mean(described).items()} | per_student(metrics)


def buffer_metrics(buffer: Buffer, *, edits: bool) -> Metrics:
    """Statistics of a buffer; with generations if levels are edited."""
    size = jnp.maximum(buffer.size, 1)
    values = {"score": buffer.entries.score, "age": (buffer.clock - buffer.scored_at).astype(jnp.float32)}
    metrics = {"fill": buffer.size / buffer.scored_at.shape[0]}
    for name, x in values.items():
        metrics[name] = jnp.sum(x * buffer.filled) / size
        quantiles = _quantiles(x, buffer.filled, jnp.array(QUANTILES) / 100)
        metrics |= {f"{name}_p{q}": quantiles[i] for i, q in enumerate(QUANTILES)}
    if edits:
        metrics["generation"] = jnp.sum(buffer.entries.generation * buffer.filled) / size
    return metrics


def per_student(metrics: Metrics) -> Metrics:
    """Metrics [S] as scalars by name; those of the antagonist begin with `antagonist/`."""
    out = {name: x[0] for name, x in metrics.items()}
    return out | {f"antagonist/{name}": x[1] for name, x in metrics.items() if len(x) == 2}


def prefixed(prefix: str, metrics: Metrics) -> Metrics:
    """Metrics renamed to `<prefix>/<name>`."""
    return {f"{prefix}/{name}": x for name, x in metrics.items()}


def solved_threshold(domain: Domain) -> float:
    """An episode is solved if its return is above this; infinite where nothing is ever solved."""
    return float("inf") if domain.solved_above is None else domain.solved_above


def _first_episode(domain: Domain, reward: Float[Array, " T"], done: Bool[Array, " T"]) -> Episodes:
    """Of one env's trajectory, the first episode alone."""
    first = jnp.cumsum(done) - done == 0
    return returns.episodes(reward * first, done & first, solved_threshold(domain))


def _complexity(
    domain: Domain,
    actions: int,
    action: Int[Array, " T"],
    first: Bool[Array, " T"],
    reward: Float[Array, " T"],
    done: Bool[Array, " T"],
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """Of one env's trajectory: mean codes of its episodes, of solved ones times their share, and that share."""
    ended, totals = returns.endings(reward, done)
    solved = ended & (totals > solved_threshold(domain))
    codes, count = lzw_codes(action, first, actions), ended.sum()
    return jnp.sum(codes * ended) / count, jnp.sum(codes * solved) / count, solved.sum() / count


def _mean(values: Any) -> Any:
    """f32[S]: the mean over the envs of all devices, of each array [S, B]."""
    return mesh.mean(jax.tree.map(lambda x: x.mean(axis=1), values))


def _quotients(sums: Metrics, weight: Float[Array, " S"]) -> Metrics:
    """Weighted sums [S] as weighted means; NaN if there is no weight."""
    return {name: x / weight for name, x in sums.items()}


def _quantiles(values: Float[Array, " K"], filled: Bool[Array, " K"], at: Float[Array, " Q"]) -> Float[Array, " Q"]:
    """Quantiles of the filled among values, linear between neighbors; 0 if none is."""
    size = filled.sum()
    ordered = jnp.where(jnp.arange(values.size) < size, jnp.sort(jnp.where(filled, values, jnp.inf)), 0.0)
    place = at * jnp.maximum(size - 1, 0)
    below = jnp.floor(place).astype(jnp.int32)
    above = jnp.ceil(place).astype(jnp.int32)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
