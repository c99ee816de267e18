"""`tutelage bench`: how fast this machine is, with nothing but random actions to slow it down."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tyro.conf import Positional

from tutelage.domains.maze import Level, MazeDesign, MazeEnv
from tutelage.types import InputError, Key


@dataclass(frozen=True)
class Bench:
    """Measure environment steps a second, beside the minigrid package in the same run if it is installed."""

    what: Positional[Literal["env"]] = "env"
    """What to measure."""
    levels: tuple[int, ...] = (32, 512, 2048)
    """How many levels to play side by side, one measurement for each."""
    steps: int = 1000
    """How many steps to take on each level."""
    view: int = 7
    """Cells along a side of the agent's view."""

    def run(self) -> None:
        """Print one line for each number of levels, then minigrid's own figure."""
        if not self.levels or min(*self.levels, self.steps, self.steps) < 1:
            raise InputError("levels and steps must be numbers of at least 1.")
        envs = [MazeEnv(self.view, see_through) for see_through in (True, False)]
        print(f"{'maze steps a second':>24} {'see-through':>14} {'occluded':>14}")
        for count in self.levels:
            levels = jax.vmap(MazeDesign().sample)(jax.random.split(jax.random.key(0), count))
            rates = [steps_per_second(env, levels, self.steps) for env in envs]
            print(f"{f'tutelage, {count} levels':>24} {rates[0]:14,.0f} {rates[1]:14,.0f}", flush=True)
        try:
            rates = [minigrid_steps_per_second(env, MazeDesign().sample(jax.random.key(0)), self.steps) for env in envs]
        except InputError as error:
            print(error)
        else:
            print(f"{'minigrid, 1 level':>24} {rates[0]:14,.0f} {rates[1]:14,.0f}")


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

    def body(carry: tuple, step_key: jax.Array) -> tuple[tuple, None]:
        states, digest, earned = carry
        actions = (jax.random.bits(step_key, (count,), jnp.uint8) % env.actions.n).astype(jnp.int32)
        states, step = jax.vmap(env.step, (None, 0, 0, 0))(step_key, scenes, states, actions)
        ended = step.terminated | step.truncated
        states = jax.tree.map(lambda start, now: jax.vmap(jnp.where)(ended, start, now), starts, states)
        # Every byte of every observation goes into the digest, so that none can be optimised away.
        return (states, digest ^ step.obs.image.reshape(count, -1), earned + step.reward), None

    carry = (starts, first.image.reshape(count, -1), jnp.zeros(count))
    (_, digest, earned), _ = lax.scan(body, carry, jax.random.split(key, steps))
    return digest, earned
