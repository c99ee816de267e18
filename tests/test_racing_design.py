"""Levels: drawn, edited, mutated, described; and the benchmarks."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.car_racing import Reference
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.domains.racing import domain, gymnasium_tracks, suite, track
from tutelage.domains.racing.design import REACH, RELEASED_SPACING, RacingDesign
from tutelage.domains.racing.env import View
from tutelage.types import Design, Env, InputError

DESIGN = RacingDesign()
KEY = jax.random.key(0)
CIRCUITS = {circuit.name: circuit for circuit in suite.circuits()}
sample, mutate, valid = jax.jit(DESIGN.sample), jax.jit(DESIGN.mutate), jax.jit(DESIGN.valid)


def test_contracts():
    assert isinstance(DESIGN, Design)
    assert isinstance(DESIGN.editor, Env)


@pytest.mark.slow
def test_samples_are_valid():
    levels = jax.vmap(DESIGN.sample)(jax.random.split(KEY, 200))
    assert jax.vmap(DESIGN.valid)(levels).all()
    assert np.abs(levels.points).max() <= REACH


def test_control_points_are_uniform_in_the_papers_disc_or_the_released_codes_square():
    keys = jax.random.split(KEY, 2000)
    disc, square = (
        np.asarray(jax.vmap(RacingDesign(disc=d).sample)(keys).points).reshape(-1, 2) for d in (True, False)
    )
    radius = np.linalg.norm(disc, axis=1)
    assert radius.max() <= REACH + 1e-3
    # of a disc, half the area lies within 1/√2 of its radius, and a quarter in each quadrant
    assert (radius < REACH / np.sqrt(2)).mean() == pytest.approx(0.5, abs=0.02)
    assert ((disc > 0) == (True, False)).all(1).mean() == pytest.approx(0.25, abs=0.02)
    assert (np.linalg.norm(square, axis=1) > REACH).mean() == pytest.approx(1 - np.pi / 4, abs=0.02)


def test_points_too_close_together_are_drawn_again():
    def closest(points):
        """As the released code measures it: clockwise from the south, by |Δx + Δy|."""
        spoke = points - points.mean(0)
        return np.abs(np.diff(points[np.argsort(np.arctan2(*spoke.T))], axis=0).sum(1)).min()

    keys = jax.random.split(KEY, 300)
    spaced, free = (
        np.asarray(jax.vmap(RacingDesign(disc=False, spacing=spacing).sample)(keys).points)
        for spacing in (RELEASED_SPACING, 0.0)
    )
    assert min(map(closest, spaced)) >= RELEASED_SPACING - 1e-3
    good = np.array([closest(points) >= RELEASED_SPACING for points in free])
    assert 0.02 < good.mean() < 0.8
    np.testing.assert_array_equal(spaced[good], free[good])
    with pytest.raises(InputError, match="0 m or more"):
        RacingDesign(spacing=-1.0)


@pytest.mark.parametrize(
    ("points", "n"),
    [
        ([(0, 0), (50, 0), (0, 50)], 2),
        ([(0, 0), (50, 50), (20, 20)], 3),
        ([(0, 0), (np.nan, 50), (0, 20)], 3),
        ([(0, 0), (50, 0), (0, 50), (50, 0)], 4),
    ],
)
def test_what_is_no_track(points, n):
    padded = np.zeros((12, 2), np.float32)
    padded[: len(points)] = points
    assert not valid(track.Level(jnp.asarray(padded), jnp.int32(n)))


@pytest.mark.slow
def test_the_editor_masks_what_it_has_chosen():
    editor = DESIGN.editor
    state, obs = editor.reset(KEY, ())
    assert obs.mask.all()
    assert obs.noise.shape == (16,)
    cells, noises = [], []
    for step in range(12):
        cell = int(np.flatnonzero(obs.mask)[step * 5])
        cells.append(cell)
        noises.append(np.asarray(obs.noise))
        state, out = editor.step(jax.random.key(1 + step), (), state, jnp.int32(cell))
        obs = out.obs
        assert int(obs.time) == step + 1
        assert int(obs.sketch.sum()) == step + 1
        assert not obs.mask[np.array(cells)].any()
        np.testing.assert_array_equal(obs.sketch.ravel() > 0, ~obs.mask)
        assert bool(out.terminated) == (step == editor.horizon - 1)
    assert len({noise.tobytes() for noise in noises}) == 12
    level = DESIGN.build(KEY, state)
    assert valid(level)
    np.testing.assert_array_equal(track.cell_of(level.points), cells)
    np.testing.assert_allclose(level.points[0], (-150, -150), rtol=1e-5)


def test_pictures_show_the_start_that_the_env_has(monkeypatch):
    monkeypatch.setattr("tutelage.domains.racing.image.birds_eye", lambda line: line.points[0])
    level, starts = DESIGN.sample(KEY), []
    for start_east in (True, False):
        racing = domain(design=RacingDesign(start_east=start_east))
        starts.append(racing.design.image(level))
        np.testing.assert_array_equal(starts[-1], track.road(level, racing.env.start_east).points[0])
    assert np.linalg.norm(starts[0] - starts[1]) > 1


def test_a_continuous_editor_takes_coordinates():
    """Points go where the action says; the sketch shows their cells, and none is masked."""
    design = RacingDesign(continuous=True)
    editor = design.editor
    assert editor.actions.high == (REACH, REACH)
    state, _ = editor.reset(KEY, ())
    angle = 2 * np.pi * np.arange(12) / 12
    points = 120 * np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)
    for point in points:
        state, out = editor.step(KEY, (), state, jnp.asarray(point))
    assert out.obs.mask.all()
    cells = np.floor((points / (2 * REACH) + 0.5) * 10).astype(int)
    expected = np.zeros((10, 10))
    expected[cells[:, 1], cells[:, 0]] = 1
    np.testing.assert_array_equal(out.obs.sketch, expected)
    level = design.build(KEY, state)
    assert valid(level)
    assert np.abs(level.points - points).max() <= 0.5
    together = design.build(KEY, state._replace(points=jnp.full((12, 2), REACH)))
    assert valid(together)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_mutations_are_small_and_stay_valid(seed):
    key = jax.random.key(seed)
    level = sample(key)
    for i in range(12):
        child = mutate(jax.random.fold_in(key, i), level)
        change = int(child.n) - int(level.n)
        assert change in (-1, 0, 1)
        before, after = ({tuple(p) for p in np.asarray(x.points)[: int(x.n)].tolist()} for x in (level, child))
        assert len(before - after) <= 1
        assert len(after - before) <= 1
        if change == 0 and before != after:  # else the edit would have left Θ
            (old,), (new,) = before - after, after - before
            assert np.linalg.norm(np.subtract(old, new)) <= np.sqrt(2) * DESIGN.shift + 1e-3
            assert np.linalg.norm(new) <= REACH + 1e-3
        assert valid(child)
        level = child


@pytest.mark.slow
def test_mutations_can_reach_few_points_and_many_and_never_leave_the_levels():
    def walk(level, key):
        level = DESIGN.mutate(key, level)
        return level, (level.n, DESIGN.valid(level))

    def long_walk(key):
        return jax.lax.scan(walk, DESIGN.sample(key), jax.random.split(key, 500))[1]

    counts, valid = jax.jit(jax.vmap(long_walk))(jax.random.split(KEY, 50))
    assert bool(valid.all())
    assert int(counts.min()) < 10
    assert int(counts.min()) >= 3
    assert int(counts.max()) == 12


def test_describe_a_convex_track():
    metrics = jax.jit(DESIGN.describe)(track.from_points([(-80, -80), (80, -80), (80, 80), (-80, 80)]))
    assert float(metrics["convexity"]) > 0.85
    assert float(metrics["overlap"]) == 0
    assert 640 < float(metrics["track_length"]) < 740
    assert float(metrics["mean_curvature"]) * float(metrics["track_length"]) == pytest.approx(2 * np.pi, rel=0.1)
    assert float(metrics["max_curvature"]) > float(metrics["mean_curvature"])


CIRCLE = [[50 * np.cos(t), 50 * np.sin(t), t] for t in np.linspace(0, 2 * np.pi, 60, endpoint=False)]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([1, 2], "A track is"),
        ({"point": []}, "A track is"),
        ({"line": CIRCLE}, "A track is"),
        ({"points": "abc"}, "rows of equally many numbers"),
        ({"points": [[0, 0], [1]]}, "rows of equally many numbers"),
        ({"points": [["0", "0"], ["50", "0"], ["0", "50"]]}, "rows of equally many numbers"),
        ({"points": [[0, 0], [10**400, 0], [0, 1]]}, "rows of equally many numbers"),
        ({"points": []}, "shape"),
        ({"line": CIRCLE[:2], "size": 4}, "at least 3"),
        ({"line": CIRCLE, "size": 59}, "3 to size=59 rows"),
        ({"line": [[1.0, 2.0, 0.0]] * 5, "size": 5}, "lie on one line"),
        ({"line": [[x, x, 0.0] for x in range(5)], "size": 5}, "lie on one line"),
        ({"line": [CIRCLE[0], *CIRCLE], "size": 70}, "the same, or nearer"),
        ({"line": [[1e300 * x, 1e300 * y, t] for x, y, t in CIRCLE], "size": 60}, "Scale it down"),
        ({"line": CIRCLE, "size": 10**7}, "3 to 8192 points"),
        ({"line": CIRCLE, "size": -1}, "3 to 8192 points"),
        ({"line": CIRCLE * 500, "size": 30_000}, "3 to 8192 points"),
    ],
)
def test_bad_json_gets_a_sentence(value, sentence):
    with pytest.raises(InputError, match=sentence):
        DESIGN.from_json(value)


@pytest.mark.slow
def test_lines_that_are_no_levels():
    assert DESIGN.valid(DESIGN.from_json({"line": CIRCLE, "size": 70}))
    good = DESIGN.from_json({"line": CIRCLE, "size": 60})
    for points in (jnp.ones((60, 2)), good.points * jnp.array([1.0, 0.0]), good.points.at[3].set(good.points[4])):
        assert not DESIGN.valid(good._replace(points=points))
    assert not DESIGN.valid(good._replace(n=jnp.int32(2)))
    assert not DESIGN.valid(jax.tree.map(lambda x: jnp.resize(x, (9000, *x.shape[1:])) if x.ndim else x, good))


@pytest.mark.slow
def test_a_road_is_a_level_if_it_fits():
    angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], 1)
    near, far = (track.from_closed_line(radius * circle, 300) for radius in (150, 250))
    assert bool(DESIGN.valid(near))
    assert not bool(DESIGN.valid(far))
    assert float(DESIGN.describe(near)["track_length"]) == pytest.approx(2 * np.pi * 150, rel=0.01)


def test_center_lines_round_trip_through_json():
    for line in (suite.center_line(CIRCUITS["Monaco"], 600), jax.jit(gymnasium_tracks.draw)(KEY)):
        again = DESIGN.from_json(json.loads(json.dumps(DESIGN.to_json(line))))
        for a, b in zip(line, again, strict=True):
            np.testing.assert_array_equal(a, b)


def test_twenty_circuits_of_the_right_length():
    circuits = suite.circuits()
    assert len(circuits) == 20
    for circuit in circuits:
        line = suite.center_line(circuit)
        assert float(track.steps(line).sum()) == pytest.approx(circuit.length, rel=1e-3)
        assert circuit.frames in (1500, 2000, 2500)
        assert np.abs(line.points).max() + track.HALF_WIDTH < suite.F1_FIELD
    assert CIRCUITS["Monaco"].circuit == "Circuit de Monaco"


def test_circuits_are_driven_in_the_direction_of_their_races():
    counter_clockwise = set()
    for circuit in suite.circuits():
        x, y = suite.curve(circuit.points, 1000).T
        if (x * np.roll(y, -1) - y * np.roll(x, -1)).sum() > 0:
            counter_clockwise.add(circuit.name)
    assert counter_clockwise == {"Brazil", "Singapore", "USA"}


def test_the_domain():
    racing = domain(View(crop=True, stack=2))
    assert {name: len(levels) for name, levels in racing.suites.items()} == {
        "f1": 20,
        "f1-released": 20,
        "bezier": 10,
        "original": 1,
    }
    for levels in racing.suites.values():
        for level in levels:
            assert level.env.view == racing.env.view
            assert level.env.boundary
            assert level.env.idle_limit is None
    monaco = next(level for level in racing.suites["f1"] if level.name == "Monaco")
    assert monaco.env.frames == 1500
    assert monaco.draw(KEY).points.shape == (5000, 2)


def test_held_out_tracks_are_fixed_and_different():
    levels = domain().suites["bezier"]
    assert [level.name for level in levels] == [f"Bezier{i}" for i in range(1, 11)]
    first, again, other = (
        np.asarray(level.draw(jax.random.key(i)).points) for i, level in enumerate((levels[0], levels[0], levels[1]))
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1
    assert len({level.env for level in levels}) == 1, "one environment: a program compiled for one serves all"


def test_tracks_near_a_circle_turn_less():
    @partial(jax.jit, static_argnums=0)
    def look(design):
        levels = jax.vmap(design.sample)(jax.random.split(KEY, 16))
        return jax.vmap(design.valid)(levels), jax.vmap(design.describe)(levels)

    (valid, wild), (valid_too, gentle), (_, circle) = (look(RacingDesign(bumps=bumps)) for bumps in (None, 20.0, 0.0))
    assert valid.all()
    assert valid_too.all()
    for measure in ("mean_curvature", "max_curvature"):
        assert gentle[measure].mean() < 0.75 * wild[measure].mean()
        assert circle[measure].mean() < gentle[measure].mean()
    np.testing.assert_allclose(circle["track_length"] * circle["mean_curvature"], 2 * np.pi, rtol=0.05)
    with pytest.raises(InputError, match="0 to 42 m"):
        RacingDesign(bumps=100.0)


def test_a_road_of_ones_own():
    t = np.linspace(0, 2 * np.pi, 80, endpoint=False)
    circle = np.stack([np.cos(t), np.sin(t)], 1)
    level = suite.on_line("Ring", track.from_closed_line(100 * circle, 200), 500, View())
    assert level.env.frames == 500
    assert level.env.candidates == 200
    assert level.env.canvas.extent == 112
    with pytest.raises(InputError, match="beyond its field"):
        suite.on_line("Ring", track.from_closed_line(600 * circle, 200), 500, View())
    with pytest.raises(InputError, match="3 to 8192 points, the most that a texture can number; got 9000"):
        track.from_closed_line(100 * circle, 9000)
    long = jax.tree.map(lambda x: jnp.resize(x, (9000, *x.shape[1:])) if x.ndim else x, level.draw(KEY))
    with pytest.raises(InputError, match="got 9000"):
        suite.on_line("Ring", long, 500, View())


@pytest.mark.slow
def test_a_circuit_can_be_driven():
    monaco = next(level for level in domain().suites["f1"] if level.name == "Monaco")
    env, line = monaco.env, monaco.draw(KEY)
    scene = jax.jit(env.load)(line)
    state, obs = jax.jit(env.reset)(KEY, scene)
    assert obs.shape == (96, 96, 3)
    step = jax.jit(env.step)
    for _ in range(4):
        state, out = step(KEY, scene, state, jnp.array([0.0, 0.5, 0.0]))
    assert int(state.tiles) > 10
    assert state.on_road.any()
    road = np.asarray(out.obs[:84]).astype(int)
    assert (np.ptp(road, axis=-1) < 8).mean() > 0.1  # gray is in sight


def test_original_tracks_are_gymnasiums():
    """From the same checkpoints, the same road."""
    trace = jax.jit(gymnasium_tracks.trace)

    class Watched(Reference):
        def _create_track(self):
            state = self.np_random.bit_generator.state
            turn = 2 * np.pi / 12
            alpha, radius = np.empty(12), np.empty(12)
            for k in range(12):
                alpha[k] = turn * k + self.np_random.uniform(0, turn)
                radius[k] = self.np_random.uniform(50, 150)
            alpha[[0, -1]], radius[[0, -1]] = (0, 11 * turn), 225
            self.np_random.bit_generator.state = state
            self.checkpoints = alpha.astype(np.float32), radius.astype(np.float32)
            return super()._create_track()

    for seed in range(8):
        game = Watched(draw_every=0)
        game.reset(seed=seed)
        line, found = trace(*game.checkpoints)
        theirs = np.array(game.track)
        assert found
        assert int(line.n) == len(theirs)
        np.testing.assert_allclose(line.points[: len(theirs)], theirs[:, 2:], atol=0.01)
        np.testing.assert_allclose(line.heading[: len(theirs)], theirs[:, 1], atol=1e-3)


@pytest.mark.slow
def test_original_tracks_from_keys():
    lines = jax.jit(jax.vmap(gymnasium_tracks.draw))(jax.random.split(KEY, 16))
    assert len(set(np.asarray(lines.n).tolist())) > 4
    assert (lines.n > 200).all()
    assert np.abs(lines.points).max() + track.HALF_WIDTH + track.BORDER < 256
    for i in range(16):
        line = jax.tree.map(lambda leaf, i=i: leaf[i], lines)
        # Gymnasium leaves a point out where ends meet
        assert float(track.steps(line).max()) < 2.1 * gymnasium_tracks.STEP
