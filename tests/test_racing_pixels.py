"""Frames beside Gymnasium's `state_pixels`; side-by-side pictures go to `artefacts/racing/`."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from tutelage.domains.pictures import gif
from tutelage.domains.racing import picture, pixels, texture, track
from tutelage.interop.car_racing import Reference

ARTEFACTS = Path(__file__).parent.parent / "artefacts" / "racing"
CANVAS = texture.Canvas(extent=256.0)  # wide enough for Gymnasium's own tracks, too

paint = jax.jit(lambda line: texture.paint(CANVAS, line))
draw = jax.jit(lambda *scene: pixels.draw(CANVAS, *scene))


@jax.jit
def random_line(key):
    points = jax.random.uniform(key, (12, 2), minval=-track.PLAYFIELD / 2, maxval=track.PLAYFIELD / 2)
    return track.bezier(track.Level(points, jnp.int32(12)))


def frames(drive: int):
    """Pairs of frames, ours and Gymnasium's, at the poses of a drive along the road, zoom and all."""
    game = Reference(random_line(jax.random.key(drive)) if drive % 2 == 0 else None, draw_every=4)
    theirs, _ = game.reset(seed=drive)
    line = game.centre_line(track.TILES)
    count, texels = len(game.track), paint(line)
    heading = np.array([row[1] for row in game.track])
    points = np.array([row[2:] for row in game.track])
    for frame in range(121):
        car = game.mechanics()
        if frame % 4 == 0:
            visited = np.zeros(track.TILES, bool)
            visited[:count] = game.visited()
            score = game.tile_visited_count * 1000 / count - 0.1 * max(frame - 1, 0)
            yield np.asarray(draw(texels, visited, car, jnp.int32(frame), jnp.float32(score))), theirs
        nearest = ((points - np.asarray(car.position[0])) ** 2).sum(1).argmin()
        turn = heading[(nearest + 3) % count] - float(car.angle[0])
        turn = (turn + np.pi) % (2 * np.pi) - np.pi
        theirs = game.step(np.array([np.clip(-2 * turn, -1, 1), 0.3, 0], np.float32))[0]


def test_frames_are_gymnasiums():
    errors, near, rows = [], [], []
    for drive in range(4):
        for k, (ours, theirs) in enumerate(frames(drive)):
            difference = np.abs(ours.astype(int) - theirs)
            errors.append(difference.mean())
            near.append((difference.max(-1) <= 5).mean())
            if k % 6 == 1:
                rows.append(np.concatenate([theirs, ours, np.minimum(10 * difference, 255)]).astype(np.uint8))
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    sheet = Image.fromarray(np.concatenate(rows, 1))
    sheet.resize((2 * sheet.width, 2 * sheet.height), Image.Resampling.NEAREST).save(ARTEFACTS / "frames.png")
    assert len(errors) >= 100
    assert np.mean(errors) < 0.35  # of 255
    assert np.max(errors) < 1.5
    assert np.mean(near) > 0.98


def test_texels_pack_and_unpack():
    share = jnp.linspace(0, 1, 9)
    before = texture.Paint(share, share[::-1] / 2, share / 3, jnp.arange(9, dtype=jnp.uint32) * 1000)
    after = texture.unpack(texture.pack(before))
    np.testing.assert_allclose(after.road, before.road, atol=0.5 / 127 + 1e-6)
    np.testing.assert_allclose(after.white, before.white, atol=0.5 / 63 + 1e-6)
    np.testing.assert_allclose(after.red, before.red, atol=0.5 / 63 + 1e-6)
    np.testing.assert_array_equal(after.tile, before.tile)


def test_the_pyramid_averages():
    line = random_line(jax.random.key(0))
    picture_ = paint(line)
    side = CANVAS.side
    shares = []
    for level, (row, column) in enumerate(CANVAS.corners):
        size = side >> level
        shares.append(float(texture.unpack(picture_[row : row + size, column : column + size]).road.mean()))
    np.testing.assert_allclose(shares, shares[0], rtol=0.06)  # each halving rounds down
    # The area of the road is its length times its width, but for overlaps.
    area = shares[0] * (side * CANVAS.texel) ** 2
    assert area == pytest.approx(float(track.steps(line).sum()) * 2 * track.HALF_WIDTH, rel=0.1)


def test_birds_eye_and_gif(tmp_path):
    line = random_line(jax.random.key(1))
    image = np.asarray(picture.birds_eye(line, size=192))
    assert image.shape == (192, 192, 3)
    start = np.asarray(line.points[0])
    row, column = int((192 - start[1]) / 2), int((start[0] + 192) / 2)
    near = image[row - 3 : row + 4, column - 3 : column + 4].reshape(-1, 3)
    assert (near == picture.START).all(1).any()
    gif(tmp_path / "drive.gif", [image, image[::-1]], scale=2)
    with Image.open(tmp_path / "drive.gif") as film:
        assert film.n_frames == 2
        assert film.size == (384, 384)
