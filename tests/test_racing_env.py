"""The rules: beside Gymnasium's over whole episodes, and by hand where the paper's training rules differ."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.car_racing import Reference
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.domains.racing import track
from tutelage.domains.racing.env import RacingEnv, View, gymnasium_rules
from tutelage.domains.racing.texture import Canvas
from tutelage.types import InputError

KEY = jax.random.key(0)
COARSE = Canvas(texel=4.0)  # most tests here do not look


TRAINING = RacingEnv(canvas=COARSE)
SINGLE = RacingEnv(repeat=1, canvas=COARSE)
RAW = gymnasium_rules(SINGLE)


class Compiled(NamedTuple):
    load: Callable[..., Any]
    reset: Callable[..., Any]
    step: Callable[..., Any]


@cache
def compiled(env: RacingEnv) -> Compiled:
    return Compiled(jax.jit(env.load), jax.jit(env.reset), jax.jit(env.step))


@jax.jit
def random_level(key):
    points = jax.random.uniform(key, (12, 2), minval=-track.PLAYFIELD / 2, maxval=track.PLAYFIELD / 2)
    return track.Level(points, jnp.int32(12))


def steer(line: track.CenterLine, car, speed: float) -> np.ndarray:
    """An action that follows the road: aim at a point some way ahead, keep a speed."""
    points = np.asarray(line.points)[: int(line.n)]
    position = np.asarray(car.position[0])
    nearest = ((points - position) ** 2).sum(1).argmin()
    ahead = (nearest + 1 + np.arange(len(points))) % len(points)
    target = points[ahead[(np.linalg.norm(points[ahead] - position, axis=1) > 10).argmax()]] - position
    turn = np.arctan2(-target[0], target[1]) - float(car.angle[0])
    turn = (turn + np.pi) % (2 * np.pi) - np.pi
    gas = 0.3 if np.linalg.norm(car.velocity[0]) < speed else 0.0
    return np.array([np.clip(-3 * turn, -1, 1), gas, 0], np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("drive", range(4))
def test_rewards_along_the_road_beside_gymnasium(drive):
    """The same actions, synchronized at frame 0 only: rewards and ends, tiles and position.

    Random drives, on Gymnasium's own tracks, too, are in `test_racing_parity.py`.
    """
    level = random_level(jax.random.key(drive))
    line = track.bezier(level)
    env = compiled(RAW)
    scene = env.load(level)
    state, _ = env.reset(KEY, scene)
    game = Reference(line, draw_every=0)
    game.reset(seed=0)
    assert int(state.tiles) == game.tile_visited_count

    drift, ours, theirs = [], 0.0, 0.0
    for _ in range(300):
        action = steer(line, game.mechanics(), speed=20.0)
        state, out = env.step(KEY, scene, state, jnp.asarray(action))
        _, reward, terminated, _, _ = game.step(action)
        ours, theirs = ours + float(out.reward), theirs + reward
        drift.append(np.linalg.norm(state.car.position[0] - game.mechanics().position[0]))
        assert bool(out.terminated) == terminated
    assert np.median(drift[:100]) < 0.005
    assert np.median(drift) < 0.02
    assert game.tile_visited_count > 20
    assert abs(int(state.tiles) - game.tile_visited_count) <= 1
    assert abs(ours - theirs) <= 1000 / len(game.track) + 0.01


@pytest.mark.slow
def test_leaving_the_field_costs_a_hundred_in_evaluation_only():
    level = random_level(KEY)
    for env, penalized in ((compiled(SINGLE), False), (compiled(RAW), True)):
        scene = env.load(level)
        state, _ = env.reset(KEY, scene)
        outside = state.car.position + jnp.array([track.PLAYFIELD + 10, 0])
        state = state._replace(car=state.car._replace(position=outside), frame=jnp.int32(3))
        _, out = env.step(KEY, scene, state, jnp.zeros(3))
        assert bool(out.terminated) == penalized
        assert float(out.reward) == pytest.approx(-100 if penalized else -0.1)


@pytest.mark.slow
def test_a_car_that_finds_no_tile_for_100_frames_is_stopped():
    game = compiled(TRAINING)
    scene = game.load(random_level(KEY))
    state, _ = game.reset(KEY, scene)
    total = 0.0
    for _ in range(13):  # 100 frames end within the thirteenth action
        state, out = game.step(KEY, scene, state, jnp.zeros(3))
        total += float(out.reward)
        assert bool(out.terminated) == (int(state.frame) == 100)
    assert out.terminated
    first = float(state.tiles) * 1000 / float(scene.n)
    assert total == pytest.approx(first - 10, abs=1e-3)


def test_time_runs_out_in_the_middle_of_an_action():
    assert RacingEnv(frames=1003).horizon == 126
    env = compiled(TRAINING)
    scene = env.load(random_level(KEY))
    state, _ = env.reset(KEY, scene)
    state, out = env.step(KEY, scene, state._replace(frame=jnp.int32(987)), jnp.zeros(3))
    assert not out.truncated
    state, out = env.step(KEY, scene, state, jnp.zeros(3))
    assert out.truncated
    assert not out.terminated
    assert int(state.frame) == 1000


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 12))
def test_the_tiles_of_a_track_sum_to_a_thousand(seed, n):
    """Carried from tile to tile, the car earns 1000 less the frames' cost, and is done at the last one."""
    points = np.random.default_rng(seed).uniform(-track.PLAYFIELD / 2, track.PLAYFIELD / 2, (n, 2))
    env = compiled(RAW)
    scene = env.load(track.from_points(points))
    state, _ = env.reset(KEY, scene)
    wheels = state.car.position - state.car.position[0]
    total, tile = 0.0, 0
    while True:
        state = state._replace(car=state.car._replace(position=scene.middle[tile] + wheels))
        state, out = env.step(KEY, scene, state, jnp.zeros(3))
        total += float(out.reward)
        tile += 1
        assert bool(out.terminated) == bool(state.visited[: int(scene.n)].all())
        if out.terminated:
            break
    assert int(state.tiles) == int(scene.n)
    assert total + 0.1 * int(state.frame) == pytest.approx(1000, abs=0.01)


def test_a_held_action_is_eight_single_ones():
    level = random_level(jax.random.key(3))
    one, eight = compiled(SINGLE), compiled(TRAINING)
    scene = one.load(level)
    state, _ = one.reset(KEY, scene)
    action = jnp.array([0.3, 0.8, 0.0])
    reward = 0.0
    held, out = eight.step(KEY, scene, state, action)
    for _ in range(8):
        state, single = one.step(KEY, scene, state, action)
        reward += float(single.reward)
    assert float(out.reward) == pytest.approx(reward, abs=1e-4)
    for a, b in zip(jax.tree.leaves(held), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.slow
def test_nearest_tiles_are_all_that_an_action_touches():
    """With 128 candidates a fast drive visits what it visits with all of them."""
    some, every = (RacingEnv(canvas=COARSE, idle_limit=None, candidates=k) for k in (128, track.TILES))

    def run(env, level):
        scene = env.load(level)
        state, _ = env.reset(KEY, scene)
        push = state.car.velocity + 60 * track.right(state.car.angle[0] + jnp.pi / 2)
        state = state._replace(car=state.car._replace(velocity=push))
        actions = jax.random.uniform(jax.random.key(7), (30, 3)) * jnp.array([0.3, 1.0, 0.0])
        return jax.lax.scan(lambda s, a: (env.step(KEY, scene, s, a)[0], None), state, actions)[0].visited

    levels = jax.vmap(random_level)(jax.random.split(jax.random.key(5), 8))
    a, b = (jax.jit(jax.vmap(lambda level, env=env: run(env, level)))(levels) for env in (some, every))
    assert b.sum() > 100
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("crop", [False, True])
@pytest.mark.parametrize("gray", [False, True])
def test_views(crop, gray):
    frame = jax.random.randint(KEY, (96, 96, 3), 0, 256).astype(jnp.uint8)
    view = View(crop=crop, gray=gray)
    seen = view.select(frame)
    assert seen.dtype == jnp.uint8
    assert seen.shape == view.shape
    expected = np.asarray(frame[:84, 6:90] if crop else frame, np.float64)
    if gray:
        expected = expected @ np.array([[0.299], [0.587], [0.114]])
    np.testing.assert_allclose(seen, expected, atol=0.51)


def test_a_view_shrinks_by_averaging():
    frame = jax.random.randint(KEY, (96, 96, 3), 0, 256).astype(jnp.uint8)
    view = View(crop=True, shrink=3)
    seen = view.select(frame)
    assert seen.shape == view.shape == (28, 28, 3)
    expected = np.asarray(frame, np.float64)[:84, 6:90].reshape(28, 3, 28, 3, 3).mean((1, 3))
    np.testing.assert_allclose(seen, expected, atol=0.51)
    with pytest.raises(InputError, match="choose a divisor"):
        View(shrink=5)


def test_a_view_without_the_zoom_of_the_first_second():
    still = RacingEnv(canvas=COARSE, view=View(zoom=False))
    zooming, fixed = compiled(TRAINING), compiled(still)
    scene = fixed.load(random_level(KEY))
    state, first = fixed.reset(KEY, scene)
    later = jax.jit(TRAINING.draw)(scene, state._replace(frame=jnp.int32(60)))
    road = slice(None, 84)  # above the score, which the frames cost
    assert np.abs(first[road].astype(int) - later[road]).max() <= 1
    assert np.abs(first[road].astype(int) - zooming.reset(KEY, scene)[1][road]).mean() > 10


@pytest.mark.slow
def test_stacked_frames_move_up():
    env = RacingEnv(canvas=COARSE, view=View(gray=True, stack=3))
    game = compiled(env)
    scene = game.load(random_level(KEY))
    state, first = game.reset(KEY, scene)
    np.testing.assert_array_equal(first[..., :1], first[..., 2:])
    state, out = game.step(KEY, scene, state, jnp.array([0.0, 1.0, 0.0]))
    assert out.obs.shape == env.view.shape
    np.testing.assert_array_equal(out.obs[..., :2], first[..., 1:])
    alone = env.view.select(jax.jit(env.draw)(scene, state)).astype(int)
    assert np.abs(out.obs[..., 2:].astype(int) - alone).max() <= 1  # another program rounds otherwise


def test_a_view_needs_a_frame():
    with pytest.raises(InputError, match="at least one frame"):
        View(stack=0)


@pytest.mark.slow
def test_batched_play_is_single_play():
    env = TRAINING
    levels = jax.vmap(random_level)(jax.random.split(KEY, 3))

    def play(level):
        scene = env.load(level)
        state, first = env.reset(KEY, scene)
        _, out = env.step(KEY, scene, state, jnp.array([0.2, 1.0, 0.0]))
        return first, out

    batched = jax.jit(jax.vmap(play))(levels)
    twice = jax.jit(jax.vmap(jax.vmap(play)))(jax.tree.map(lambda x: x[None], levels))
    for i in range(3):
        single = jax.jit(play)(jax.tree.map(lambda x, i=i: x[i], levels))
        for a, b, c in zip(*map(jax.tree.leaves, (single, batched, twice)), strict=True):
            np.testing.assert_allclose(np.float32(a), np.float32(b[i]), atol=1)
            np.testing.assert_allclose(np.float32(a), np.float32(c[0, i]), atol=1)
