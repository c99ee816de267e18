"""Playing: one scan over T steps for B levels, for students and for a teacher in its editor alike.

Every rollout begins with a reset and a cleared memory, so nothing has to be remembered between two rollouts.

*Which level follows when an episode ends inside a rollout?* Each worker has a queue of N levels [B, N, ...] and takes
the next one, beginning again after the last. A queue of one repeats its level until the rollout ends (Algorithm 1: a
trajectory belongs to one level); a long queue of fresh draws is domain randomisation as usually understood.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from tutelage.learning.network import Head, Network, Packed
from tutelage.types import Action, Env, Key, Level, Obs, State


class Rollout(NamedTuple):
    """What the students' update and the scores need, and no more. All leaves are [T, B, ...] unless noted."""

    obs: Obs
    first: jax.Array  # bool: an episode begins with this step
    action: Action
    log_prob: jax.Array  # f32: of the action when it was taken
    value: jax.Array  # f32: V(obs)
    reward: jax.Array  # f32
    terminated: jax.Array  # bool
    truncated: jax.Array  # bool
    truncation_value: jax.Array  # f32: V of the observation in which a time limit truncated an episode, 0 elsewhere
    last_value: jax.Array  # f32[B]: V of the observation after the last step

    @property
    def done(self) -> jax.Array:
        """bool[T, B]: the episode ends with this step."""
        return self.terminated | self.truncated


class _Loop(NamedTuple):
    """What a rollout carries from step to step; leaves [B, ...]."""

    memory: Any
    state: State
    obs: Obs
    first: jax.Array
    episode: jax.Array  # i32: how many episodes this worker has ended


def play(
    env: Env,
    network: Network,
    weights: Packed,
    keys: Key,
    queues: Level,
    num_steps: int,
    *,
    bootstrap_on_truncation: bool = False,
) -> tuple[Rollout, State]:
    """Let a policy play `num_steps` steps on each worker's queue of levels.

    Args:
        env: the environment.
        network: the policy, with its packed `weights`.
        keys: a key for each worker, [B].
        queues: each worker's levels, leaves [B, N, ...].
        num_steps: T.
        bootstrap_on_truncation: also evaluate the observation at which a time limit truncates an episode
            (`Rollout.truncation_value`).

    Returns:
        The rollout, and the state after each worker's last step (before any reset).
    """
    batch = keys.shape[0]
    count = jax.tree.leaves(queues)[0].shape[1] if jax.tree.leaves(queues) else 1
    # an editor's level is empty, so the sizes cannot always be read off it
    scenes = jax.vmap(jax.vmap(env.load, axis_size=count), axis_size=batch)(queues)

    def scene_of(episode: jax.Array) -> Any:
        if count == 1:
            return jax.tree.map(lambda x: x[:, 0], scenes)
        return jax.vmap(lambda scenes, i: jax.tree.map(lambda x: x[i], scenes))(scenes, episode % count)

    def evaluate(memory: Any, obs: Obs, first: jax.Array) -> tuple[Any, Head]:
        """The network on one step of all workers."""
        memory, head = network.apply(weights, memory, jax.tree.map(lambda x: x[None], obs), first[None])
        return memory, jax.tree.map(lambda x: x[0], head)

    def value_of(memory: Any, obs: Obs) -> jax.Array:
        return evaluate(memory, obs, jnp.zeros(batch, bool))[1].value

    def over_step(loop: _Loop, keys: tuple[Key, Key, Key]) -> tuple[_Loop, Any]:
        act_keys, env_keys, reset_keys = keys
        scene = scene_of(loop.episode)

        def restart() -> tuple[State, Obs]:
            begun = jax.vmap(env.reset)(reset_keys, scene)
            return _choose(loop.first, begun, (loop.state, loop.obs))

        # most environments draw or compute a good deal in a reset: leave it out of steps in which nobody needs it
        state, obs = lax.cond(loop.first.any(), restart, lambda: (loop.state, loop.obs))
        memory, head = evaluate(loop.memory, obs, loop.first)
        action = jax.vmap(type(head.policy).sample)(head.policy, act_keys)
        state, step = jax.vmap(env.step)(env_keys, scene, state, action)
        done = step.terminated | step.truncated
        if bootstrap_on_truncation:
            cut = step.truncated & ~step.terminated
            truncation_value = lax.cond(cut.any(), lambda: cut * value_of(memory, step.obs), lambda: jnp.zeros(batch))
        else:
            truncation_value = jnp.zeros(batch)
        record = Rollout(
            obs=obs,
            first=loop.first,
            action=action,
            log_prob=head.policy.log_prob(action),
            value=head.value,
            reward=step.reward,
            terminated=step.terminated,
            truncated=step.truncated,
            truncation_value=truncation_value,
            last_value=jnp.zeros(()),  # known when the scan has ended
        )
        return _Loop(memory, state, step.obs, done, loop.episode + done), record

    # every worker's first step begins with a reset, so these only have to have the right shapes; a state may hold keys,
    # which `lax.full` can make and `jnp.zeros` cannot
    state, obs = jax.tree.map(
        lambda x: lax.full(x.shape, 0, x.dtype),
        jax.eval_shape(lambda: jax.vmap(env.reset)(keys, scene_of(jnp.zeros(batch, jnp.int32)))),
    )
    start = _Loop(network.carry(batch), state, obs, jnp.ones(batch, bool), jnp.zeros(batch, jnp.int32))
    step_keys = jax.vmap(lambda key: jax.random.split(key, (num_steps, 3)), out_axes=1)(keys)  # [T, B, 3]
    end, rollout = lax.scan(over_step, start, tuple(jnp.moveaxis(step_keys, 2, 0)))
    return rollout._replace(last_value=value_of(end.memory, end.obs)), end.state


def _choose(which: jax.Array, yes: Any, no: Any) -> Any:
    """Leaf by leaf, for each worker, `yes` where `which` and `no` elsewhere."""
    return jax.tree.map(lambda a, b: jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b), yes, no)
