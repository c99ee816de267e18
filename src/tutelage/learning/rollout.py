"""Rollouts: one scan over T steps of B envs, for students and for a teacher in its editor.

Every rollout begins with a reset and a cleared carry, so nothing is kept between two rollouts.

*Which level follows when an episode ends inside a rollout?* Each env has a queue of N levels [B, N, ...] and takes the
next one, and after the last the first again. A queue of one repeats its level until the rollout ends (Algorithm 1: a
trajectory belongs to one level); a long queue of fresh draws is domain randomization as usually understood.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from tutelage.learning.network import Carry, Network, Packed
from tutelage.types import Action, Env, Key, Level, Obs, Scene, State


class Rollout(NamedTuple):
    """What the students' update and the scores read. All leaves are [T, B, ...] unless noted."""

    obs: Obs
    first: Bool[Array, "T B"]  # whether an episode begins with this step
    action: Action
    log_prob: Float[Array, "T B"]  # of the action when it was taken
    value: Float[Array, "T B"]  # V(obs)
    reward: Float[Array, "T B"]
    terminated: Bool[Array, "T B"]
    truncated: Bool[Array, "T B"]
    truncation_value: Float[Array, "T B"]  # V of the observation at which a time limit truncated an episode, else 0
    last_value: Float[Array, " B"]  # V of the observation after the last step

    @property
    def done(self) -> Bool[Array, "*S T B"]:
        """Whether the episode ends with this step."""
        return self.terminated | self.truncated


class _Loop(NamedTuple):
    """The state of the scan; leaves [B, ...]."""

    carry: Carry
    state: State
    obs: Obs
    first: Bool[Array, " B"]
    episode: Int[Array, " B"]  # how many episodes this env has ended
    scene: Scene  # the empty tuple if queues have one level, whose scene never changes


def collect_rollout(
    env: Env,
    network: Network,
    weights: Packed,
    keys: Key,
    queues: Level,
    num_steps: int,
    *,
    bootstrap_on_truncation: bool = False,
) -> tuple[Rollout, State]:
    """Let a policy act for `num_steps` steps on each env's queue of levels.

    Args:
        env: the environment.
        network: the policy, with its packed `weights`.
        keys: a key for each env, [B].
        queues: each env's levels, leaves [B, N, ...].
        num_steps: T.
        bootstrap_on_truncation: also evaluate the observation at which a time limit truncates an episode
            (`Rollout.truncation_value`).

    Returns:
        The rollout, and the state after each env's last step (before any reset).
    """
    batch = keys.shape[0]
    count = jax.tree.leaves(queues)[0].shape[1] if jax.tree.leaves(queues) else 1

    def load(row: Int[Array, ""], episode: Int[Array, ""] | int) -> Scene:
        return env.load(jax.tree.map(lambda x: x[row, episode % count], queues))

    first_scene = jax.vmap(load, (0, None))(jnp.arange(batch), 0)

    def value_of(carry: Carry, obs: Obs) -> Float[Array, " B"]:
        return network.step(weights, carry, obs, jnp.zeros(batch, bool))[1].value

    def over_step(loop: _Loop, keys: tuple[Key, Key, Key]) -> tuple[_Loop, Rollout]:
        act_keys, env_keys, reset_keys = keys
        scene = first_scene if count == 1 else loop.scene

        def restart() -> tuple[State, Obs]:
            return select(loop.first, jax.vmap(env.reset)(reset_keys, scene), (loop.state, loop.obs))

        # resets can be expensive: skip them in steps in which no env needs one
        state, obs = lax.cond(loop.first.any(), restart, lambda: (loop.state, loop.obs))
        carry, head = network.step(weights, loop.carry, obs, loop.first)
        action = jax.vmap(type(head.policy).sample)(head.policy, act_keys)
        state, step = jax.vmap(env.step)(env_keys, scene, state, action)
        done = step.terminated | step.truncated
        episode = loop.episode + done
        following = () if count == 1 else renew(done, lambda row: load(row, episode[row]), scene)
        if bootstrap_on_truncation:
            cut = step.truncated & ~step.terminated
            truncation_value = lax.cond(cut.any(), lambda: cut * value_of(carry, step.obs), lambda: jnp.zeros(batch))
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
        return _Loop(carry, state, step.obs, done, episode, following), record

    # every env's first step begins with a reset, so these only need the right shapes
    state, obs = zeros_of(lambda: jax.vmap(env.reset)(keys, first_scene))
    start = _Loop(
        network.initial_carry(batch),
        state,
        obs,
        first=jnp.ones(batch, bool),
        episode=jnp.zeros(batch, jnp.int32),
        scene=() if count == 1 else first_scene,
    )
    step_keys = jax.vmap(lambda key: jax.random.split(key, (num_steps, 3)), out_axes=1)(keys)  # [T, B, 3]
    end, rollout = lax.scan(over_step, start, tuple(jnp.moveaxis(step_keys, 2, 0)))
    return rollout._replace(last_value=value_of(end.carry, end.obs)), end.state


def select(which: Bool[Array, " B"], yes: Any, no: Any) -> Any:
    """Leaf by leaf [B, ...], for each env, `yes` where `which` and `no` elsewhere."""
    return jax.tree.map(lambda a, b: jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b), yes, no)


def renew(which: Bool[Array, " B"], make: Callable[[Int[Array, ""]], Any], old: Any) -> Any:
    """For each env, `make(env)` where `which` and leaves [B, ...] of `old` elsewhere; made one by one on a CPU.

    Few episodes end in the same step, and what they need next can be expensive. An accelerator makes all at once.
    """
    if jax.default_backend() != "cpu":
        return select(which, jax.vmap(make)(jnp.arange(len(which))), old)

    def one(loop: tuple[Any, Bool[Array, " B"]]) -> tuple[Any, Bool[Array, " B"]]:
        row = jnp.argmax(loop[1])
        write = partial(lax.dynamic_update_index_in_dim, index=row, axis=0)
        return jax.tree.map(write, loop[0], make(row)), write(loop[1], False)

    return lax.while_loop(lambda loop: loop[1].any(), one, (old, which))[0]


def zeros_of(f: Callable[[], Any]) -> Any:
    """Zeros of the shapes that `f` returns. A state may hold keys, which `lax.full` can make and `jnp.zeros` cannot."""
    return jax.tree.map(lambda x: lax.full(x.shape, 0, x.dtype), jax.eval_shape(f))
