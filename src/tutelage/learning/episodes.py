"""Playing out: a queue of E episodes, each from its reset to its own end, as one program.

A rollout of T steps ends some episodes and cuts others, and to count those that end first favours the short ones. Here
every episode of the queue counts. A fixed number of workers W takes them in order, each worker the next one when its
last has ended: few stand idle while others play on, and memory depends on W and not on E. Each episode draws from its
own key, so who plays beside it, or before it, makes no difference.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from tutelage.learning.network import Network, Packed
from tutelage.types import Env, Key, Level, Obs, Scene, State


class Outcome(NamedTuple):
    """How episodes went; leaves [E]."""

    total: jax.Array  # f32: the undiscounted return
    length: jax.Array  # i32: steps


class _Workers(NamedTuple):
    """Episodes under way; leaves [W, ...]."""

    number: jax.Array  # i32: which of the E episodes this is; E if none
    memory: Any
    state: State
    obs: Obs
    running: jax.Array  # bool
    outcome: Outcome  # so far


class _Round(NamedTuple):
    """What is carried from one refill to the next."""

    workers: _Workers
    scenes: Scene  # leaves [W, ...]; the empty tuple if all play on one
    taken: jax.Array  # i32: how many episodes of the queue have begun
    outcome: Outcome  # of all


def run_episodes(
    env: Env,
    network: Network,
    weights: Packed,
    keys: Key,
    levels: Level,
    *,
    workers: int,
    alike: bool = False,
    greedy: bool = False,
) -> Outcome:
    """Play one episode for each key, to its end.

    Args:
        env: the environment.
        network: the policy, with its packed `weights`.
        keys: [E], all that an episode draws comes from its own.
        levels: each episode's level, leaves [E, ...].
        workers: W, how many episodes are played side by side.
        alike: all episodes are played on one level instead, leaves [...]; it is loaded once, whatever its size.
        greedy: take the likeliest action instead of drawing one.
    """
    count = keys.shape[0]
    workers = min(workers, count)
    reset_keys, step_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    the_scene = env.load(levels) if alike else ()
    over_scenes = None if alike else 0

    def begin(number: jax.Array) -> tuple[Scene, tuple[State, Obs]]:
        scenes = () if alike else jax.vmap(env.load)(jax.tree.map(lambda x: x[number], levels))
        return scenes, jax.vmap(env.reset, (0, over_scenes))(reset_keys[number], the_scene if alike else scenes)

    def refill(so_far: _Round) -> _Round:
        """Give the next episodes of the queue to all who have none."""
        crew = so_far.workers
        place = so_far.taken + jnp.cumsum(~crew.running) - 1
        number = jnp.where(crew.running, crew.number, jnp.minimum(place, count))
        starts = ~crew.running & (number < count)
        scenes, begun = begin(jnp.minimum(number, count - 1))
        state, obs = _choose(starts, begun, (crew.state, crew.obs))
        outcome = _choose(starts, jax.tree.map(jnp.zeros_like, crew.outcome), crew.outcome)
        return so_far._replace(
            workers=_Workers(number, crew.memory, state, obs, crew.running | starts, outcome),
            scenes=_choose(starts, scenes, so_far.scenes),
            taken=so_far.taken + starts.sum(dtype=jnp.int32),
        )

    def step(scenes: Scene, crew: _Workers) -> _Workers:
        time = crew.outcome.length
        act_keys, env_keys = jax.vmap(
            lambda number, time: jax.random.split(jax.random.fold_in(step_keys[number], time)), out_axes=1
        )(crew.number, time)
        seen = jax.tree.map(lambda x: x[None], crew.obs)
        memory, head = network.apply(weights, crew.memory, seen, (time == 0)[None])
        policy = jax.tree.map(lambda x: x[0], head.policy)
        action = policy.mode() if greedy else jax.vmap(type(policy).sample)(policy, act_keys)
        state, after = jax.vmap(env.step, (0, over_scenes, 0, 0))(env_keys, scenes, crew.state, action)
        outcome = Outcome(
            # what an environment says after its end is nobody's concern, not even if it is no number
            total=jnp.where(crew.running, crew.outcome.total + after.reward, crew.outcome.total),
            length=time + crew.running,
        )
        # the horizon is a promise of the environment's: one that breaks it must not keep us for ever
        over = after.terminated | after.truncated | (outcome.length >= env.horizon)
        return _Workers(crew.number, memory, state, after.obs, crew.running & ~over, outcome)

    def play_round(so_far: _Round) -> _Round:
        # scenes may be large, and what a loop carries may be copied each time: the inner loop only reads them
        so_far = refill(so_far)
        scenes = the_scene if alike else so_far.scenes
        # a refill loads and resets a level for every worker, so wait until a quarter of them need one
        enough = jnp.where(so_far.taken < count, workers - max(workers // 4, 1), 0)
        crew = lax.while_loop(lambda crew: crew.running.sum() > enough, lambda crew: step(scenes, crew), so_far.workers)
        # a worker without an episode has the number E, which is dropped
        noted = jax.tree.map(lambda x, own: x.at[crew.number].set(own, mode="drop"), so_far.outcome, crew.outcome)
        return so_far._replace(workers=crew, outcome=noted)

    # everybody begins with a refill, so these only have to have the right shapes (`jnp.zeros` could not make keys)
    scenes, (state, obs) = jax.tree.map(
        lambda x: lax.full(x.shape, 0, x.dtype), jax.eval_shape(begin, jnp.zeros(workers, jnp.int32))
    )
    idle = jnp.zeros(workers, bool)
    crew = _Workers(jnp.full(workers, count), network.carry(workers), state, obs, idle, _nothing(workers))
    end = lax.while_loop(
        lambda so_far: (so_far.taken < count) | so_far.workers.running.any(),
        play_round,
        _Round(crew, scenes, jnp.int32(0), _nothing(count)),
    )
    return end.outcome


def _nothing(count: int) -> Outcome:
    return Outcome(jnp.zeros(count), jnp.zeros(count, jnp.int32))


def _choose(which: jax.Array, yes: Any, no: Any) -> Any:
    """Leaf by leaf, for each worker, `yes` where `which` and `no` elsewhere."""
    return jax.tree.map(lambda a, b: jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b), yes, no)
