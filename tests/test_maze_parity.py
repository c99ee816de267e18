"""Our mazes against the `minigrid` package, stepped side by side with the same actions."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tutelage.domains.maze.design import MazeDesign
from tutelage.domains.maze.env import MazeEnv
from tutelage.domains.maze.level import Level, show
from tutelage.domains.maze.suite import DRAWINGS, drawing
from tutelage.interop.minigrid import minigrid_env

VIEWS = [(5, True), (5, False), (7, True), (7, False)]
# Actions that do nothing in a maze are drawn too, but less often: otherwise the agent hardly gets anywhere.
ACTION_ODDS = np.array([0.2, 0.2, 0.52, 0.02, 0.02, 0.02, 0.02])


@partial(jax.jit, static_argnums=0)
def _play(env, levels, actions):
    """Everything that T actions [T, B] bring on B levels, without resets; the start stands first."""

    def one_level(level, actions):
        scene = env.load(level)
        start, first = env.reset(jax.random.key(0), scene)

        def body(state, action):
            state, step = env.step(jax.random.key(0), scene, state, action)
            return state, step

        return first, jax.lax.scan(body, start, actions)[1]

    return jax.vmap(one_level, (0, 1))(levels, actions)


def _compare(env, levels, actions):
    """Step `minigrid` beside; after the end of an episode begin anew in both."""
    count, horizon = levels.walls.shape[0], actions.shape[0]
    first, steps = jax.tree.map(np.asarray, _play(env, levels, actions))
    for index in range(count):
        level = Level(*(np.asarray(leaf[index]) for leaf in levels))
        reference = minigrid_env(level, env.view, env.see_through, env.max_steps)

        def check(what, ours, theirs, time, index=index, level=level):
            assert np.array_equal(ours, theirs), (
                f"{what} differs from minigrid's on level {index} after the actions "
                f"{actions[:time, index].tolist()}:\n{show(level)}\nours:\n{ours}\nminigrid's:\n{theirs}"
            )

        obs, _ = reference.reset()
        check("the first image", first.image[index], obs["image"], 0)
        check("the first direction", first.direction[index], obs["direction"], 0)
        for time in range(1, horizon + 1):
            obs, reward, terminated, truncated, _ = reference.step(int(actions[time - 1, index]))
            ours = jax.tree.map(lambda leaf, at=(index, time - 1): leaf[at], steps)
            check("the image", ours.obs.image, obs["image"], time)
            check("the direction", ours.obs.direction, obs["direction"], time)
            check("the reward", ours.reward, np.float32(reward), time)
            check("termination", ours.terminated, terminated, time)
            check("truncation", ours.truncated, truncated, time)
            if terminated or truncated:
                break


def _actions(seed, *shape):
    return np.random.default_rng(seed).choice(7, shape, p=ACTION_ODDS).astype(np.int32)


@pytest.mark.slow
@pytest.mark.parametrize(("view", "see_through"), VIEWS)
def test_random_levels(view, see_through):
    levels = jax.vmap(MazeDesign(blocks=60, vary_blocks=True).sample)(jax.random.split(jax.random.key(view), 300))
    env = MazeEnv(view, see_through, max_steps=250, reward="minigrid")
    _compare(env, levels, _actions(view, 250, 300))


@pytest.mark.parametrize(("view", "see_through"), VIEWS)
def test_a_few_random_levels(view, see_through):
    levels = jax.vmap(MazeDesign(blocks=60, vary_blocks=True).sample)(jax.random.split(jax.random.key(view), 20))
    _compare(MazeEnv(view, see_through, 100, "minigrid"), levels, _actions(view, 100, 20))


@pytest.mark.parametrize(("view", "see_through"), VIEWS)
@pytest.mark.parametrize("name", DRAWINGS)
def test_fixed_mazes(name, view, see_through):
    level = drawing(name)
    env = MazeEnv(view, see_through, max_steps=100, reward="minigrid")
    starts = jax.vmap(lambda direction: level._replace(direction=direction))(jnp.arange(4))
    _compare(env, starts, _actions(0, 100, 4))
