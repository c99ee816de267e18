"""Our car and contacts beside Gymnasium's, on its own tracks and on Bézier tracks built in its world."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tutelage.domains.racing import contacts, physics, track
from tutelage.domains.racing.env import RacingEnv, gymnasium_rules
from tutelage.domains.racing.texture import Canvas
from tutelage.interop.car_racing import Reference

DRIVES = 12

advance = jax.jit(physics.advance)
touching = jax.jit(
    lambda outline, car: (
        contacts.touching(outline, car.position[1:], contacts.sides(car))[None] >> jnp.arange(4)[:, None] & 1
    )
)
env = gymnasium_rules(RacingEnv(repeat=1, canvas=Canvas(texel=4.0)))  # nobody looks here
outlines = jax.jit(lambda line: contacts.outlines(track.tiles(line)))


@jax.jit
def random_line(key):
    points = jax.random.uniform(key, (12, 2), minval=-track.PLAYFIELD / 2, maxval=track.PLAYFIELD / 2)
    return track.bezier(track.Level(points, jnp.int32(12)))


def start(drive: int) -> Reference:
    """Even drives are on Bézier tracks, odd ones on Gymnasium's own."""
    game = Reference(random_line(jax.random.key(drive)) if drive % 2 == 0 else None, draw_every=0)
    game.reset(seed=drive)
    return game


def random_actions(drive: int, frames: int) -> np.ndarray:
    """f32[frames, 3]: held for eight frames each; every third drive is bang-bang, most brake rarely."""
    rng = np.random.default_rng(drive)
    actions = rng.uniform([-1, 0, 0], [1, 1, 1], (frames // 8 + 1, 3))
    if drive % 3 == 0:
        actions = np.sign(actions) * (np.abs(actions) > 0.5)
    actions[rng.random(len(actions)) < 0.7, 2] = 0
    return np.repeat(actions, 8, axis=0)[:frames].astype(np.float32)


@pytest.mark.parametrize("drive", range(20))
def test_one_step_from_any_state_of_gymnasium(drive):
    game = start(drive)
    for action in random_actions(drive, 150):
        before, on_road = game.mechanics(), jnp.asarray(game.wheel_tiles().any(1))
        game.step(action)
        ours, theirs = advance(before, action, on_road), game.mechanics()
        np.testing.assert_allclose(ours.velocity, theirs.velocity, atol=1e-4)
        np.testing.assert_allclose(ours.spin, theirs.spin, atol=1e-4)
        np.testing.assert_allclose(ours.roll, theirs.roll, atol=1e-3)
        np.testing.assert_allclose(ours.phase, theirs.phase, atol=1e-3)
        np.testing.assert_allclose(ours.position, theirs.position, atol=1e-4)
        np.testing.assert_allclose(ours.angle, theirs.angle, atol=1e-5)


def test_the_first_frame_pulls_the_wheels_into_place():
    for drive in range(6):
        game = start(drive)
        _, heading, x, y = game.track[0]
        ours = physics.settle(physics.place(jnp.array([x, y], jnp.float32), jnp.float32(heading)))
        theirs = game.mechanics()
        np.testing.assert_allclose(ours.position, theirs.position, atol=1e-4)
        np.testing.assert_allclose(ours.angle, theirs.angle, atol=1e-6)
        np.testing.assert_allclose(physics.origin(ours), game.car.hull.position, atol=1e-4)


@pytest.mark.parametrize("drive", range(8))
def test_contacts_are_identical_at_identical_poses(drive):
    game = start(drive)
    outline, count = outlines(game.centre_line(track.TILES)), len(game.track)
    found = 0
    for action in random_actions(drive, 150):
        before = game.mechanics()
        game.step(action)
        theirs = game.wheel_tiles()
        np.testing.assert_array_equal(touching(outline, before)[:, :count], theirs)
        found += theirs.sum()
    assert found > 0


@jax.jit
def open_loop(line: track.CentreLine, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """f32[frames, 2] where the hull is after each action, and bool[L] the tiles visited by then."""
    key = jax.random.key(0)
    scene = env.load(line)
    state, _ = env.reset(key, scene)

    def step(state, action):
        state, _ = env.step(key, scene, state, action)
        return state, state.car.position[0]

    state, path = jax.lax.scan(step, state, actions)
    return path, state.visited


def test_random_drives_synchronised_at_the_start_only():
    """The same actions for 300 frames, a third of them bang-bang: the place at frame 100, the tiles by the end."""
    drift, driven, tiles = [], [], 0
    for drive in range(DRIVES):
        game = start(drive)
        count, actions = len(game.track), random_actions(drive, 300)
        path, visited = open_loop(game.centre_line(track.TILES), actions)
        for frame, action in enumerate(actions, 1):
            game.step(action)
            if frame == 100:
                drift.append(np.linalg.norm(path[frame - 1] - game.mechanics().position[0]))
        assert (np.asarray(visited)[:count] != game.visited()).sum() <= 1
        driven.append(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
        tiles += game.tile_visited_count
    assert np.median(driven) > 50
    assert tiles > 10 * DRIVES
    assert np.median(drift) < 0.02  # metres


def test_the_mass_of_the_car_is_box2ds():
    car = start(1).car
    hull, wheel = car.hull, car.wheels[0]
    # Box2D gives the inertia about the body's origin.
    inertia = physics.INERTIA + physics.MASS * physics.CENTRE @ physics.CENTRE
    np.testing.assert_allclose((hull.mass, hull.inertia), (physics.MASS, inertia), rtol=1e-5)
    np.testing.assert_allclose(hull.localCenter, physics.CENTRE, atol=1e-6)
    np.testing.assert_allclose((wheel.mass, wheel.inertia), (physics.WHEEL_MASS, physics.STEER_INERTIA), rtol=1e-5)
