"""How fast mazes are under random actions, beside the `minigrid` package, in one run on one machine."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tutelage.domains.maze import Level, MazeDesign, MazeEnv
from tutelage.learning.rollout import renew, select
from tutelage.types import Key

TAPE = 251
"""How many random actions are drawn for each level; a prime, so that they fall differently in each episode."""


def steps_per_second(env: MazeEnv, count: int, steps: int, *, fresh: bool, repeats: int = 5) -> float:
    """The best of several runs of random actions on `count` levels, resets included and compilation not.

    An ended episode begins anew on its level, or with `fresh` on a random one.
    """
    seconds = []
    for repeat in range(1 + repeats):
        start = time.perf_counter()
        jax.block_until_ready(_play(env, count, steps, fresh, jax.random.key(repeat)))
        seconds.append(time.perf_counter() - start)
    return count * steps / min(seconds[1:])


def minigrid_steps_per_second(env: MazeEnv, level: Level, steps: int) -> float:
    """The same for one environment of the minigrid package."""
    from tutelage.interop.minigrid import minigrid_env  # an optional dependency

    reference = minigrid_env(level, env.view, env.see_through, env.max_steps)
    actions = np.random.default_rng(0).integers(0, env.actions.n, steps).tolist()
    reference.reset()
    start = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = reference.step(action)
        if terminated or truncated:
            reference.reset()
    return steps / (time.perf_counter() - start)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _play(env: MazeEnv, count: int, steps: int, fresh: bool, key: Key) -> tuple[jax.Array, jax.Array]:
    """Take random actions. Memory does not grow with the steps."""
    keys = jax.random.split(key, count)

    def begin(key: Key) -> tuple[Any, Any, Any]:
        scene = env.load(MazeDesign().sample(key))
        state, obs = env.reset(key, scene)
        return scene, state, obs.image.ravel()  # XLA vectorizes loops over rows, but not over [V, V, 3]

    starts = jax.vmap(begin)(keys)
    # The tape of actions is played again and again, because drawing an action costs more than taking it.
    tape = jax.random.randint(key, (TAPE, count), 0, env.actions.n)

    def body(carry: tuple[Any, ...], time: jax.Array) -> tuple[tuple[Any, ...], None]:
        (scenes, states, _), digest, earned = carry
        states, step = jax.vmap(env.step, (None, 0, 0, 0))(key, scenes, states, tape[time % len(tape)])
        ended, now = step.terminated | step.truncated, (states, step.obs.image.reshape(count, -1))
        if fresh:
            playing = renew(ended, lambda i: begin(jax.random.fold_in(keys[i], time)), (scenes, *now))
        else:
            playing = scenes, *select(ended, starts[1:], now)
        # Every byte of every observation goes into the digest, so that none can be optimized away.
        return (playing, digest ^ playing[2], earned + step.reward), None

    (_, digest, earned), _ = lax.scan(body, (starts, starts[2], jnp.zeros(count)), jnp.arange(steps))
    return digest, earned
