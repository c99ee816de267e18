"""The two distributions of actions: Categorical over discrete actions, Beta over boxes.

A distribution is a pytree whose leaves share leading batch axes; every method but `sample` maps over them. `sample`
draws for one element (callers vmap over keys), so that the draw of one env does not depend on the others.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln, digamma
from jaxtyping import Array, Float, Int

from tutelage.types import Action, Key


class Distribution(Protocol):
    """What PPO needs of a policy's output."""

    def sample(self, key: Key) -> Action:
        """One action of one distribution."""
        ...

    def mode(self) -> Action:
        """The greedy action: the most probable one (for Beta the mean, which always exists)."""
        ...

    def log_prob(self, action: Action) -> Float[Array, "*batch"]:
        """The log-probability, or log-density, of an action."""
        ...

    def entropy(self) -> Float[Array, "*batch"]:
        """The entropy, in nats."""
        ...


class Categorical(NamedTuple):
    """Actions 0 … A − 1. A logit of −inf masks an action."""

    logits: Float[Array, "*batch A"]

    def sample(self, key: Key) -> Int[Array, ""]:
        """One action."""
        return jax.random.categorical(key, self.logits)

    def mode(self) -> Int[Array, "*batch"]:
        """The action with the highest logit."""
        return jnp.argmax(self.logits, axis=-1)

    def log_prob(self, action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        """The log-probability."""
        log_probs = jax.nn.log_softmax(self.logits)
        return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]

    def entropy(self) -> Float[Array, "*batch"]:
        """−Σ p log p; a masked action adds nothing."""
        log_probs = jax.nn.log_softmax(self.logits)
        possible = jnp.isfinite(self.logits)
        # the inner `where` keeps 0 · (−inf) out of the gradient as well
        return -jnp.sum(jnp.exp(log_probs) * jnp.where(possible, log_probs, 0.0), axis=-1)


class Beta(NamedTuple):
    """Independent Beta distributions, each stretched from [0, 1] to [low, high] (paper, appendix: CarRacing)."""

    alpha: Float[Array, "*batch D"]
    beta: Float[Array, "*batch D"]
    low: Float[Array, "*batch D"]
    high: Float[Array, "*batch D"]

    def sample(self, key: Key) -> Float[Array, " D"]:
        """One action."""
        unit = jax.random.beta(key, self.alpha, self.beta)
        # where `high − low` is rounded up, a draw of 1 would land outside
        return jnp.clip(self.low + (self.high - self.low) * unit, self.low, self.high)

    def mode(self) -> Float[Array, "*batch D"]:
        """The mean; a Beta with α, β ≤ 1 has no mode inside."""
        return self.low + (self.high - self.low) * self.alpha / (self.alpha + self.beta)

    def log_prob(self, action: Float[Array, "*batch D"]) -> Float[Array, "*batch"]:
        """The log-density over [low, high]."""
        width = self.high - self.low
        # float32 samples can be exactly 0 or 1, where the density of α < 1 or β < 1 is infinite
        unit = jnp.clip((action - self.low) / width, 1e-6, 1 - 1e-6)
        log_density = (self.alpha - 1) * jnp.log(unit) + (self.beta - 1) * jnp.log1p(-unit)
        return jnp.sum(log_density - betaln(self.alpha, self.beta) - jnp.log(width), axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        """The sum over components."""
        a, b = self.alpha, self.beta
        unit = betaln(a, b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b)
        return jnp.sum(unit + jnp.log(self.high - self.low), axis=-1)
