"""The levels of CarRacing: Bézier tracks, drawn at random, built by the teacher or mutated (paper, appendix).

The teacher places the 12 control points one after the other on a 10×10 sketch of the inner quarter of the field. It
sees the sketch, the time step and fresh noise numbers; cells that it has chosen are masked. A `continuous` one places
them anywhere on the sketch, and points may share a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.domains.racing import image, track
from tutelage.domains.racing.texture import BEZIER_CANVAS
from tutelage.domains.racing.track import MAX_POINTS, MAX_TILES, PLAYFIELD, SKETCH, CenterLine, Level
from tutelage.types import Box, Design, Discrete, Env, InputError, Json, Key, Space, Step

MIN_POINTS = 3
REACH = PLAYFIELD / 2  # meters from the middle within which control points lie
CIRCLE = 0.75 * REACH  # its radius, for tracks that keep near one
RELEASED_SPACING = 0.7 / MAX_POINTS * PLAYFIELD  # meters between control points in the released code
DRAWS = 200  # after which control points are taken even if they are too close together (released code)


class EditorObs(NamedTuple):
    """What the teacher sees."""

    sketch: jax.Array  # f32[10, 10] 1 where there is a control point
    time: jax.Array  # i32[] points placed so far
    noise: jax.Array  # f32[Z]
    mask: jax.Array  # bool[100] the cells that may still be chosen


class EditorState(NamedTuple):
    """The control points placed so far."""

    points: jax.Array  # f32[12, 2] meters
    time: jax.Array  # i32[]


@dataclass(frozen=True)
class RacingEditor(Env):
    """The teacher's MDP: twelve steps, each the choice of a cell or, if `continuous`, of a place on the sketch."""

    noise: int = 16  # fresh random numbers in each observation
    continuous: bool = False

    @property
    def actions(self) -> Space:
        """The cells of the sketch, row by row; or x and y in meters."""
        return Box((-REACH, -REACH), (REACH, REACH)) if self.continuous else Discrete(SKETCH**2)

    @property
    def horizon(self) -> int:
        return MAX_POINTS

    def reset(self, key: Key, scene: tuple[()]) -> tuple[EditorState, EditorObs]:
        state = EditorState(jnp.zeros((MAX_POINTS, 2)), jnp.int32(0))
        return state, self._observe(key, state)

    def step(self, key: Key, scene: tuple[()], state: EditorState, action: jax.Array) -> tuple[EditorState, Step]:
        """Put a control point into the middle of a cell, or where the action says."""
        point = action if self.continuous else track.cell_center(action)
        state = EditorState(state.points.at[state.time].set(point), state.time + 1)
        done = state.time >= MAX_POINTS
        return state, Step(self._observe(key, state), jnp.float32(0), done, jnp.bool_(False))

    def _observe(self, key: Key, state: EditorState) -> EditorObs:
        placed = jnp.arange(MAX_POINTS) < state.time
        sketch = jnp.zeros(SKETCH**2, bool).at[track.cell_of(state.points)].max(placed)
        return EditorObs(
            sketch=sketch.reshape(SKETCH, SKETCH).astype(jnp.float32),
            time=state.time,
            noise=jax.random.uniform(key, (self.noise,)),
            mask=~sketch | self.continuous,
        )


@dataclass(frozen=True)
class RacingDesign(Design):
    """Tracks of 3 to 12 control points.

    The paper draws control points within B/2 of the center of a field of size B. We read B as Gymnasium's PLAYFIELD,
    333 m, which agrees with the released code; with twice that, roads would leave the field.
    """

    disc: bool = True
    """Draw control points from a disc (paper: yes; released code: no, from the square around it)."""
    spacing: float = 0.0
    """Draw them again if neighbors are closer than this, in meters (paper: 0; released code: 19.4)."""
    shift: float = PLAYFIELD / SKETCH
    """Meters by which ACCEL's edits move a point along each axis, at most."""
    bumps: float | None = None
    """Meters by which random tracks leave a circle, which is easier (paper: None, points anywhere in the disc)."""
    noise: int = 16
    """Random numbers that the teacher sees at each step (paper: 16; released code: 4)."""
    start_east: bool = True
    """Start at 0° as seen from the center (paper: yes; released code: at the first control point from the south)."""
    continuous: bool = False
    """Let the teacher place control points anywhere, by Beta distributions, instead of choosing cells of its sketch
    (released code: no)."""

    def __post_init__(self) -> None:
        if self.bumps is not None and not 0 <= self.bumps <= REACH - CIRCLE:
            raise InputError(f"Bumps are 0 to {REACH - CIRCLE:.0f} m high, or None; got {self.bumps}.")
        if self.noise < 0:
            raise InputError(f"The teacher sees 0 or more random numbers; got noise={self.noise}.")
        if not self.spacing >= 0:
            raise InputError(f"The spacing of control points is 0 m or more; got {self.spacing}.")

    @property
    def editor(self) -> RacingEditor:
        return RacingEditor(self.noise, self.continuous)

    def sample(self, key: Key) -> Level:
        """Twelve points, uniform in a disc or a square, or each near its place on a circle.

        With `spacing`, they are drawn again, up to 200 times, while two neighbors are too close. As in the released
        code, neighbors are those in clockwise order from the south, the first and the last are none, and the
        distance is |Δx + Δy|.
        """
        if self.bumps is not None:
            points = jax.random.uniform(key, (MAX_POINTS, 2), minval=-self.bumps, maxval=self.bumps)
            angle = 2 * np.pi * np.arange(MAX_POINTS) / MAX_POINTS
            points += CIRCLE * np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)
        elif self.spacing == 0:
            points = self._points(key, MAX_POINTS)
        else:
            points = self._spaced_points(key)
        return Level(points, jnp.int32(MAX_POINTS))

    def _points(self, key: Key, count: int) -> jax.Array:
        """f32[count, 2], uniform in the disc or the square."""
        if not self.disc:
            return jax.random.uniform(key, (count, 2), minval=-REACH, maxval=REACH)
        radius, turn = jax.random.uniform(key, (2, count, 1))
        angle = 2 * jnp.pi * turn
        return REACH * jnp.sqrt(radius) * jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], 1)

    def _spaced_points(self, key: Key) -> jax.Array:
        def too_close(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
            draw, points = carry
            neighbors = points[jnp.argsort(track.from_south(points - points.mean(0)))]
            return (jnp.abs(jnp.diff(neighbors, axis=0).sum(1)).min() < self.spacing) & (draw < DRAWS)

        def draw_again(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            draw = carry[0] + 1
            return draw, self._points(jax.random.fold_in(key, draw), MAX_POINTS)

        return jax.lax.while_loop(too_close, draw_again, (jnp.int32(0), self._points(key, MAX_POINTS)))[1]

    def build(self, key: Key, state: EditorState) -> Level:
        """The track through the points that an editor has placed.

        If `continuous`, each is moved by at most half a meter, so that no two are equal.
        """
        points = state.points
        if self.continuous:
            points = jnp.clip(points, 0.5 - REACH, REACH - 0.5)
            points += jax.random.uniform(key, points.shape, minval=-0.5, maxval=0.5)
        return Level(points, jnp.int32(MAX_POINTS))

    def mutate(self, key: Key, level: Level) -> Level:
        """Move, add or remove one control point; adding to 12 points or taking from 3 becomes a move.

        A point that leaves the disc or the square is put on its edge; an edit that makes a level invalid is undone.
        """
        which_key, kind_key, move_key, add_key = jax.random.split(key, 4)
        which = jax.random.randint(which_key, (), 0, level.n)
        kind = jax.random.randint(kind_key, (), 0, 3)
        add = (kind == 1) & (level.n < MAX_POINTS)
        remove = (kind == 2) & (level.n > MIN_POINTS)

        moved = level.points[which] + self.shift * jax.random.uniform(move_key, (2,), minval=-1.0)
        if self.disc:
            moved = moved * REACH / jnp.maximum(jnp.sqrt((moved**2).sum()), REACH)
        else:
            moved = jnp.clip(moved, -REACH, REACH)
        # To remove a point is to put the last one in its place.
        added = self._points(add_key, 1)[0]
        new = jnp.where(add, added, jnp.where(remove, level.points[level.n - 1], moved))
        points = level.points.at[jnp.where(add, level.n, which)].set(new)
        n = level.n + add - remove
        child = Level(jnp.where((jnp.arange(MAX_POINTS) < n)[:, None], points, 0.0), n)
        valid = self.valid(child)
        return jax.tree.map(lambda new, old: jnp.where(valid, new, old), child, level)

    def valid(self, level: Level | CenterLine) -> jax.Array:
        """bool[]: different points that do not all lie on one line, and a road that fits the canvas.

        A `Level` has 3 to 12 control points, a `CenterLine` 3 to 8,192 points.
        """
        size = level.points.shape[0]
        if size > MAX_TILES:
            return jnp.bool_(False)
        line = track.road(level)
        step = track.steps(line)
        reach = jnp.abs(line.points).max() + track.HALF_WIDTH + track.BORDER
        longest = jnp.hypot(step.max(), 2 * (track.HALF_WIDTH + track.BORDER))  # of a tile with its curbs
        # a comparison with NaN is false, too
        fits = (reach <= BEZIER_CANVAS.extent) & (longest <= BEZIER_CANVAS.window) & jnp.isfinite(line.heading).all()
        real = track.real(level)
        if isinstance(level, CenterLine):
            distinct = jnp.where(real, step, track.SHORTEST).min() >= track.SHORTEST
        else:
            both = real[:, None] & real[None] & ~np.eye(MAX_POINTS, dtype=bool)
            gap = level.points[:, None] - level.points[None]
            distinct = ~(both & (jnp.abs(gap).max(-1) < 1e-3)).any()
        spoke = level.points - level.points[0]
        far = spoke[jnp.argmax(jnp.where(real, (spoke**2).sum(-1), -1.0))]
        off_line = jnp.abs(spoke[:, 0] * far[1] - spoke[:, 1] * far[0]) > 1e-3 * (far**2).sum()
        finite = jnp.where(real[:, None], jnp.isfinite(level.points), True).all()
        enough = (level.n >= MIN_POINTS) & (level.n <= size)
        return enough & finite & distinct & (off_line & real).any() & fits

    def describe(self, level: Level | CenterLine) -> dict[str, jax.Array]:
        """Length in meters of the track, curvature in 1/m, convexity and overlap as shares of the track."""
        line = track.road(level)
        step, curvature = track.steps(line), track.curvature(line)
        length = step.sum()
        return {
            "track_length": length,
            "mean_curvature": (jnp.abs(curvature) * step).sum() / length,
            "max_curvature": jnp.abs(curvature).max(),
            "convexity": ((curvature >= 0) & track.real(line)).sum() / line.n,
            "overlap": track.overlaps(line).sum() / line.n,
            "points": level.n,
        }

    def image(self, level: Level | CenterLine) -> jax.Array:
        return image.birds_eye(track.road(level, self.start_east))

    def to_json(self, level: Level | CenterLine) -> Json:
        """{"points": [[x, y], …]} for control points, {"line": [[x, y, heading], …], "size": L} for a center line."""
        n = int(level.n)
        if isinstance(level, Level):
            return {"points": np.asarray(level.points, np.float64)[:n].tolist()}
        rows = np.column_stack([level.points, level.heading]).astype(np.float64)
        return {"line": rows[:n].tolist(), "size": len(rows)}

    def from_json(self, value: Json) -> Level | CenterLine:
        if isinstance(value, dict) and "points" in value:
            return track.from_points(value["points"])
        if isinstance(value, dict) and "line" in value and isinstance(value.get("size"), int):
            return track.from_rows(value["line"], value["size"])
        raise InputError(
            f'A track is {{"points": [[x, y], …]}} or {{"line": [[x, y, heading], …], "size": L}}; got {value!r:.80}.'
        )


BEZIER_TRACKS = RacingDesign()
"""The paper's design."""
