"""How fast mazes are under random actions, beside the `minigrid` package, in one run on one machine."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tutelage.domains.maze import Level, MazeEnv
from tutelage.types import Key

TAPE = 251
"""How many random actions are drawn for each level; a prime, so that they fall differently in each episode."""


def steps_per_second(env: MazeEnv, levels: Level, steps: int, repeats: int = 5) -> float:
    """The best of several runs of random actions on levels [B, ...], resets included and compilation not."""
    seconds = []
    for repeat in range(1 + repeats):
        start = time.perf_counter()
        jax.block_until_ready(_play(env, levels, steps, jax.random.key(repeat)))
        seconds.append(time.perf_counter() - start)
    return levels.walls.shape[0] * steps / min(seconds[1:])


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


@partial(jax.jit, static_argnames=("env", "steps"))
def _play(env: MazeEnv, levels: Level, steps: int, key: Key) -> tuple[jax.Array, jax.Array]:
    """Take random actions; an ended episode begins anew on its level. Memory does not grow with the steps."""
    scenes = jax.vmap(env.load)(levels)
    starts, first = jax.vmap(env.reset, (None, 0))(key, scenes)
    count = levels.walls.shape[0]
    # The tape of actions is played again and again, because drawing an action costs more than taking it.
    tape = jax.random.randint(key, (TAPE, count), 0, env.actions.n)

    def body(carry: tuple[Any, ...], time: jax.Array) -> tuple[tuple[Any, ...], None]:
        states, digest, earned = carry
        states, step = jax.vmap(env.step, (None, 0, 0, 0))(key, scenes, states, tape[time % len(tape)])
        ended = step.terminated | step.truncated
        states = jax.tree.map(lambda start, now: jax.vmap(jnp.where)(ended, start, now), starts, states)
        # Every byte of every observation goes into the digest, so that none can be optimised away.
        return (states, digest ^ step.obs.image.reshape(count, -1), earned + step.reward), None

    carry = (starts, first.image.reshape(count, -1), jnp.zeros(count))
    (_, digest, earned), _ = lax.scan(body, carry, jnp.arange(steps))
    return digest, earned
