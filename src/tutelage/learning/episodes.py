"""Whole episodes: a queue of E of them, each from its reset to its end, as one program.

A rollout of T steps cuts some episodes off, and counting only those that end favors short ones. Here every episode of
the queue counts. Each of W envs takes the next episode of the queue when its last one has ended, so few envs are idle
and memory depends on W, not on E. Each episode has its own key, so its result does not depend on other episodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from tutelage.learning.network import Carry, Network, Packed
from tutelage.learning.rollout import select, zeros_of
from tutelage.types import Env, Key, Level, Measure, Obs, Scene, State


class Recording(NamedTuple):
    """What happened in episodes that are no longer than H steps; zeros after an episode's end."""

    states: State  # leaves [E, H + 1, ...]: the first state is that of the reset
    rewards: Float[Array, "E H"]
    scene: Scene = ()  # the one that all episodes share, if they do


class Outcome(NamedTuple):
    """The results of episodes."""

    returns: Float[Array, " E"]  # undiscounted
    lengths: Int[Array, " E"]
    measures: Mapping[str, Float[Array, " E"]] = {}  # means over an episode's steps
    recording: Any = ()  # a `Recording` if asked for, else the empty tuple


class _Envs(NamedTuple):
    """Running episodes; leaves [W, ...]."""

    episode: Int[Array, " W"]  # which of the E episodes this is; E if none
    carry: Carry
    state: State
    obs: Obs
    running: Bool[Array, " W"]
    returns: Float[Array, " W"]  # so far
    time: Int[Array, " W"]
    sums: Mapping[str, Float[Array, " W"]]  # of measures, so far


class _Loop(NamedTuple):
    """The state of the loop over refills."""

    envs: _Envs
    scenes: Scene  # leaves [W, ...]; the empty tuple if all episodes share one
    started: Int[Array, ""]  # how many episodes of the queue have begun
    outcome: Outcome


def run_episodes(
    env: Env,
    network: Network,
    weights: Packed,
    keys: Key,
    levels: Level,
    *,
    num_envs: int,
    same_level: bool = False,
    greedy: bool = False,
    record: bool = False,
    measures: Mapping[str, Measure] = {},
) -> Outcome:
    """Run one episode for each key, to its end.

    Args:
        env: the environment.
        network: the policy, with its packed `weights`.
        keys: [E], an episode draws everything from its own.
        levels: each episode's level, leaves [E, ...].
        num_envs: W, how many episodes run in parallel.
        same_level: all episodes share one level instead, leaves [...]; it is loaded once.
        greedy: take the greedy action instead of sampling one.
        record: also record all states and rewards.
        measures: of states, by name.
    """
    count = keys.shape[0]
    num_envs = min(num_envs, count)
    reset_keys, step_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    shared_scene = env.load(levels) if same_level else ()
    scene_axis = None if same_level else 0

    def begin(episode: Int[Array, " W"]) -> tuple[Scene, tuple[State, Obs]]:
        scenes = () if same_level else jax.vmap(env.load)(jax.tree.map(lambda x: x[episode], levels))
        begun = jax.vmap(env.reset, (0, scene_axis))(reset_keys[episode], shared_scene if same_level else scenes)
        return scenes, begun

    def refill(loop: _Loop) -> _Loop:
        """Give the next episodes of the queue to all idle envs."""
        envs = loop.envs
        place = loop.started + jnp.cumsum(~envs.running) - 1
        episode = jnp.where(envs.running, envs.episode, jnp.minimum(place, count))
        starts = ~envs.running & (episode < count)
        scenes, begun = begin(jnp.minimum(episode, count - 1))
        state, obs = select(starts, begun, (envs.state, envs.obs))
        recording = loop.outcome.recording
        if record:
            recording = recording._replace(states=_write(recording.states, starts, episode, 0, state))
        returns, time, sums = jax.tree.map(lambda x: jnp.where(starts, 0, x), (envs.returns, envs.time, envs.sums))
        return _Loop(
            envs=_Envs(episode, envs.carry, state, obs, envs.running | starts, returns, time, sums),
            scenes=select(starts, scenes, loop.scenes),
            started=loop.started + starts.sum(dtype=jnp.int32),
            outcome=loop.outcome._replace(recording=recording),
        )

    def step(scenes: Scene, envs: _Envs, recording: Any) -> tuple[_Envs, Any]:
        act_keys, env_keys = jax.vmap(
            lambda episode, time: jax.random.split(jax.random.fold_in(step_keys[episode], time)), out_axes=1
        )(envs.episode, envs.time)
        carry, head = network.step(weights, envs.carry, envs.obs, envs.time == 0)
        action = head.policy.mode() if greedy else jax.vmap(type(head.policy).sample)(head.policy, act_keys)
        state, after = jax.vmap(env.step, (0, scene_axis, 0, 0))(env_keys, scenes, envs.state, action)
        time = envs.time + envs.running
        if record:
            recording = Recording(
                _write(recording.states, envs.running, envs.episode, time, state),
                _write(recording.rewards, envs.running, envs.episode, envs.time, after.reward),
            )
        measured = {
            name: jax.vmap(partial(measure, env), (scene_axis, 0))(scenes, envs.state)
            for name, measure in measures.items()
        }
        sums = {name: jnp.where(envs.running, envs.sums[name] + x, envs.sums[name]) for name, x in measured.items()}
        # rewards after an episode's end do not count, not even if they are NaN
        returns = jnp.where(envs.running, envs.returns + after.reward, envs.returns)
        # the loop also ends for an environment that runs past its own horizon
        over = after.terminated | after.truncated | (time >= env.horizon)
        return _Envs(envs.episode, carry, state, after.obs, envs.running & ~over, returns, time, sums), recording

    def run_round(loop: _Loop) -> _Loop:
        # scenes may be large, and loops may copy what they carry: the inner loop only reads them
        loop = refill(loop)
        scenes = shared_scene if same_level else loop.scenes
        # a refill loads and resets a level for every env, so wait until a quarter of them need one
        enough = jnp.where(loop.started < count, num_envs - max(num_envs // 4, 1), 0)
        envs, recording = lax.while_loop(
            lambda inner: inner[0].running.sum() > enough,
            lambda inner: step(scenes, *inner),
            (loop.envs, loop.outcome.recording),
        )
        # an idle env has the episode E, which is dropped
        means = {name: total / jnp.maximum(envs.time, 1) for name, total in envs.sums.items()}
        returns, lengths, means = jax.tree.map(
            lambda whole, own: whole.at[envs.episode].set(own, mode="drop"),
            (loop.outcome.returns, loop.outcome.lengths, loop.outcome.measures),
            (envs.returns, envs.time, means),
        )
        return loop._replace(envs=envs, outcome=Outcome(returns, lengths, means, recording))

    # every env begins with a refill, so these only need the right shapes
    scenes, (state, obs) = zeros_of(lambda: begin(jnp.zeros(num_envs, jnp.int32)))
    recording: Any = ()
    if record:
        sizes = count, env.horizon + 1
        states = jax.tree.map(lambda x: lax.full((*sizes, *x.shape[1:]), 0, x.dtype), state)
        recording = Recording(states, jnp.zeros((count, env.horizon)))
    idle = jnp.zeros(num_envs, bool)
    envs = _Envs(
        jnp.full(num_envs, count), network.initial_carry(num_envs), state, obs, idle, *_no_steps(num_envs, measures)
    )
    end = lax.while_loop(
        lambda loop: (loop.started < count) | loop.envs.running.any(),
        run_round,
        _Loop(envs, scenes, jnp.int32(0), Outcome(*_no_steps(count, measures), recording)),
    )
    if record:
        return end.outcome._replace(recording=end.outcome.recording._replace(scene=shared_scene))
    return end.outcome


def _no_steps(count: int, measures: Iterable[str]) -> tuple[Array, Array, dict[str, Array]]:
    """The returns, lengths and sums of N episodes that have not begun."""
    return jnp.zeros(count), jnp.zeros(count, jnp.int32), {name: jnp.zeros(count) for name in measures}


def _write(
    tree: Any, which: Bool[Array, " W"], episode: Int[Array, " W"], time: Int[Array, " W"] | int, values: Any
) -> Any:
    """Write values [W, ...] into leaves [E, H, ...] at (episode, time), where `which`."""
    return jax.tree.map(
        lambda x, own: x.at[jnp.where(which, episode, len(x)), time].set(own, mode="drop"), tree, values
    )
