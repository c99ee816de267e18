"""Our mazes against the `minigrid` package, stepped side by side with the same actions."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tutelage.domains.maze.design import MazeDesign
from tutelage.domains.maze.env import FORWARD, MazeEnv
from tutelage.domains.maze.level import Level, parse, show
from tutelage.domains.maze.suite import DRAWINGS, drawing
from tutelage.interop.minigrid import minigrid_env
from tutelage.types import InputError

VIEWS = [(5, True), (5, False), (7, True), (7, False)]
WHAT = ("image", "direction", "reward", "termination", "truncation")
# Actions that do nothing in a maze are drawn too, but less often: otherwise the agent hardly gets anywhere.
ACTION_ODDS = np.array([0.2, 0.2, 0.52, 0.02, 0.02, 0.02, 0.02])


@partial(jax.jit, static_argnums=0)
def _ours(env, levels, actions):
    """What T actions [B, T] bring on B levels; an ended episode begins again. The first observation comes first."""

    def one_level(level, actions):
        scene = env.load(level)
        start, first = env.reset(jax.random.key(0), scene)

        def body(state, action):
            state, step = env.step(jax.random.key(0), scene, state, action)
            ended = step.terminated | step.truncated
            return jax.tree.map(lambda begin, now: jnp.where(ended, begin, now), start, state), step

        return first, jax.lax.scan(body, start, actions)[1]

    return jax.vmap(one_level)(levels, actions)


def _theirs(env, level, actions):
    """The same from `minigrid`, for one level."""
    reference = minigrid_env(level, env.view, env.see_through, env.max_steps)
    first, _ = reference.reset()
    steps = []
    for action in actions.tolist():
        obs, reward, terminated, truncated, _ = reference.step(action)
        steps.append((obs["image"], obs["direction"], np.float32(reward), terminated, truncated))
        if terminated or truncated:
            again, _ = reference.reset()
            assert np.array_equal(again["image"], first["image"])
    return first, steps


def _compare(env, levels, actions):
    """Fail on the first difference, and show it."""
    first, steps = jax.tree.map(np.asarray, _ours(env, levels, actions))
    ours = (steps.obs.image, steps.obs.direction, steps.reward, steps.terminated, steps.truncated)
    for index, level_actions in enumerate(actions):
        level = Level(*(np.asarray(leaf[index]) for leaf in levels))
        their_first, theirs = _theirs(env, level, level_actions)

        def check(what, our, their, time, index=index, level=level, level_actions=level_actions):
            assert np.array_equal(our, their), (
                f"The {what} differs from minigrid's on level {index} after the actions "
                f"{level_actions[:time].tolist()}:\n{show(level)}\nours:\n{our}\nminigrid's:\n{their}"
            )

        check("first image", first.image[index], their_first["image"], 0)
        check("first direction", first.direction[index], their_first["direction"], 0)
        for time, their_step in enumerate(theirs, 1):
            for what, our, their in zip(WHAT, ours, their_step, strict=True):
                check(what, our[index, time - 1], their, time)


def _actions(seed, *shape):
    return np.random.default_rng(seed).choice(7, shape, p=ACTION_ODDS).astype(np.int32)


def _random_levels(seed, count):
    return jax.vmap(MazeDesign(blocks=60, vary_blocks=True).sample)(jax.random.split(jax.random.key(seed), count))


@pytest.mark.nightly
@pytest.mark.parametrize(("view", "see_through"), VIEWS)
def test_many_random_levels(view, see_through):
    env = MazeEnv(view, see_through, max_steps=120, reward="minigrid")  # so that some episodes reach the limit
    _compare(env, _random_levels(view, 300), _actions(view, 300, 250))


@pytest.mark.slow
@pytest.mark.parametrize(("view", "see_through"), [*VIEWS, (3, False), (9, False)])
def test_a_few_random_levels(view, see_through):
    env = MazeEnv(view, see_through, max_steps=60, reward="minigrid")
    _compare(env, _random_levels(view, 10), _actions(view, 10, 100))


@pytest.mark.parametrize(("view", "see_through"), VIEWS)
@pytest.mark.parametrize("name", DRAWINGS)
def test_fixed_mazes(name, view, see_through):
    level = drawing(name)
    env = MazeEnv(view, see_through, max_steps=80, reward="minigrid")
    all_headings = jax.vmap(lambda direction: level._replace(direction=direction))(jnp.arange(4))
    _compare(env, all_headings, _actions(0, 4, 100))


@pytest.mark.parametrize("max_steps", [1, 2, 3])
def test_goal_and_time_limit_at_once(max_steps):
    level = parse("#####\n#A.G#\n#####")
    levels = jax.tree.map(lambda leaf: leaf[None], level)
    _compare(MazeEnv(max_steps=max_steps, reward="minigrid"), levels, np.full((1, 5), FORWARD, np.int32))


@pytest.mark.parametrize("max_steps", [1, 7, 250, 450, 20402])
def test_every_reward_is_the_nearest_float(max_steps):
    time = np.arange(1, max_steps + 1)
    reward = jax.jit(MazeEnv(max_steps=max_steps, reward="minigrid").reward_at)(time)
    assert np.array_equal(reward, np.float32([1 - 0.9 * (used / max_steps) for used in time]))
    reward = jax.jit(MazeEnv(max_steps=max_steps).reward_at)(time)
    assert np.array_equal(reward, np.float32([1 - used / max_steps for used in time]))


def test_one_environment_plays_mazes_of_all_sizes_on_one_grid():
    level = drawing("Maze")
    env = MazeEnv(see_through=False)
    small, large = (
        _ours(env, jax.tree.map(lambda leaf: leaf[None], parse(show(level), size)), _actions(3, 1, 200))
        for size in (15, 21)
    )
    assert all(np.array_equal(one, other) for one, other in zip(*map(jax.tree.leaves, (small, large)), strict=True))


@pytest.mark.parametrize(
    "fields", [{"view": 4}, {"view": 33}, {"max_steps": 0}, {"max_steps": 10**10}, {"reward": "dense"}]
)
def test_impossible_environments_are_refused(fields):
    with pytest.raises(InputError):
        MazeEnv(**fields)
