"""The CarRacing student of the paper's appendix: six convolutions → policy and value heads of two hidden layers each.

Observations are pixels u8[T, B, H, W, C]. The policy is a Beta distribution for each action, with α, β = 1 + softplus.
It is not recurrent. Where the paper says nothing, weights are initialized as in the released code.

The paper contradicts itself: kernels 2, 2, 2, 2, 3, 3 with strides 2, 2, 2, 2, 1, 1 turn its 96×96 pixels into 2×2×256
features, which it calls a 256-dimensional embedding. We keep the kernels and flatten the features to 1,024. The
released code has these kernels for a view cropped to 84×84, and 4, 3, 3, 3, 3, 3 for 96×96; both give 256. We read the
text on the heads as two hidden layers of 256 for the policy and for the value; the released code has one of 100 each.

`RacingStudent` is the plain flax module. `racing_student` is the network to use: the same parameters and the same
function, with convolutions as matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.nn.initializers import constant, variance_scaling

from tutelage.learning.network import Head, Network, Params, from_flax
from tutelage.networks import convolution
from tutelage.networks.layers import MLP, beta_policy, check_sizes
from tutelage.types import Box

XAVIER = variance_scaling(2.0, "fan_avg", "uniform")
"""Glorot's uniform weights, times √2 for the ReLU."""


class RacingStudent(nn.Module):
    """Sizes of the network; the paper's by default."""

    actions: Box
    kernels: Sequence[int] = (2, 2, 2, 2, 3, 3)
    strides: Sequence[int] = (2, 2, 2, 2, 1, 1)
    channels: Sequence[int] = (8, 16, 32, 64, 128, 256)
    head: Sequence[int] = (256, 256)
    """Hidden layers of policy and value (released code: 100)."""
    scale: float = 2**0.5
    """Initial gain of the policy's last layer: with a small one, the first policy hardly depends on observations."""
    lean: Sequence[float] | None = None
    """Where the first policy's mean lies for each action: 0 in the middle, below 0 toward the lowest action."""
    centered: bool = False
    """Pixels are x/128 − 1 (released code), not x/255."""

    def setup(self) -> None:
        """Name the layers, because `heads` is also used on its own."""
        sizes = zip(self.channels, self.kernels, self.strides, strict=True)
        self.convs = [
            nn.Conv(channels, (kernel, kernel), stride, "VALID", kernel_init=XAVIER, bias_init=constant(0.1))
            for channels, kernel, stride in sizes
        ]
        self.actor = MLP((*self.head, 2 * len(self.actions.low)), self.scale, nn.relu)
        self.critic = MLP((*self.head, 1), 1.0, nn.relu)

    def __call__(self, carry: Any, obs: jax.Array, first: jax.Array) -> tuple[Any, Head]:
        """(carry, obs, first bool[T, B]) → (carry, Head)."""
        x = obs.astype(jnp.float32)
        x = x / 128 - 1 if self.centered else x / 255
        for conv in self.convs:
            x = nn.relu(conv(x))
        return carry, self.heads(x.reshape(*first.shape, -1))

    def heads(self, features: jax.Array) -> Head:
        """Policy and value from the convolutions' output, f32[T, B, F]."""
        alpha, beta = jnp.split(self.actor(features), 2, -1)
        lean = jnp.asarray(self.lean or [0.0] * len(self.actions.low))
        return Head(beta_policy(alpha + lean, beta - lean, self.actions), self.critic(features)[..., 0])


def plain_racing_student(module: RacingStudent) -> Network:
    """The module as it stands, convolved and differentiated by JAX: the reference for `racing_student`."""
    return from_flax(module)


def racing_student(module: RacingStudent) -> Network:
    """The CarRacing student, fast."""
    check_sizes(module, "kernels", "strides", "channels", "head")
    plain = plain_racing_student(module)

    def apply(params: Params, carry: Any, obs: jax.Array, first: jax.Array) -> tuple[Any, Head]:
        convs = [params[f"convs_{i}"] for i in range(len(module.strides))]
        layers = [convolution.Layer(**conv, stride=stride) for conv, stride in zip(convs, module.strides, strict=True)]
        # Pixels are rearranged as bytes, so the first layer is scaled and shifted instead of them.
        kernel, bias, stride = layers[0]
        if module.centered:
            layers[0] = convolution.Layer(kernel / 128, bias - kernel.sum((0, 1, 2)), stride)
        else:
            layers[0] = convolution.Layer(kernel / 255, bias, stride)
        features = convolution.stack(layers, obs.reshape(-1, *obs.shape[2:])).reshape(*first.shape, -1)
        return carry, module.apply({"params": params}, features, method="heads")

    return plain._replace(apply=apply, block=50)
