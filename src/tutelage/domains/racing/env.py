"""The rules of CarRacing as an underspecified POMDP whose level is a track (paper, appendix on CarRacing).

An action is held for eight frames and only the last is drawn. Each new tile earns 1000/n, each frame costs 0.1. In
training an episode lasts at most 1000 frames and ends early when no tile has been reached for 100, which is how the
released code finds that the car is far off the track. Evaluation uses Gymnasium's rules instead (`gymnasium_rules`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tutelage.domains.racing import contacts, overlay, physics, pixels, texture, track
from tutelage.domains.racing.physics import Car
from tutelage.domains.racing.texture import BEZIER_CANVAS, Canvas
from tutelage.types import Box, Env, InputError, Key, Step

FULL_SCORE, FRAME_COST, FAULT = 1000.0, 0.1, -100.0
LAP = 0.95  # the share of tiles after which the first tile closes a lap


@dataclass(frozen=True)
class View:
    """What the agent sees of a frame. Stacked frames are along the last axis, the newest last."""

    crop: bool = False
    """Cut the dashboard and six columns at each side off the 96×96 pixels (paper: no)."""
    gray: bool = False
    """See gray instead of colors (paper: no)."""
    shrink: int = 1
    """Average squares of this many pixels on a side into one (paper: 1)."""
    stack: int = 1
    """Frames seen at once, eight frames apart (paper: 1; released code: 4)."""
    zoom: bool = True
    """Zoom in during the first second, as Gymnasium does (released code: no)."""

    def __post_init__(self) -> None:
        if self.stack < 1:
            raise InputError(f"A view stacks at least one frame; got stack={self.stack}.")
        if self.shrink < 1 or self._side % self.shrink:
            raise InputError(f"A view of {self._side} pixels cannot shrink by {self.shrink}; choose a divisor.")

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of an observation, u8."""
        side = self._side // self.shrink
        return side, side, self.stack * (1 if self.gray else 3)

    @property
    def _side(self) -> int:
        return pixels.ROWS if self.crop else overlay.SIDE

    def select(self, frame: jax.Array) -> jax.Array:
        """u8[H, W, 1 or 3]: the view of one frame u8[96, 96, 3]."""
        if self.crop:
            frame = frame[: pixels.ROWS, 6:-6]
        if self.gray:
            luma = jnp.tensordot(frame.astype(jnp.float32), jnp.array([0.299, 0.587, 0.114]), 1)
            frame = jnp.round(luma).astype(jnp.uint8)[..., None]
        if self.shrink > 1:
            side = self.shape[0]
            blocks = frame.reshape(side, self.shrink, side, self.shrink, -1)
            frame = jnp.round(blocks.astype(jnp.float32).mean((1, 3))).astype(jnp.uint8)
        return frame


WHOLE_VIEW = View()


class Scene(NamedTuple):
    """A track ready to drive on."""

    n: jax.Array  # i32[] tiles
    start: jax.Array  # f32[2]
    heading: jax.Array  # f32[]
    middle: jax.Array  # f32[L, 2] of each tile
    radius: jax.Array  # f32[L] from there to its farthest corner
    outline: jax.Array  # f32[L, 32]
    picture: jax.Array  # u32[1.5 side, side]


class State(NamedTuple):
    """The state of an episode."""

    car: Car
    on_road: jax.Array  # bool[4] wheels that touched a tile when the last frame began
    visited: jax.Array  # bool[L] tiles that a wheel has touched
    touched: Any  # bool[L] tiles that any part of the car has touched: they look different
    tiles: jax.Array  # i32[] how many were visited
    frame: jax.Array  # i32[] frames since the reset
    idle: jax.Array  # i32[] frames since the last new tile
    seen: Any  # u8[H, W, C] the last observation if frames are stacked, else ()


class _Drive(NamedTuple):
    """What changes from frame to frame within one action."""

    state: State  # of the K candidate tiles alone; `touched` and `seen` are left out
    side: jax.Array  # f32[5, 2] of the bodies; here, so that it is computed once a frame
    hull: jax.Array  # f32[2, 2] its position and side when the last frame began
    reward: jax.Array  # f32[]
    terminated: jax.Array  # bool[]
    truncated: jax.Array  # bool[]


@dataclass(frozen=True)
class RacingEnv(Env):
    """CarRacing on a `Level` or a `CenterLine`. The defaults are the paper's training rules."""

    frames: int = 1000  # of an episode
    repeat: int = 8  # frames for which an action is held
    idle_limit: int | None = 100  # frames without a new tile that end the episode
    boundary: bool = False  # whether leaving the field costs 100 and ends the episode
    field: float = track.PLAYFIELD  # half its side, meters
    canvas: Canvas = BEZIER_CANVAS
    view: View = WHOLE_VIEW
    candidates: int = 128  # only this many of the nearest tiles can be touched during an action
    start_east: bool = True  # where a Bézier track begins: see `track.bezier`

    def __post_init__(self) -> None:
        if self.frames < 1 or self.repeat < 1:
            raise InputError(f"Episodes and actions last at least one frame, not {self.frames} and {self.repeat}.")

    @property
    def actions(self) -> Box:
        """Steering (left is negative), gas and brake."""
        return Box((-1.0, 0.0, 0.0), (1.0, 1.0, 1.0))

    @property
    def horizon(self) -> int:
        return -(-self.frames // self.repeat)

    def load(self, level: track.Level | track.CenterLine) -> Scene:
        """Build the tiles of a track and paint its texture."""
        line = track.road(level, self.start_east)
        corners = track.tiles(line)
        corners = jnp.where(track.real(line)[:, None, None], corners, 1e6)  # padding is out of reach
        middle = corners.mean(1)
        return Scene(
            n=line.n,
            start=line.points[0],
            heading=line.heading[0],
            middle=middle,
            radius=jnp.sqrt(((corners - middle[:, None]) ** 2).sum(-1)).max(-1),
            outline=contacts.outlines(corners).T,
            picture=texture.paint(self.canvas, line),
        )

    def reset(self, key: Key, scene: Scene) -> tuple[State, jax.Array]:
        """Put the car at rest on the first tile. Like Gymnasium's, this takes a frame and visits tiles."""
        car = physics.place(scene.start, scene.heading)
        outline, side = scene.outline.T, contacts.sides(car)
        contact = contacts.touching(outline, car.position[1:], side[1:])
        visited = contact > 0
        state = State(
            car=physics.settle(car),
            on_road=contacts.wheels_of(contact),
            visited=visited,
            touched=visited | contacts.under_hull(outline, car.position[0], side[0]),
            tiles=visited.sum(dtype=jnp.int32),
            frame=jnp.int32(0),
            idle=jnp.int32(0),
            seen=(),
        )
        frame = self.view.select(self.draw(scene, state))
        obs = jnp.tile(frame, self.view.stack)
        return state._replace(seen=obs if self.view.stack > 1 else ()), obs

    def step(self, key: Key, scene: Scene, state: State, action: jax.Array) -> tuple[State, Step]:
        """Hold an action, f32[3], for `repeat` frames, or until the episode ends."""
        box = self.actions
        action = jnp.clip(action, jnp.array(box.low), jnp.array(box.high))
        near = self._nearest(scene, state)
        outline = scene.outline[near].T
        drive = _Drive(
            state=state._replace(visited=state.visited[near], touched=(), seen=()),
            side=contacts.sides(state.car),
            hull=jnp.zeros((2, 2)),
            # The tiles that the reset visited are paid with the first frame.
            reward=jnp.where(state.frame == 0, FULL_SCORE / scene.n * state.tiles, 0.0),
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
        )

        def hold(drive: _Drive, _: None) -> tuple[_Drive, None]:
            ended = drive.terminated | drive.truncated
            new = self._frame(scene, near == 0, outline, drive, action)
            return jax.tree.map(lambda old, new: jnp.where(ended, old, new), drive, new), None

        drive, _ = jax.lax.scan(hold, drive, length=self.repeat)
        # The hull counts in the drawn frame only: in each of the eight it would cost a quarter of the speed, to change
        # the gray of one tile in a hundred frames.
        visited = drive.state.visited
        state = drive.state._replace(
            visited=state.visited.at[near].set(visited),
            touched=state.touched.at[near].max(visited | contacts.under_hull(outline, *drive.hull)),
            seen=state.seen,
        )
        obs = self.view.select(self.draw(scene, state))
        if self.view.stack > 1:
            obs = jnp.concatenate([state.seen[..., obs.shape[-1] :], obs], -1)
        step = Step(obs, drive.reward, drive.terminated, drive.truncated)
        return state._replace(seen=obs if self.view.stack > 1 else ()), step

    def draw(self, scene: Scene, state: State) -> jax.Array:
        """u8[96, 96, 3]: the frame as Gymnasium draws it."""
        paid = FRAME_COST * jnp.maximum(state.frame - 1, 0)  # it draws before it takes the frame's cost
        score = FULL_SCORE / scene.n * state.tiles - paid
        frame = state.frame if self.view.zoom else jnp.int32(overlay.ZOOMED)
        return pixels.draw(self.canvas, scene.picture, state.touched, state.car, frame, score, self.field)

    def _nearest(self, scene: Scene, state: State) -> jax.Array:
        """i32[K]: the tiles nearest to the middle of the way that the car makes in one action."""
        if self.candidates >= scene.radius.shape[0]:
            return jnp.arange(scene.radius.shape[0])
        halfway = state.car.position[0] + 0.5 * self.repeat * physics.DT * state.car.velocity[0]
        distance = jnp.sqrt(((scene.middle - halfway) ** 2).sum(-1)) - scene.radius
        return jax.lax.top_k(-distance, self.candidates)[1]

    def _frame(self, scene: Scene, first: jax.Array, outline: jax.Array, drive: _Drive, action: jax.Array) -> _Drive:
        """One frame: contacts are found before the car moves, and give grip in the next frame."""
        before = drive.state
        contact = contacts.touching(outline, before.car.position[1:], drive.side[1:])
        visited = before.visited | (contact > 0)
        fresh = visited & ~before.visited
        new = fresh.sum(dtype=jnp.int32)
        state = State(
            car=physics.advance(before.car, action, before.on_road),
            on_road=contacts.wheels_of(contact),
            visited=visited,
            touched=(),
            tiles=before.tiles + new,
            frame=before.frame + 1,
            idle=jnp.where(new > 0, 0, before.idle + 1),
            seen=(),
        )
        reward = FULL_SCORE / scene.n * new - FRAME_COST
        lap = (first & fresh).any() & (state.tiles > LAP * scene.n)
        terminated = (state.tiles == scene.n) | lap
        if self.idle_limit is not None:
            terminated |= state.idle >= self.idle_limit
        if self.boundary:
            outside = (jnp.abs(physics.origin(state.car)) > self.field).any()
            reward = jnp.where(outside, FAULT, reward)
            terminated |= outside
        return _Drive(
            state=state,
            side=contacts.sides(state.car),
            hull=jnp.stack([before.car.position[0], drive.side[0]]),
            reward=drive.reward + reward,
            terminated=terminated,
            truncated=(state.frame >= self.frames) & ~terminated,
        )


def gymnasium_rules(env: RacingEnv) -> RacingEnv:
    """The same environment for evaluation: no early end, and a penalty for leaving the field."""
    return replace(env, idle_limit=None, boundary=True)
