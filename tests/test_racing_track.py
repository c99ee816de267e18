"""Tracks: geometry by hand, bad input, and what must not change when a track is moved or turned."""

import json
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.domains.racing import contacts, physics, suite, track
from tutelage.domains.racing.design import RacingDesign
from tutelage.types import InputError

bezier = jax.jit(track.bezier)
SQUARE = [(-50, -50), (50, -50), (50, 50), (-50, 50)]


def random_level(seed: int, n: int = 12) -> track.Level:
    rng = np.random.default_rng(seed)
    return track.from_points(rng.uniform(-track.PLAYFIELD / 2, track.PLAYFIELD / 2, (n, 2)))


def test_twelve_points_make_468_tiles():
    assert int(bezier(random_level(0)).n) == 468


@pytest.mark.parametrize("n", [3, 5, 12])
def test_the_curve_passes_its_control_points_counter_clockwise(n):
    level = random_level(n, n)
    line = bezier(level)
    count = int(line.n)
    assert count == 39 * n
    points = np.asarray(line.points)[:count]
    np.testing.assert_allclose(points.min(0) + points.max(0), 0, atol=1e-3)
    control = np.asarray(level.points)[:n]
    # Some shift, that of the bounding box, takes every control point to a point of the line.
    shifts = points - control[0]
    distance = np.linalg.norm(points[None, :, None] - (control + shifts[:, None])[:, None], axis=-1)
    assert distance.min(1).max(1).min() < 1e-3
    area = 0.5 * (points[:, 0] * np.roll(points[:, 1], -1) - points[:, 1] * np.roll(points[:, 0], -1)).sum()
    assert area > 0


def test_a_square():
    line = bezier(track.from_points(SQUARE))
    points = np.asarray(line.points)[: int(line.n)]
    assert 400 < float(track.steps(line).sum()) < 460
    assert abs(points[0, 1]) < 3  # it starts in the east
    assert points[0, 0] > 45
    turn = float((track.curvature(line) * track.steps(line)).sum())
    assert turn == pytest.approx(2 * np.pi, abs=1e-3)
    assert not track.overlaps(line).any()


def test_it_starts_at_the_tile_nearest_to_east_of_the_fields_center():
    for seed in range(20):
        line = bezier(random_level(seed))
        angle = np.abs(np.arctan2(*np.asarray(line.points)[: int(line.n), ::-1].T))
        assert angle[0] == angle.min()


@pytest.mark.parametrize(
    ("points", "first"),
    [
        (SQUARE, (-50, -50)),
        ([(10, -60), (-60, 10), (50, 50)], (-60, 10)),
        ([(10, -60), (-10, -60), (0, 50)], (-10, -60)),
    ],
)
def test_it_may_start_at_the_first_control_point_clockwise_from_the_south(points, first):
    level = track.from_points(points)
    line, east = track.bezier(level, start_east=False), bezier(level)
    count = int(line.n)
    shift = np.abs(np.asarray(line.points)[:count] - east.points[0]).sum(1).argmin()
    np.testing.assert_array_equal(np.roll(line.points[:count], -shift, 0), east.points[:count])
    # the road is as far from the others as the control points are
    starts = np.asarray(line.points)[: count : track.SAMPLES]
    np.testing.assert_allclose(
        np.sort(np.linalg.norm(starts - starts[0], axis=1)),
        np.sort(np.linalg.norm(np.subtract(points, first), axis=1)),
        atol=1e-3,
    )


def test_a_figure_of_eight_overlaps_itself():
    t = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    line = track.from_closed_line(np.stack([100 * np.sin(t), 60 * np.sin(2 * t)], 1), 400)
    share = float(track.overlaps(line).mean())
    assert 0.02 < share < 0.3


def test_tiles_share_their_ends():
    line = bezier(random_level(1))
    corners = np.asarray(track.tiles(line))
    np.testing.assert_array_equal(corners[1:, 2:], corners[:-1, [1, 0]])
    np.testing.assert_allclose(np.linalg.norm(corners[:, 0] - corners[:, 1], axis=1), 80 / 6, rtol=1e-5)


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ([(0, 0), (1, 1)], "at least 3 control points"),
        ([(0, 0), (1, 1), (2, 2), (5, 5)], "lie on one line"),
        ([(0, 0), (1, 0), (float("nan"), 2)], "not a finite number"),
        ([(0, 0), (1, 0), (0, 1), (1, 0)], "are the same"),
        ([(0, 0), (1, 0), (0, 1), (1, 1e-9)], "nearer than 0.1 m"),
        ([(0, 0), (3000, 0), (0, 3000)], "3000 m wide or high"),
        ([(0, 0), (1e39, 0), (0, 1e39)], "Scale it down"),
        ([("a", "b"), (1, 0), (0, 1)], "rows of equally many numbers"),
        ([(0, 0), (1, 0), (0,)], "rows of equally many numbers"),
        ([(k, k * k) for k in range(13)], "at most 12"),
        ([0, 1, 2], "shape"),
    ],
)
def test_bad_control_points_get_a_sentence(points, sentence):
    with pytest.raises(InputError, match=sentence):
        track.from_points(points)


def test_center_lines_are_closed_polygons():
    t = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    circle = 50 * np.stack([np.cos(t), np.sin(t)], 1)
    line = track.from_closed_line(circle, 256)
    assert float(track.steps(line).sum()) == pytest.approx(100 * np.pi, rel=1e-2)
    np.testing.assert_allclose(line.heading[0], 0, atol=0.06)
    np.testing.assert_allclose(track.from_closed_line([*circle, circle[0]], 256).points, line.points, atol=1e-3)
    with pytest.raises(InputError, match="not closed"):
        track.from_closed_line(circle[:40], 256)
    with pytest.raises(InputError, match=r"not closed: its ends are .* of its length"):
        track.from_closed_line(np.concatenate([circle[:20], circle[25:48]]), 256)  # a long straight is none of its ends
    for size in (-1, 0, 2, 10**7):
        with pytest.raises(InputError, match="3 to 8192 points"):
            track.from_closed_line(circle, size)
    with pytest.raises(InputError, match="at least 3"):
        track.from_closed_line(circle[:2], 256)


def test_cells_of_a_sketch_have_centers():
    centers = track.cell_center(jnp.array([0, 9, 94]))
    np.testing.assert_allclose(centers, np.array([(-150, -150), (150, -150), (-50 / 3, 150)]), rtol=1e-5)
    np.testing.assert_array_equal(track.cell_of(track.cell_center(jnp.arange(100))), np.arange(100))


def test_real_circuits_are_closed_and_half_of_one_is_not():
    for circuit in suite.circuits():
        track.from_closed_line(circuit.points, 100)
        with pytest.raises(InputError, match="not closed"):
            track.from_closed_line(suite.curve(circuit.points, 200)[:100], 100)


def test_a_spline_fits_a_circle():
    t = np.linspace(0, 2 * np.pi, 50, endpoint=False)
    fit = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "fit_circuits.py"))["fit"]
    control, error = fit(100 * np.stack([np.cos(t), np.sin(t)], 1), 16)
    assert error < 0.5
    assert np.abs(np.linalg.norm(suite.curve(control, 300), axis=1) - 100).max() < 0.5


@jax.jit
def _drive(line: track.CenterLine) -> tuple[jax.Array, jax.Array]:
    """Tiles visited in each frame of a fixed drive, and the speed of the car."""
    outline = contacts.outlines(track.tiles(line))

    def frame(carry, action):
        car, on_road, visited = carry
        touched = contacts.touching(outline, car.position[1:], contacts.sides(car)[1:])
        car = physics.advance(car, action, on_road)
        visited |= touched > 0
        return (car, contacts.wheels_of(touched), visited), (visited.sum(), jnp.linalg.norm(car.velocity[0]))

    # The wheels start where the joints want them: Gymnasium's unturned offsets are not invariant.
    car = physics.place(line.points[0], line.heading[0])
    wheels = line.points[0] + physics.rotate(line.heading[0], jnp.asarray(physics.ANCHORS, jnp.float32))
    car = car._replace(position=car.position.at[1:].set(wheels))
    t = jnp.arange(100) / 15
    actions = jnp.stack([0.2 * jnp.sin(t), jnp.full(100, 0.7), jnp.zeros(100)], 1)
    state = (car, jnp.ones(4, bool), jnp.zeros(line.points.shape[0], bool))
    return jax.lax.scan(frame, state, actions)[1]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.floats(-np.pi, np.pi), st.tuples(st.floats(-100, 100), st.floats(-100, 100)))
def test_moving_and_turning_a_track_leaves_rewards_unchanged(seed, angle, shift):
    line = bezier(random_level(seed))
    turned = physics.rotate(jnp.float32(angle), line.points) + jnp.array(shift, jnp.float32)
    moved = track.CenterLine(turned, line.heading + jnp.float32(angle), line.n)
    (tiles, speed), (moved_tiles, moved_speed) = _drive(line), _drive(moved)
    np.testing.assert_allclose(speed, moved_speed, atol=0.05)
    assert np.abs(tiles - moved_tiles).max() <= 1  # a tile that is met in this frame or the next
    assert (tiles != moved_tiles).mean() < 0.1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 12))
def test_levels_round_trip_through_json(seed, n):
    design, level = RacingDesign(), random_level(seed, n)
    again = design.from_json(json.loads(json.dumps(design.to_json(level))))
    for a, b in zip(level, again, strict=True):
        np.testing.assert_array_equal(a, b)
