"""Gymnasium's own random tracks, "the original CarRacing", in JAX.

Twelve checkpoints lie on a rough circle. A point that always moves 3.5 m and turns by a bounded angle chases them for
up to five laps; its last but one lap becomes the track if its ends meet. Not every set of checkpoints gives one.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.domains.racing.track import SCALE, CenterLine
from tutelage.types import Key

CHECKPOINTS = 12
RADIUS = 900 / SCALE
STEP = 21 / SCALE
TURN = 0.31
START = -np.pi / CHECKPOINTS  # the angle at which a lap begins
PATH = 2500  # points after which a chase is given up
LAPS = 4
TILES = 512


class _Chase(NamedTuple):
    x: jax.Array  # f32[]
    y: jax.Array  # f32[]
    beta: jax.Array  # f32[] heading
    goal: jax.Array  # i32[] the checkpoint ahead
    laps: jax.Array  # i32[]
    far_side: jax.Array  # bool[] whether this lap has been below the x axis
    length: jax.Array  # i32[]
    path: jax.Array  # f32[2500, 4] angle about the origin, heading, x, y


def checkpoints(key: Key) -> tuple[jax.Array, jax.Array]:
    """f32[12] angles and f32[12] distances from the origin."""
    angle_key, radius_key = jax.random.split(key)
    turn = 2 * jnp.pi / CHECKPOINTS
    alpha = turn * (jnp.arange(CHECKPOINTS) + jax.random.uniform(angle_key, (CHECKPOINTS,)))
    radius = jax.random.uniform(radius_key, (CHECKPOINTS,), minval=RADIUS / 3, maxval=RADIUS)
    alpha = alpha.at[0].set(0.0).at[-1].set(turn * (CHECKPOINTS - 1))
    return alpha, radius.at[jnp.array([0, -1])].set(1.5 * RADIUS)


def trace(alpha: jax.Array, radius: jax.Array) -> tuple[CenterLine, jax.Array]:
    """The track through checkpoints, of 512 points, and bool[]: whether there is one."""
    goal_x, goal_y = radius * jnp.cos(alpha), radius * jnp.sin(alpha)

    def going(chase: _Chase) -> jax.Array:
        return (chase.laps <= LAPS) & (chase.length < PATH)

    def move(chase: _Chase) -> _Chase:
        at = jnp.arctan2(chase.y, chase.x)
        closed = chase.far_side & (at > 0)
        laps, far_side = chase.laps + closed, (chase.far_side & ~closed) | (at < 0)
        at = jnp.where(at < 0, at + 2 * jnp.pi, at)
        ahead = (jnp.arange(CHECKPOINTS) >= chase.goal) & (at <= alpha)
        goal = jnp.argmax(ahead)  # 0 if there is none: the first one of the next lap
        at = jnp.where(ahead.any(), at, at - 2 * jnp.pi)

        side_x, side_y = jnp.cos(chase.beta), jnp.sin(chase.beta)
        offset = SCALE * (side_x * (goal_x[goal] - chase.x) + side_y * (goal_y[goal] - chase.y))
        before = chase.beta - 2 * jnp.pi * jnp.maximum(jnp.ceil((chase.beta - at) / (2 * jnp.pi) - 0.75), 0)
        before = before + 2 * jnp.pi * jnp.maximum(jnp.ceil((at - before) / (2 * jnp.pi) - 0.75), 0)
        turn = jnp.where(jnp.abs(offset) > 0.3, jnp.clip(0.001 * offset, -TURN, TURN), 0.0)
        beta = before - turn
        x, y = chase.x - STEP * side_y, chase.y + STEP * side_x
        row = jnp.stack([at, (before + beta) / 2, x, y])
        path = chase.path.at[chase.length].set(row)
        return _Chase(x, y, beta, goal.astype(jnp.int32), laps, far_side, chase.length + 1, path)

    zero, none = jnp.float32(0), jnp.int32(0)
    first = _Chase(jnp.float32(1.5 * RADIUS), zero, zero, none, none, jnp.bool_(False), none, jnp.zeros((PATH, 4)))
    chase = jax.lax.while_loop(going, move, first)

    at = chase.path[:, 0]
    index = jnp.arange(PATH)
    crossing = (at > START) & (jnp.roll(at, 1) <= START) & (index > 0) & (index < chase.length)
    end = jnp.max(jnp.where(crossing, index, -1))
    begin = jnp.max(jnp.where(crossing & (index < end), index, -1))
    n = end - 1 - begin
    fits = (begin >= 0) & (n >= 3) & (n <= TILES)
    n = jnp.where(fits, n, 3)
    lap = chase.path[jnp.maximum(begin, 0) + jnp.arange(TILES) % n]
    gap = (lap[0, 2:] - lap[n - 1, 2:]) * jnp.stack([jnp.cos(lap[0, 1]), jnp.sin(lap[0, 1])])
    line = CenterLine(lap[:, 2:], lap[:, 1], n.astype(jnp.int32))
    return line, fits & (jnp.sqrt((gap**2).sum()) <= STEP)


def draw(key: Key) -> CenterLine:
    """A random track: checkpoints are drawn until there is one."""

    def attempt(carry: tuple[Key, CenterLine, jax.Array]) -> tuple[Key, CenterLine, jax.Array]:
        key, _, _ = carry
        key, checkpoint_key = jax.random.split(key)
        return key, *trace(*checkpoints(checkpoint_key))

    blank = CenterLine(jnp.zeros((TILES, 2)), jnp.zeros(TILES), jnp.int32(0))
    return jax.lax.while_loop(lambda carry: ~carry[2], attempt, (key, blank, jnp.bool_(False)))[1]
