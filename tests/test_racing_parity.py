"""Our car and contacts beside Gymnasium's, on its own tracks and on Bézier tracks built in its world."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.car_racing import Reference

from tutelage.domains.racing import contacts, physics, track
from tutelage.domains.racing.env import RacingEnv, gymnasium_rules
from tutelage.domains.racing.texture import Canvas

DRIVES = 12

advance = jax.jit(physics.advance)
touching = jax.jit(
    lambda outline, car: (
        contacts.touching(outline, car.position[1:], contacts.sides(car)[1:])[None] >> jnp.arange(4)[:, None] & 1
    )
)
under_hull = jax.jit(lambda outline, car: contacts.under_hull(outline, car.position[0], contacts.sides(car)[0]))
env = gymnasium_rules(RacingEnv(repeat=1, canvas=Canvas(texel=4.0)))  # nothing is drawn here
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
        np.testing.assert_allclose(ours.lock, theirs.lock, atol=0.01)


@pytest.mark.slow
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
    outline, count = outlines(game.center_line(track.TILES)), len(game.track)
    found = 0
    for action in random_actions(drive, 150):
        before = game.mechanics()
        game.step(action)
        theirs = game.wheel_tiles()
        np.testing.assert_array_equal(touching(outline, before)[:, :count], theirs)
        hull = game.hull_tiles()
        np.testing.assert_array_equal(under_hull(outline, before)[:count], hull)
        found += theirs.sum() + hull.sum()
    assert found > 0


@pytest.mark.slow
@pytest.mark.parametrize("drive", range(6))
def test_tiles_change_color_when_gymnasiums_do(drive):
    """When a wheel or the hull touches them; only wheels earn the reward."""
    game = start(drive)
    line, count = game.center_line(track.TILES), len(game.track)
    shaded = np.arange(count) % 3 > 0  # the others are as gray as they will be
    actions, hull_only = random_actions(drive, 60), 0
    np.testing.assert_array_equal(touched_at_the_start(line)[:count][shaded], game.touched()[shaded])
    for ours, action in zip(open_loop(line, actions)[2], actions, strict=True):
        game.step(action)
        np.testing.assert_array_equal(ours[:count][shaded], game.touched()[shaded])
        hull_only += (game.touched() & ~game.visited()).sum()
    if drive == 0:
        assert hull_only > 0


AT_ONCE = 400
"""Frames of a compiled drive. Shorter ones are filled up with frames that nobody looks at, so all share one program."""


def open_loop(line: track.CenterLine, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f32[frames, 2] where the hull is after each action, and bool[frames, L] the tiles visited and touched by then."""
    filled = np.pad(actions, ((0, -len(actions) % AT_ONCE), (0, 0)))
    return tuple(np.asarray(x)[: len(actions)] for x in _driven(line, filled))


@jax.jit
def _driven(line: track.CenterLine, actions: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    key = jax.random.key(0)
    scene = env.load(line)

    def step(state, action):
        state, _ = env.step(key, scene, state, action)
        return state, (state.car.position[0], state.visited, state.touched)

    return jax.lax.scan(step, env.reset(key, scene)[0], actions)[1]


@jax.jit
def touched_at_the_start(line: track.CenterLine) -> jax.Array:
    return env.reset(jax.random.key(0), env.load(line))[0].touched


def test_random_drives_synchronized_at_the_start_only():
    """The same actions for 300 frames, a third of them bang-bang: the place at frame 100, the tiles by the end."""
    drift, driven, tiles = [], [], 0
    for drive in range(DRIVES):
        game = start(drive)
        count, actions = len(game.track), random_actions(drive, 300)
        path, visited, _ = open_loop(game.center_line(track.TILES), actions)
        for frame, action in enumerate(actions, 1):
            game.step(action)
            if frame == 100:
                drift.append(np.linalg.norm(path[frame - 1] - game.mechanics().position[0]))
        assert (visited[-1, :count] != game.visited()).sum() <= 1
        driven.append(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
        tiles += game.tile_visited_count
    assert np.median(driven) > 50
    assert tiles > 10 * DRIVES
    assert np.median(drift) < 0.02  # meters


def test_the_mass_of_the_car_is_box2ds():
    car = start(1).car
    hull, wheel = car.hull, car.wheels[0]
    # Box2D gives the inertia about the body's origin.
    inertia = physics.INERTIA + physics.MASS * physics.CENTER @ physics.CENTER
    np.testing.assert_allclose((hull.mass, hull.inertia), (physics.MASS, inertia), rtol=1e-5)
    np.testing.assert_allclose(hull.localCenter, physics.CENTER, atol=1e-6)
    np.testing.assert_allclose((wheel.mass, wheel.inertia), (physics.WHEEL_MASS, physics.STEER_INERTIA), rtol=1e-5)


def drift(game: Reference, actions: np.ndarray) -> np.ndarray:
    """f64[frames]: meters between our hull and Gymnasium's, after the same actions from the same start."""
    path, *_ = open_loop(game.center_line(track.TILES), actions)
    theirs = []
    for action in actions:
        game.step(action)
        theirs.append(np.array(game.car.hull.worldCenter))
    return np.linalg.norm(path - np.array(theirs), axis=1)


def drive(line: track.CenterLine, speed: float, gain: float, look: int, frames: int) -> np.ndarray:
    """f32[frames, 3]: how Gymnasium's car follows a line, aiming some points ahead and keeping a speed."""
    game = Reference(line, draw_every=0)
    game.reset(seed=0)
    points, heading = (np.asarray(value)[: int(line.n)] for value in (line.points, line.heading))
    actions = []
    for _ in range(frames):
        position, angle = np.array(game.car.hull.worldCenter), game.car.hull.angle
        across = 400 * (np.cos(heading - angle) < 0.3)  # where a road crosses itself, stay on this one
        nearest = (((points - position) ** 2).sum(1) + across).argmin()
        aim = points[(nearest + look) % len(points)] - position
        turn = (np.arctan2(-aim[0], aim[1]) - angle + np.pi) % (2 * np.pi) - np.pi
        fast = np.linalg.norm(game.car.hull.linearVelocity) / speed
        actions.append((np.clip(-gain * turn, -1, 1), float(fast < 1), 0.3 * (fast > 1.15)))
        game.step(np.array(actions[-1], np.float32))
    return np.array(actions, np.float32)


@pytest.mark.parametrize("steer", [-0.38, -0.41, -0.42, -0.43, -1.0])
@pytest.mark.parametrize(("before", "joint"), [(-1.0, 0.4134), (-0.39, 0.4349)])  # the latter is all that Box2D allows
def test_a_wheel_leaves_its_steering_lock_when_box2ds_does(before, joint, steer):
    """The motor unwinds what it has pressed against the limit, for some frames, before the wheel turns back."""
    game = start(1)
    actions = np.array([(before, 0.5, 0)] * 10 + [(-1, 0.5, 0)] * 20 + [(steer, 0.5, 0)] * 80, np.float32)
    car, angles = game.mechanics(), []
    for action in actions:
        on_road = jnp.asarray(game.wheel_tiles().any(1))
        game.step(action)
        car = advance(car, action, on_road)
        angles.append((car.angle[1] - car.angle[0], game.car.wheels[0].joint.angle))
        np.testing.assert_allclose(car.lock, game.mechanics().lock, atol=0.01)  # N·m·s, of at most 1.3
    np.testing.assert_allclose(*np.transpose(angles), atol=2e-4)
    assert angles[29][1] == pytest.approx(joint, abs=1e-3)
    assert drift(start(1), actions)[-1] < 2e-3


@pytest.mark.slow
def test_a_hairpin():
    """Two straights and two bends of 12 m radius: full lock, again and again."""
    t = np.linspace(-np.pi / 2, np.pi / 2, 20)
    bend, east = 12 * np.stack([np.cos(t), np.sin(t)], 1), np.array([60.0, 0.0])
    line = track.from_closed_line(np.concatenate([bend + east, -bend - east, bend[:1] + east]), 200)
    actions = drive(line, speed=20, gain=3, look=6, frames=400)
    assert (np.abs(actions[:, 0]) > 0.4).mean() > 0.1
    game = Reference(line, draw_every=0)
    game.reset(seed=0)
    assert drift(game, actions)[[99, 199, 399]].max() < 5e-3


@pytest.mark.slow
@pytest.mark.parametrize(("speed", "gain", "look"), [(45.0, 3.0, 8), (48.0, 4.0, 10), (52.0, 4.0, 10)])
def test_a_thousand_fast_frames_on_a_figure_of_eight(speed, gain, look):
    """We drift from Gymnasium no faster than Gymnasium from itself, started at 1e-7 or 1e-6 m/s instead of at rest.

    All wheels stay on the road. Where one leaves or meets it, a difference of a millimeter may decide in which frame.
    """
    t = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    line = track.from_closed_line(np.stack([120 * np.sin(t), 60 * np.sin(2 * t)], 1), 400)
    actions = drive(line, speed, gain, look, 1000)
    paths = []
    for nudge in (0.0, 1e-7, 1e-6):
        game = Reference(line, draw_every=0)
        game.reset(seed=0)
        game.car.hull.linearVelocity = (nudge, 0.0)
        paths.append([])
        for action in actions:
            game.step(action)
            assert game.wheel_tiles().any(1).all()
            paths[-1].append(np.array(game.car.hull.worldCenter))
    theirs = max(np.linalg.norm(np.subtract(path[-1], paths[0][-1])) for path in paths[1:])
    game.reset(seed=0)
    ours = drift(game, actions)
    assert ours[199] < 2e-3
    assert ours[-1] < max(5 * theirs, 0.02)


@pytest.mark.parametrize("brake", [0.9, np.nextafter(np.float32(0.9), np.float32(1))])
def test_a_brake_of_nine_tenths_locks_wheels_when_gymnasiums_does(brake):
    game = start(1)
    actions = np.array([(0, 1, 0)] * 60 + [(0, 0, brake)] * 20, np.float32)
    assert drift(game, actions)[-1] < 1e-3
