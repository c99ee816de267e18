"""What the driver sees: 96×96 RGB frames as Gymnasium's `state_pixels`, from a level's texture.

Gymnasium draws 1000×800 pixels and averages them down to 96×96. We look each of our pixels up once in the road's
texture (bilinear, which blurs about as much), mix it with a field and grass known in closed form, and lay the car and
the dashboard over it. In the first second the camera zooms in, from 0.9 to 16.2 pixels a meter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap, sequential_vmap
from jax.flatten_util import ravel_pytree

from tutelage.domains.racing import overlay, texture
from tutelage.domains.racing.overlay import EYE, GROW, HEIGHT, PATCH, PIXEL, SIDE, ZOOM, ZOOMED, ZOOMS, within
from tutelage.domains.racing.physics import Car, origin
from tutelage.domains.racing.texture import Canvas
from tutelage.domains.racing.track import PLAYFIELD

ROWS = SIDE - overlay.DASHBOARD  # of the road above the dashboard
GRASS, FIELD, GRAY = 230.0, 204.0, 102.0
SHADES = (0.0, 2.0, 5.0)  # what tiles not yet touched add to gray, in turn


def draw(
    canvas: Canvas,
    picture: jax.Array,  # u32[1.5 side, side] the texture
    touched: jax.Array,  # bool[L] tiles that are no longer shaded
    car: Car,
    frame: jax.Array,  # i32[] frames since the reset, for the zoom
    score: jax.Array,  # f32[] the number on the dashboard
    field: float = PLAYFIELD,  # half the side of the green field, meters
) -> jax.Array:
    """u8[96, 96, 3]: one frame."""
    frame = jnp.minimum(frame, ZOOMED)
    zoom = jnp.asarray(ZOOMS, jnp.float32)[frame]
    shade = jnp.where(touched, 0.0, jnp.resize(jnp.asarray(SHADES), touched.shape))
    camera, wheels = _materialize((_camera(canvas, car, zoom), overlay.wheels(car)))
    road = _draw_road(canvas, field, picture, camera, shade)
    patch = overlay.draw_car(_colors(road[PATCH]) / 4, wheels, frame, zoom)
    strip = overlay.dashboard(car, score)
    whole = jnp.concatenate([_rounded(_colors(road)), _rounded(_quarters(strip))])
    return whole.at[PATCH].set(_rounded(_quarters(patch)))


def _quarters(color: jax.Array) -> jax.Array:
    """i32[...]: colors in quarters of a level."""
    return (4 * color + 0.5).astype(jnp.int32)


def _colors(packed: jax.Array) -> jax.Array:
    """i32[..., 3]: red, green and blue out of one number each, in quarters of a level."""
    return packed[..., None] >> np.array([0, 10, 20], np.int32) & 1023


def _rounded(quarters: jax.Array) -> jax.Array:
    """u8[...]: levels as Gymnasium's averaging leaves them: it rounds down twice, and loses one each time."""
    return jnp.maximum((quarters + 2 >> 2) - 2, 0).astype(jnp.uint8)


class _Camera(NamedTuple):
    """What each pixel depends on, computed once; XLA would otherwise compute it again for every pixel."""

    x: jax.Array  # f32[] the eye
    y: jax.Array  # f32[]
    cos: jax.Array  # f32[] of the heading, over the zoom
    sin: jax.Array  # f32[]
    blur_x: jax.Array  # f32[] width of a pixel along the world's x, meters
    blur_y: jax.Array  # f32[]
    grow: jax.Array  # f32[] meters that polygons are larger than their corners say
    density: jax.Array  # f32[] texels a meter
    row: jax.Array  # i32[] where the copy that fits the zoom begins in the texture
    column: jax.Array  # i32[]
    last: jax.Array  # f32[] its last texel along a side


def _camera(canvas: Canvas, car: Car, zoom: jax.Array) -> _Camera:
    level = jnp.clip(jnp.round(jnp.log2(ZOOM / zoom)), 0, texture.LEVELS - 1).astype(jnp.int32)
    corner = jnp.asarray(canvas.corners)[level]
    c, s = jnp.cos(car.angle[0]) / zoom, jnp.sin(car.angle[0]) / zoom
    eye = origin(car)
    return _Camera(
        x=eye[0],
        y=eye[1],
        cos=c,
        sin=s,
        blur_x=jnp.sqrt((PIXEL[0] * c) ** 2 + (PIXEL[1] * s) ** 2),
        blur_y=jnp.sqrt((PIXEL[0] * s) ** 2 + (PIXEL[1] * c) ** 2),
        grow=GROW / zoom,
        density=1 / (canvas.texel * jnp.exp2(level)),
        row=corner[0],
        column=corner[1],
        last=(canvas.side >> level).astype(jnp.float32) - 1.001,
    )


def _draw_road(canvas: Canvas, field: float, picture: jax.Array, camera: _Camera, shade: jax.Array) -> jax.Array:
    """i32[84, 96]: field, grass, road and curbs, three colors in ten bits each, in quarters of a level.

    Packed, because XLA would otherwise compute everything again for each color. `shade` f32[L] is what each
    tile adds to gray.
    """
    right = jnp.asarray(PIXEL[0] * (np.arange(SIDE) + 0.5) - EYE[0], jnp.float32)
    ahead = jnp.asarray(HEIGHT - PIXEL[1] * (np.arange(ROWS) + 0.5) - EYE[1], jnp.float32)[:, None]
    x = camera.x + camera.cos * right - camera.sin * ahead
    y = camera.y + camera.sin * right + camera.cos * ahead

    def split(value: jax.Array) -> tuple[jax.Array, jax.Array]:
        place = jnp.clip((value + canvas.extent) * camera.density - 0.5, 0, camera.last)
        whole = place.astype(jnp.int32)
        return whole, place - whole

    column, u = split(x)
    row, v = split(y)
    index = (camera.row + row) * canvas.side + camera.column + column
    taps, shades = _look_up(picture, index, shade)
    weights = ((1 - u) * (1 - v), u * (1 - v), (1 - u) * v, u * v)
    paints = [texture.unpack(tap) for tap in taps]
    inside = (jnp.abs(x) < canvas.extent) & (jnp.abs(y) < canvas.extent)

    def mix(shares: list[jax.Array]) -> jax.Array:
        return jnp.where(inside, sum(w * share for w, share in zip(weights, shares, strict=True)), 0.0)

    road, white, red = (mix([paint[k] for paint in paints]) for k in range(3))
    shaded = mix([paint.road * shade for paint, shade in zip(paints, shades, strict=True)])

    on_field = within(x, field + camera.grow, camera.blur_x) * within(y, field + camera.grow, camera.blur_y)
    cell = field / 20
    grass = _checked(x, cell, camera.grow, camera.blur_x) * _checked(y, cell, camera.grow, camera.blur_y)
    bare = on_field * (1 - road - white - red)
    tarmac = GRAY * road + shaded + 255 * white
    blue = GRAY * bare + tarmac
    green = (FIELD + (GRASS - FIELD) * grass) * bare + tarmac
    parts = [_quarters(color) for color in (blue + 255 * red, green, blue)]
    return _materialize(parts[0] | parts[1] << 10 | parts[2] << 20)


def _look_up(picture: jax.Array, index: jax.Array, shade: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
    """Four u32[H, W], texels at and around `index` i32[H, W], and four f32[H, W], the shades of their tiles.

    Views are processed one after the other, each with its picture out of the whole batch: batched gathers would be
    fused into every use of their results, and a loop over pictures would copy each.
    """
    side = picture.shape[1]

    @custom_vmap
    def look_up_all(
        pictures: jax.Array, which: jax.Array, index: jax.Array, shade: jax.Array
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        texels, size = pictures.reshape(-1), pictures[0].size

        def look_up(_: None, view: tuple[jax.Array, ...]) -> tuple[None, tuple[list[jax.Array], list[jax.Array]]]:
            which, index, shade = view
            start = which * size
            taps = [_take(texels, start + index + offset) for offset in (0, 1, side, side + 1)]
            tiles = [texture.unpack(tap).tile.astype(jnp.int32) for tap in taps]
            return None, (taps, [_take(shade, tile) for tile in tiles])

        return jax.lax.scan(look_up, None, (which, index, shade))[1]

    @look_up_all.def_vmap
    def merge(size: int, batched: Any, pictures: jax.Array, which: jax.Array, *view: jax.Array) -> tuple[Any, Any]:
        """A batch of batches is one long batch."""
        each = [
            value if is_batched else jnp.broadcast_to(value, (size, *value.shape))
            for value, is_batched in zip((which, *view), batched[1:], strict=True)
        ]
        if batched[0]:
            each[0] += pictures.shape[1] * jnp.arange(size)[:, None]
            pictures = pictures.reshape(-1, *pictures.shape[2:])
        found = look_up_all(pictures, *(value.reshape(-1, *value.shape[2:]) for value in each))
        found = jax.tree.map(lambda value: value.reshape(size, -1, *value.shape[1:]), found)
        return found, jax.tree.map(lambda _: True, found)

    alone = [value[None] for value in (picture, jnp.int32(0), index, shade)]
    return jax.tree.map(lambda value: value[0], look_up_all(*alone))


def _materialize(tree: Any) -> Any:
    """The same values in memory: a loop over the batch, which XLA cannot fuse with what follows."""
    flat, restore = ravel_pytree(tree)
    return restore(sequential_vmap(lambda value: value)(flat))


def _take(values: jax.Array, index: jax.Array) -> jax.Array:
    """values[index] for indices within bounds; checking them would cost more than the lookup."""
    return values.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _checked(value: jax.Array, cell: float, grow: jax.Array, blur: jax.Array) -> jax.Array:
    """The share of a pixel that lies in an even cell, 0 ≤ value < cell being one of them."""
    turns = (value + cell / 2) / (2 * cell)
    middle = (turns - jnp.floor(turns) - 0.5) * (2 * cell)  # `%` would call the C library
    return within(middle, cell / 2 + grow, blur)
