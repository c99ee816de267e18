"""What an iteration reports: the paper's measures of levels (section 5.1), of students on them, and of the buffer.

Of each kind of levels, `new`, `replayed` and `edited`; what the second student did is `<kind>/antagonist/…`:

    <kind>/<x>                  for each x of `design.describe`: the mean over levels, as the protagonist had them
    <kind>/return, length       an episode's
    <kind>/solved               the share of episodes solved, if the domain says what is solved
    <kind>/solved_<x>           x of solved levels, if x is a number (no flag) and the domain says what is solved; for
                                mazes, solved_shortest_path is the paper's solved path length
    <kind>/action_complexity    the LZW complexity of a solved episode's actions, if these are discrete; of every
                                episode's, if the domain does not say what is solved
    <kind>/true_regret          the optimal return − the student's, if the domain has an oracle
    replayed/score              the curator's new score of them

    generator/utility           what a teacher was rewarded with
    loss, entropy, …            of the students' learning (`PPO`); antagonist/… and generator/… of the others'

    buffer/fill                 the share of slots filled
    buffer/score, buffer/age    means over the filled slots; an age is in iterations since the level was last scored
    buffer/score_p10, …         their quantiles: _p10, _p50 and _p90
    buffer/true_regret          the mean over a sample, played whenever a snapshot is taken, if the domain has an oracle
    buffer/generation           how often a level and its ancestors were edited: the mean, if a method edits at all

Each worker counts the same, however many episodes it ended. *Solved* is a weight: a level counts as much as the share
of its episodes that were solved, so solved_<x> is Σ share·x / Σ share, and not a number if nothing was solved; likewise
action_complexity. Unsolved levels are left out, as in the released code (which gives every level with a solved episode
the same weight): as zeros they would repeat what `solved` says and hide how hard the solved ones are. With zeros, the
mean is the product of `solved` and solved_<x>.

If workers have queues of many levels, the first of each is described, and solved_<x> and true_regret are of the first
episode, which is the one on it. A student's other measures are of all episodes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tutelage.curriculum.complexity import lzw_codes
from tutelage.curriculum.curator import Buffer
from tutelage.learning import mesh, returns
from tutelage.learning.ppo import Metrics
from tutelage.learning.returns import Episodes
from tutelage.learning.rollout import Rollout
from tutelage.types import Discrete, Domain, InputError, Level

QUANTILES = (10, 50, 90)
"""Of scores and ages in the buffer, in per cent."""


def of_levels(domain: Domain, queues: Level, rollout: Rollout, episodes: Episodes) -> Metrics:
    """What the students' levels are like, and how each student fared on them.

    Args:
        domain: where the levels are from.
        queues: what each worker on this device played, leaves [S, B, N, ...].
        rollout: leaves [S, T, B, ...].
        episodes: leaves [S, B].

    Returns:
        Scalars by the names above without the kind, the same on all devices.
    """
    levels = jax.tree.map(lambda x: x[:, :, 0], queues)
    described = jax.vmap(jax.vmap(domain.design.describe))(levels)  # [S, B]
    on_level = episodes
    if jax.tree.leaves(queues)[0].shape[2] > 1:
        on_level = jax.vmap(jax.vmap(partial(_first_episode, domain), 1))(rollout.reward, rollout.done)

    fared = _mean({"return": episodes.mean_return, "length": episodes.mean_length})
    if domain.solved_above is not None:
        fared["solved"] = _mean(episodes.solved)
        numbers = {name: x for name, x in described.items() if x.dtype != bool}
        weighted = {f"solved_{name}": on_level.solved * x for name, x in numbers.items()}
        fared |= _quotients(_mean(weighted), _mean(on_level.solved))
    if isinstance(domain.env.actions, Discrete):
        complexity = jax.vmap(jax.vmap(partial(_complexity, domain, domain.env.actions.n), 1))
        codes, share = _mean(complexity(rollout.action, rollout.first, rollout.reward, rollout.done))
        fared |= _quotients({"action_complexity": codes}, share)
    if domain.optimal_return is not None:
        optimal_return = partial(domain.optimal_return, domain.env)
        fared["true_regret"] = _mean(jax.vmap(jax.vmap(optimal_return))(levels) - on_level.mean_return)

    if clash := described.keys() & {*fared, "score"}:
        raise InputError(f"Rename {sorted(clash)} in design.describe: students' own metrics have these names.")
    return {name: x[0] for name, x in _mean(described).items()} | per_student(fared)


def of_buffer(buffer: Buffer, *, edits: bool) -> Metrics:
    """What a buffer holds; with generations, if levels are edited."""
    size = jnp.maximum(buffer.size, 1)
    measures = {"score": buffer.entries.score, "age": (buffer.clock - buffer.scored_at).astype(jnp.float32)}
    metrics = {"fill": buffer.size / buffer.scored_at.shape[0]}
    for name, x in measures.items():
        metrics[name] = jnp.sum(x * buffer.filled) / size
        quantiles = _quantiles(x, buffer.filled, jnp.array(QUANTILES) / 100)
        metrics |= {f"{name}_p{q}": quantiles[i] for i, q in enumerate(QUANTILES)}
    if edits:
        metrics["generation"] = jnp.sum(buffer.entries.generation * buffer.filled) / size
    return metrics


def per_student(metrics: Metrics) -> Metrics:
    """Metrics [S] by name; the antagonist's get a name of their own."""
    out = {name: x[0] for name, x in metrics.items()}
    return out | {f"antagonist/{name}": x[1] for name, x in metrics.items() if len(x) == 2}


def named(prefix: str, metrics: Metrics) -> Metrics:
    """The same under longer names."""
    return {f"{prefix}/{name}": x for name, x in metrics.items()}


def threshold(domain: Domain) -> float:
    """An episode is solved if its return is above this; infinite where nothing ever is."""
    return float("inf") if domain.solved_above is None else domain.solved_above


def _first_episode(domain: Domain, reward: jax.Array, done: jax.Array) -> Episodes:
    """Of one worker's trajectory [T], the first episode alone."""
    first = jnp.cumsum(done) - done == 0
    return returns.episodes(reward * first, done & first, threshold(domain))


def _complexity(
    domain: Domain, actions: int, action: jax.Array, first: jax.Array, reward: jax.Array, done: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Of one worker's trajectory [T]: the mean codes of the episodes that count, times their share; and that share."""
    ended, totals = returns.endings(reward, done)
    counts = ended if domain.solved_above is None else ended & (totals > domain.solved_above)
    codes = jnp.sum(lzw_codes(action, first, actions) * counts)
    return codes / ended.sum(), counts.sum() / ended.sum()


def _mean(values: Any) -> Any:
    """f32[S]: the mean over the workers of all devices, of each array [S, B]."""
    return mesh.mean(jax.tree.map(lambda x: x.mean(axis=1), values))


def _quotients(sums: Metrics, weight: jax.Array) -> Metrics:
    """Weighted sums [S] as weighted means; NaN if there is no weight."""
    return {name: x / weight for name, x in sums.items()}


def _quantiles(values: jax.Array, filled: jax.Array, at: jax.Array) -> jax.Array:
    """f32[Q]: quantiles of the filled among values [K], linear between neighbours; 0 if none is."""
    size = filled.sum()
    ordered = jnp.where(jnp.arange(values.size) < size, jnp.sort(jnp.where(filled, values, jnp.inf)), 0.0)
    place = at * jnp.maximum(size - 1, 0)
    below = jnp.floor(place).astype(jnp.int32)
    above = jnp.ceil(place).astype(jnp.int32)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
