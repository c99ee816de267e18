"""Frames beside Gymnasium's `state_pixels`; side-by-side pictures go to `artefacts/racing/frames.png`."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.car_racing import Reference
from gymnasium.envs.box2d import car_racing
from PIL import Image

from tutelage.domains.racing import image, pixels, suite, texture, track
from tutelage.domains.racing.design import RacingDesign
from tutelage.domains.racing.env import WHOLE_VIEW
from tutelage.evaluation.images import gif

ARTEFACTS = Path(__file__).parent.parent / "artefacts" / "racing"
CANVAS = texture.Canvas(extent=256.0)  # wide enough for Gymnasium's own tracks, too

paint = jax.jit(texture.paint, static_argnums=0)
draw = jax.jit(pixels.draw, static_argnums=(0, 6))

Pair = tuple[np.ndarray, np.ndarray]  # u8[96, 96, 3] ours and Gymnasium's


@jax.jit
def random_line(key):
    points = jax.random.uniform(key, (12, 2), minval=-track.PLAYFIELD / 2, maxval=track.PLAYFIELD / 2)
    return track.bezier(track.Level(points, jnp.int32(12)))


class Painted:
    """Gymnasium's game, started on a track, and our texture of the same track."""

    def __init__(self, line: track.CenterLine | None, seed: int = 0, canvas=CANVAS, field=track.PLAYFIELD) -> None:
        self.game = Reference(line, draw_every=4)
        self.theirs, _ = self.game.reset(seed=seed)
        self.canvas, self.field = canvas, field
        self.size = max(track.TILES, len(self.game.track))
        self.texels = paint(canvas, self.game.center_line(self.size))

    def ours(self, frame: int, score: float) -> np.ndarray:
        touched = np.pad(self.game.touched(), (0, self.size - len(self.game.track)))
        scene = (self.texels, touched, self.game.mechanics(), jnp.int32(frame), jnp.float32(score))
        return np.asarray(draw(self.canvas, *scene, self.field))

    def drive(self, frames: int) -> Iterator[Pair]:
        """Every fourth frame along the road, zoom and all."""
        count = len(self.game.track)
        heading = np.array([row[1] for row in self.game.track])
        points = np.array([row[2:] for row in self.game.track])
        for frame in range(frames + 1):
            if frame % 4 == 0:
                score = self.game.tile_visited_count * 1000 / count - 0.1 * max(frame - 1, 0)
                yield self.ours(frame, score), self.theirs
            car = self.game.mechanics()
            nearest = ((points - np.asarray(car.position[0])) ** 2).sum(1).argmin()
            turn = heading[(nearest + 3) % count] - float(car.angle[0])
            turn = (turn + np.pi) % (2 * np.pi) - np.pi
            self.theirs = self.game.step(np.array([np.clip(-2 * turn, -1, 1), 0.3, 0], np.float32))[0]

    def stand(self, tiles: Iterable[int]) -> Iterator[Pair]:
        """The views from these tiles, long after the zoom."""
        game = self.game
        game.draw_every, game.t, game.reward = 1, 2.0, 0.0
        for tile in tiles:
            game.car.destroy()
            game.car = car_racing.Car(game.world, *game.track[tile][1:])
            yield self.ours(100, 0.0), game._render("state_pixels")


def compare(pairs: list[Pair]) -> tuple[np.ndarray, np.ndarray]:
    """f64[n]: the mean absolute difference of each pair, and the share of its pixels within 5 levels."""
    differences = [np.abs(ours.astype(int) - theirs) for ours, theirs in pairs]
    return (
        np.array([difference.mean() for difference in differences]),
        np.array([(difference.max(-1) <= 5).mean() for difference in differences]),
    )


@pytest.fixture(scope="module")
def sheet():
    """Pairs for the picture of all tests: a row of ours, Gymnasium's and ten times the difference for each."""
    pairs: list[Pair] = []
    yield pairs
    rows = [
        np.concatenate([ours, theirs, np.minimum(10 * np.abs(ours.astype(int) - theirs), 255)], 1)
        for ours, theirs in pairs
    ]
    whole = Image.fromarray(np.concatenate(rows).astype(np.uint8))
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    whole.resize((2 * whole.width, 2 * whole.height), Image.Resampling.NEAREST).save(
        ARTEFACTS / "frames.png", optimize=True
    )


def test_frames_are_gymnasiums(sheet):
    pairs = []
    for drive in range(4):
        painted = Painted(random_line(jax.random.key(drive)) if drive % 2 == 0 else None, seed=drive)
        pairs += painted.drive(120)
        if drive < 2:
            sheet.append(pairs[-1])
    error, near = compare(pairs)
    assert len(pairs) >= 100
    assert error.mean() < 0.3  # of 255
    assert error.max() < 0.8
    assert near.mean() > 0.98


def test_frames_in_a_bend_about_the_roads_own_side(sheet):
    """On the way into this bend, tiles and curbs end in a point; none may run on beyond it."""
    level = suite.bezier(WHOLE_VIEW)[3].draw(jax.random.key(0))
    pairs = list(Painted(track.bezier(level)).stand(range(367, 395, 2)))
    sheet.append(pairs[7])
    error, near = compare(pairs)
    assert error.max() < 0.5
    assert near.mean() > 0.98


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Monaco", "USA"])
def test_frames_of_circuits(name, sheet, monkeypatch):
    """In the first second and then all along the lap, on a field wide enough; tiles are shorter than a pixel."""
    monkeypatch.setattr(car_racing, "PLAYFIELD", suite.F1_FIELD)
    monkeypatch.setattr(car_racing, "GRASS_DIM", suite.F1_FIELD / 20)
    line = suite.center_line(next(circuit for circuit in suite.circuits() if circuit.name == name))
    painted = Painted(line, canvas=texture.Canvas(extent=400.0), field=suite.F1_FIELD)
    pairs = [*painted.drive(48), *painted.stand(range(0, suite.F1_TILES, 125))]
    if name == "Monaco":
        sheet.append(pairs[27])
    error, near = compare(pairs)
    assert error.mean() < 0.5
    assert error.max() < 0.8
    assert near.mean() > 0.98


def exact_shares(canvas: texture.Canvas, line: track.CenterLine, samples: int = 3) -> np.ndarray:
    """f64[3, side, side]: how much of each texel Gymnasium's polygons, outlines and all, leave road, white and red."""
    side, step = canvas.side * samples, canvas.texel / samples
    top = np.zeros((side, side), np.uint8)

    def fill(polygon: np.ndarray, paint: int) -> None:
        """By the even-odd rule: a polygon that crosses itself is two triangles."""
        low = ((polygon.min(0) - texture.GROW) // step).astype(int)
        high = ((polygon.max(0) + texture.GROW) // step + 2).astype(int)
        x, y = ((np.arange(a, b) + 0.5) * step for a, b in zip(low, high, strict=True))
        y = y[:, None]
        inside, outline = np.zeros((2, y.size, x.size), bool)
        for (x0, y0), (x1, y1) in pairwise([*polygon, polygon[0]]):
            edge = np.array([x1 - x0, y1 - y0])
            if edge[1]:
                inside ^= ((y0 > y) != (y1 > y)) & (x < edge[0] * (y - y0) / edge[1] + x0)
            along = np.clip(((x - x0) * edge[0] + (y - y0) * edge[1]) / max(edge @ edge, 1e-12), 0, 1)
            outline |= np.hypot(x - x0 - along * edge[0], y - y0 - along * edge[1]) < texture.GROW
        top[low[1] : high[1], low[0] : high[0]][inside | outline] = paint

    has_curb, curb = track.curbs(line)
    corners, curb = (np.asarray(each, np.float64) + canvas.extent for each in (track.tiles(line), curb))
    for i in range(int(line.n)):
        fill(corners[i], 1)
        if has_curb[i]:
            fill(curb[i], 2 + i % 2)
    blocks = top.reshape(canvas.side, samples, canvas.side, samples)
    return np.stack([(blocks == paint).mean((1, 3)) for paint in (1, 2, 3)])


# Random tracks with bends about the road's own side, the first three the worst among 200.
@pytest.mark.slow
@pytest.mark.parametrize("seed", [191, 115, 158, 77, 106, 62])
def test_the_painted_area_is_that_of_the_polygons(seed):
    canvas = texture.BEZIER_CANVAS
    line = track.bezier(RacingDesign(disc=False).sample(jax.random.key(seed)))
    painted = texture.unpack(paint(canvas, line)[: canvas.side])
    ours, exact = np.stack(painted[:3]), exact_shares(canvas, line)
    blocks = canvas.side // 6
    difference = canvas.texel**2 * (ours - exact).reshape(3, blocks, 6, blocks, 6).sum((2, 4))
    assert np.abs(difference).max() < 0.5  # square meters, in any square of 2.4 m by 2.4 m
    np.testing.assert_allclose(ours.sum((1, 2)), exact.sum((1, 2)), rtol=0.02)


def test_texels_pack_and_unpack():
    share = jnp.linspace(0, 1, 9)
    before = texture.Paint(share, share[::-1] / 2, share / 3, jnp.arange(9, dtype=jnp.uint32) * 1000)
    after = texture.unpack(texture.pack(before))
    np.testing.assert_allclose(after.road, before.road, atol=0.5 / 127 + 1e-6)
    np.testing.assert_allclose(after.white, before.white, atol=0.5 / 63 + 1e-6)
    np.testing.assert_allclose(after.red, before.red, atol=0.5 / 63 + 1e-6)
    np.testing.assert_array_equal(after.tile, before.tile)


@pytest.mark.slow
def test_the_pyramid_averages():
    line = random_line(jax.random.key(0))
    picture_ = paint(CANVAS, line)
    side = CANVAS.side
    shares = []
    for level, (row, column) in enumerate(CANVAS.corners):
        size = side >> level
        shares.append(float(texture.unpack(picture_[row : row + size, column : column + size]).road.mean()))
    np.testing.assert_allclose(shares, shares[0], rtol=0.06)  # each halving rounds down
    # The area of the road is its length times its width, but for overlaps.
    area = shares[0] * (side * CANVAS.texel) ** 2
    assert area == pytest.approx(float(track.steps(line).sum()) * 2 * track.HALF_WIDTH, rel=0.1)


@pytest.mark.slow
def test_birds_eye_and_gif(tmp_path):
    for seed in range(4):
        line = random_line(jax.random.key(seed))
        above = np.asarray(image.birds_eye(line, size=192))
        assert above.shape == (192, 192, 3)
        row, column = np.nonzero((above == image.START).all(-1))
        arrow = 2 * np.stack([column + 0.5, 192 - row - 0.5], 1) - 192 - np.asarray(line.points[0])  # meters
        heading = float(line.heading[0])
        ahead = arrow @ (-np.sin(heading), np.cos(heading))
        assert -2 < ahead.min() < 2 < 15 < ahead.max()  # from the start along the road
        assert abs((arrow @ (np.cos(heading), np.sin(heading))).mean()) < 1
    gif(tmp_path / "drive.gif", [above, above[::-1]], scale=2)
    with Image.open(tmp_path / "drive.gif") as video:
        assert video.n_frames == 2
        assert video.size == (384, 384)
