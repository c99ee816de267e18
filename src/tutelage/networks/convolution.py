"""Convolutions as matrix products: on a CPU, XLA multiplies matrices much faster than it differentiates `lax.conv`.

A layer with kernel 2 and stride 2 cuts its input into 2×2 squares and reads every number once. If pixels lie in
*nested* order, square by square within larger squares, its input is a reshape of the output of the layer before: a
stack of such layers is one rearrangement of the pixels, done while they are still bytes, and then products without any
copy. The first layer takes two neighboring squares at once: it multiplies zeros, too, but pixels move in longer pieces.
Kernels of 3 or 4 with stride 2 reach into the next squares: each square is multiplied once with the parts of the
kernel for the four outputs that read it, and the products are added up. Other layers multiply gathered patches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Layer(NamedTuple):
    """A convolution without padding, followed by ReLU."""

    kernel: jax.Array  # f32[k, k, C, F]
    bias: jax.Array  # f32[F]
    stride: int

    @property
    def matrix(self) -> jax.Array:
        """f32[k·k·C, F]"""
        return self.kernel.reshape(-1, self.kernel.shape[-1])

    @property
    def cuts_squares(self) -> bool:
        """Whether it cuts its input into 2×2 squares."""
        return self.kernel.shape[0] == self.stride == 2


def stack(layers: Sequence[Layer], image: jax.Array) -> jax.Array:
    """f32[N, h, w, F]: a stack of layers applied to images [N, H, W, C] of any dtype."""
    depth = next((i for i, layer in enumerate(layers) if not layer.cuts_squares), len(layers))
    x = nested(image, depth)
    count, height, width, _ = x.shape
    x = x.astype(jnp.float32)
    for i, layer in enumerate(layers[:depth]):
        matrix, bias = _of_two(layer) if i == 0 and depth > 1 else (layer.matrix, layer.bias)
        x = jax.nn.relu(product(x.reshape(-1, len(matrix)), matrix) + bias)
    x = x.reshape(count, height, width, -1)
    for layer in layers[depth:]:
        reaches = layer.stride == 2 and layer.kernel.shape[0] in (3, 4)
        x = jax.nn.relu((_shared_squares if reaches else _gathered)(layer, x) + layer.bias)
    return x


def nested(image: jax.Array, depth: int) -> jax.Array:
    """[N, H, W, C] → [N, H/2^depth, W/2^depth, 4^depth·C]: each square holds its four quarters one after the other.

    Rows and columns beyond the last whole square, which no layer reads, are left out.
    """
    count, *sides, channels = image.shape
    height, width = (side >> depth for side in sides)
    image = image[:, : height << depth, : width << depth]
    image = image.reshape(count, height, *[2] * depth, width, *[2] * depth, channels)
    rows, columns = range(1, 2 + depth), range(2 + depth, 3 + 2 * depth)
    pairs = [axis for pair in zip(rows, columns, strict=True) for axis in pair]
    if depth > 1:
        pairs[-3:-1] = pairs[-2], pairs[-3]
    return image.transpose(0, *pairs, 3 + 2 * depth).reshape(count, height, width, 4**depth * channels)


def _of_two(layer: Layer) -> tuple[jax.Array, jax.Array]:
    """A layer over two neighboring squares at once: f32[2·2·2·C, 2·F] with a half of zeros, and biases f32[2·F]."""
    matrix = jnp.einsum("xy,ijcf->ixjcyf", jnp.eye(2), layer.kernel)
    return matrix.reshape(2 * len(layer.matrix), -1), jnp.tile(layer.bias, 2)


@jax.custom_vjp
def product(x: jax.Array, matrix: jax.Array) -> jax.Array:
    """f32[N, K] · f32[K, F]"""
    return x @ matrix


def _forward(x: jax.Array, matrix: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return x @ matrix, (x, matrix)


def _backward(residuals: tuple[jax.Array, jax.Array], bar: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, matrix = residuals
    # barᵀ · x takes XLA up to half the time of xᵀ · bar; the barrier keeps it from turning one into the other
    return bar @ matrix.T, lax.optimization_barrier(bar.T @ x).T


product.defvjp(_forward, _backward)


def _shared_squares(layer: Layer, x: jax.Array) -> jax.Array:
    """A kernel of 3 or 4 with stride 2: each output reads the parts of four neighboring 2×2 squares."""
    size, _, channels, features = layer.kernel.shape
    height, width = _outputs(layer, x)
    sides = 2 * (height + 1), 2 * (width + 1)
    beyond = ((0, max(0, need - side)) for need, side in zip(sides, x.shape[1:3], strict=True))
    squares = nested(jnp.pad(x, ((0, 0), *beyond, (0, 0)))[:, : sides[0], : sides[1]], 1)
    kernel = jnp.pad(layer.kernel, ((0, 4 - size), (0, 4 - size), (0, 0), (0, 0)))
    kernel = kernel.reshape(2, 2, 2, 2, channels, features).transpose(1, 3, 4, 0, 2, 5)
    shares = product(squares.reshape(-1, 4 * channels), kernel.reshape(4 * channels, 4 * features))
    shares = shares.reshape(*squares.shape[:3], 4, features)
    upper, lower = (
        shares[:, i : i + height, :width, 2 * i] + shares[:, i : i + height, 1 : 1 + width, 2 * i + 1] for i in (0, 1)
    )
    return upper + lower


def _gathered(layer: Layer, x: jax.Array) -> jax.Array:
    """Any kernel and stride: multiply the patch that each output reads."""
    size, step = layer.kernel.shape[0], layer.stride
    height, width = _outputs(layer, x)
    read = [
        x[:, i : i + step * (height - 1) + 1 : step, j : j + step * (width - 1) + 1 : step]
        for i in range(size)
        for j in range(size)
    ]
    patches = jnp.concatenate(read, -1)
    return product(patches.reshape(-1, len(layer.matrix)), layer.matrix).reshape(*patches.shape[:3], -1)


def _outputs(layer: Layer, x: jax.Array) -> tuple[int, int]:
    """The rows and columns of a layer's output for x [N, H, W, C]."""
    height, width = ((side - layer.kernel.shape[0]) // layer.stride + 1 for side in x.shape[1:3])
    return height, width
