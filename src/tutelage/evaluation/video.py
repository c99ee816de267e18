"""Watching a policy: one episode from its reset to its end, and the pictures of its moments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tutelage.evaluation.evaluate import episode_keys
from tutelage.learning.network import Network, Packed
from tutelage.learning.policy import Policy, act
from tutelage.types import Domain, Env, InputError, Key, Level, Scene, State, TestLevel


@dataclass(frozen=True, eq=False)
class Episode:
    """What happened."""

    env: Env
    level: Level
    scene: Scene
    states: State  # leaves [length + 1, ...]: the first is that of the reset
    rewards: np.ndarray  # f32[length]
    solved_above: float | None

    @property
    def length(self) -> int:
        """Steps."""
        return len(self.rewards)

    @property
    def total(self) -> float:
        """The undiscounted return."""
        return float(np.cumsum(self.rewards, dtype=np.float32)[-1])  # rounded as in an evaluation, step by step

    @property
    def solved(self) -> bool | None:
        """None if the domain never counts anything as solved."""
        return None if self.solved_above is None else self.total > self.solved_above


def watch(
    domain: Domain, where: TestLevel | Level, policy: Policy, key: Key, *, number: int = 0, greedy: bool = False
) -> Episode:
    """Let a policy play one episode.

    Args:
        domain: what is played.
        where: a test level, or a level of the domain's own environment.
        policy: who plays.
        key: all that is random follows from it.
        number: on a test level, which episode: it goes as the episode with this number of an evaluation with this key.
        greedy: take the likeliest action instead of drawing one.
    """
    if isinstance(where, TestLevel):
        draw_key, key = episode_keys(key, where.name, number)
        env, level = where.env, jax.jit(where.draw)(draw_key)
    else:
        env, level = domain.env, where
    scene, states, rewards, over = _play(env, policy.network, greedy, policy.weights, level, key)
    length = int(np.argmax(over)) + 1 if over.any() else env.horizon
    states = jax.tree.map(lambda x: x[: length + 1], states)
    return Episode(env, level, scene, states, np.asarray(rewards)[:length], domain.solved_above)


def frames(domain: Domain, episode: Episode, most: int = 200) -> list[np.ndarray]:
    """u8[H, W, 3] each: the episode's moments, evenly spaced if there are more than `most`; the last is always shown.

    A domain that cannot draw moments gives one picture, that of the level.
    """
    if most < 1:
        raise InputError(f"A video has at least one frame, not {most}.")
    if domain.frame is None:
        return [np.asarray(domain.design.image(episode.level))]
    moments = np.unique(np.linspace(episode.length, 0, min(most, episode.length + 1)).round().astype(int))
    return [
        np.asarray(_frame(domain.frame, episode.env, episode.scene, jax.tree.map(lambda x, i=i: x[i], episode.states)))
        for i in moments
    ]


def video(
    domain: Domain,
    where: TestLevel | Level,
    policy: Policy,
    key: Key,
    max_frames: int = 200,
    *,
    number: int = 0,
    greedy: bool = False,
) -> list[np.ndarray]:
    """The pictures of one episode: `watch`, then `frames`."""
    return frames(domain, watch(domain, where, policy, key, number=number, greedy=greedy), max_frames)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _play(env: Env, network: Network, greedy: bool, weights: Packed, level: Level, key: Key) -> Any:
    """(scene, states [horizon + 1, ...], rewards [horizon], over bool[horizon]); nothing changes after the end."""
    # the same keys as in `run_episodes`
    reset_key, step_key = jax.random.split(key)
    scene = env.load(level)
    state, obs = env.reset(reset_key, scene)

    def advance(carry: Any, time: jax.Array) -> Any:
        state, obs, memory, _ = carry
        act_key, env_key = jax.random.split(jax.random.fold_in(step_key, time))
        action, memory = act(network, weights, memory, obs, act_key, greedy=greedy)
        state, step = env.step(env_key, scene, state, action)
        over = step.terminated | step.truncated
        return (state, step.obs, memory, over), (state, step.reward, over)

    def stand(carry: Any, time: jax.Array) -> Any:
        return carry, (carry[0], jnp.zeros(()), carry[3])

    _, (states, rewards, over) = lax.scan(
        lambda carry, time: lax.cond(carry[3], stand, advance, carry, time),
        (state, obs, network.carry(1), jnp.zeros((), bool)),
        jnp.arange(env.horizon),
    )
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, states)
    return scene, states, rewards, over


@partial(jax.jit, static_argnums=(0, 1))
def _frame(frame: Any, env: Env, scene: Scene, state: State) -> jax.Array:
    return frame(env, scene, state)
