"""Proximal policy optimisation (Schulman et al., 2017) on a rollout.

The same few functions teach students and teachers, with or without memory, on one device or several: gradients, and the
moments that advantages are normalised by, are averages over the mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.flatten_util import ravel_pytree

from tutelage.learning import mesh, returns
from tutelage.learning.network import Network, Params
from tutelage.learning.rollout import Rollout
from tutelage.types import InputError, Key, Obs

Metrics = dict[str, jax.Array]


@dataclass(frozen=True)
class PPO:
    """How a policy learns. The defaults are the paper's for mazes (appendix, table of hyper-parameters)."""

    gamma: float = 0.995
    """γ (paper: 0.995; in CarRacing 0.99)."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation (paper: 0.95; in CarRacing 0.9)."""
    epochs: int = 5
    """Passes over each rollout (paper: 5; in CarRacing 8)."""
    num_minibatches: int = 1
    """Parts of a rollout in a pass: whole sequences if there is a memory, else steps (paper: 1; in CarRacing 4)."""
    clip_eps: float = 0.2
    """The probability ratio is clipped to 1 ± this (paper: 0.2)."""
    value_loss: Literal["clipped", "squared", "huber"] = "clipped"
    """How far a value is from its target (paper: clipped; in CarRacing huber)."""
    value_coef: float = 0.5
    """Of that loss beside the policy's (paper: 0.5)."""
    entropy_coef: float = 0.0
    """What a policy gains by being undecided (paper: 0; REPAIRED's generator in CarRacing 0.01)."""
    learning_rate: float = 1e-4
    """Of Adam (paper: 1e-4; in CarRacing 3e-4)."""
    anneal_updates: int = 0
    """Let the learning rate fall linearly to zero over this many gradient updates; 0 keeps it constant."""
    adam_eps: float = 1e-5
    """Added to Adam's denominator (paper: 1e-5)."""
    max_grad_norm: float = 0.5
    """Longer gradients are shortened to this (paper: 0.5)."""
    normalize_returns: bool = False
    """Divide rewards by the running deviation of discounted returns, and clip to ±10 (paper: in CarRacing only)."""
    bootstrap_on_truncation: bool = False
    """Bootstrap from the value of the last observation when a time limit truncates an episode (paper: not said;
    released code: no)."""
    bootstrap_at_rollout_end: bool = True
    """Bootstrap from the value of the observation after a rollout's last step (released code: no)."""

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.num_minibatches < 1:
            raise InputError(
                f"PPO needs at least one epoch and one minibatch, not {self.epochs}, {self.num_minibatches}."
            )
        if not (0 <= self.gamma <= 1 and 0 <= self.gae_lambda <= 1):
            raise InputError(f"gamma and gae_lambda lie in [0, 1]; got {self.gamma} and {self.gae_lambda}.")
        if self.value_loss not in ("clipped", "squared", "huber"):
            raise InputError(f"value_loss is 'clipped', 'squared' or 'huber', not {self.value_loss!r}.")


class Learner(NamedTuple):
    """A policy and all that its learning remembers."""

    params: Params
    adam: Any  # moments of the gradient, of all parameters in one long row
    return_stats: returns.RunningMoments  # of discounted returns
    updates: jax.Array  # i32[]: gradient updates so far


class Estimate(NamedTuple):
    """What a rollout says about its steps; leaves f32[T, B]."""

    advantage: jax.Array
    target: jax.Array


def init(ppo: PPO, network: Network, key: Key, obs: Obs) -> Learner:
    """A learner that has learned nothing yet, given an example observation with leaves [T, B, ...]."""
    params = network.init(key, obs)
    return Learner(params, _adam(ppo).init(ravel_pytree(params)[0]), returns.no_moments(), jnp.int32(0))


def update_return_stats(ppo: PPO, learner: Learner, rollout: Rollout) -> Learner:
    """Take a rollout's rewards into the running statistics, if there are any and all rewards are finite."""
    if not ppo.normalize_returns:
        return learner
    per_worker = jax.vmap(returns.discounted_sums, (1, 1, None), 1)
    sums = per_worker(rollout.reward, rollout.done, ppo.gamma)
    stats = returns.update_moments(learner.return_stats, sums)
    # a single NaN in the running moments would spoil every later rollout, too
    finite = jnp.isfinite(stats.squares)
    return learner._replace(return_stats=jax.tree.map(partial(jnp.where, finite), stats, learner.return_stats))


def estimate(ppo: PPO, learner: Learner, rollout: Rollout) -> Estimate:
    """Advantages and value targets, in the units that the value function is learned in."""
    reward = rollout.reward
    if ppo.normalize_returns:
        reward = jnp.clip(reward / learner.return_stats.deviation, -10.0, 10.0)
    per_worker = jax.vmap(returns.gae, (1, 1, 1, 1, 1, 0, None, None), 1)
    advantage = per_worker(
        reward,
        rollout.value,
        rollout.terminated,
        rollout.truncated,
        rollout.truncation_value if ppo.bootstrap_on_truncation else jnp.zeros_like(rollout.truncation_value),
        rollout.last_value if ppo.bootstrap_at_rollout_end else jnp.zeros_like(rollout.last_value),
        ppo.gamma,
        ppo.gae_lambda,
    )
    return Estimate(advantage, advantage + rollout.value)


def update(
    ppo: PPO, network: Network, learner: Learner, rollout: Rollout, estimated: Estimate, key: Key
) -> tuple[Learner, Metrics]:
    """Several epochs of clipped policy-gradient steps on one rollout.

    If any loss or gradient is not finite the learner comes back as it was, and the metric `finite` is 0.
    """
    centre = mesh.mean(estimated.advantage.mean())
    spread = jnp.sqrt(mesh.mean(jnp.square(estimated.advantage - centre).mean()))
    # advantages that are all equal still differ by rounding errors, which must not be blown up to ±1
    spread += 1e-5 * (1 + jnp.abs(centre))
    sample = _Sample(
        rollout.obs,
        rollout.first,
        rollout.action,
        rollout.log_prob,
        rollout.value,
        (estimated.advantage - centre) / spread,
        estimated.target,
    )
    adam = _adam(ppo)
    # one long row of parameters: one all-reduce, one norm and one Adam, instead of a small one for each array
    start, unravel = ravel_pytree(learner.params)

    def gradient_step(carry: tuple[jax.Array, Any], sample: _Sample) -> tuple[tuple[jax.Array, Any], Metrics]:
        row, moments = carry
        grads, metrics = jax.grad(lambda row: _loss(ppo, network, unravel(row), sample), has_aux=True)(row)
        grads, metrics = mesh.mean((grads, metrics))
        norm = jnp.sqrt(jnp.sum(jnp.square(grads)))
        scale = jnp.minimum(1.0, ppo.max_grad_norm / (norm + 1e-6))
        change, moments = adam.update(scale * grads, moments)
        finite = jnp.isfinite(norm) & jnp.isfinite(metrics["loss"])
        return (row + change, moments), metrics | {"grad_norm": norm, "finite": finite.astype(jnp.float32)}

    before = (start, learner.adam)
    units, take = _units(network, sample)
    if ppo.num_minibatches == 1:
        everything = take(None)
        after, metrics = lax.scan(lambda carry, _: gradient_step(carry, everything), before, length=ppo.epochs)
    else:
        parts = jax.vmap(lambda key: shuffled(key, units, ppo.num_minibatches))(jax.random.split(key, ppo.epochs))
        parts = parts.reshape(-1, parts.shape[-1])
        after, metrics = lax.scan(lambda carry, part: gradient_step(carry, take(part)), before, parts)

    finite = metrics["finite"].min()
    row, moments = jax.tree.map(partial(jnp.where, finite > 0), after, before)
    updates = learner.updates + jnp.where(finite > 0, ppo.epochs * ppo.num_minibatches, 0)
    metrics = {name: x.mean() for name, x in metrics.items()} | {"finite": finite}
    return Learner(unravel(row), moments, learner.return_stats, updates), metrics


def shuffled(key: Key, units: int, parts: int) -> jax.Array:
    """i32[parts, units / parts]: this device's units dealt out at random into equal parts.

    Of every run of `parts` neighbours each goes to another part. So a part has as much from every device, and holds
    the same units however many devices there are.
    """
    if units % parts:
        raise InputError(
            f"{parts} minibatches cannot share {units} sequences (or steps, for a policy without memory) on each of "
            f"{mesh.count()} devices evenly; choose a number of minibatches that divides {units}."
        )
    order = jnp.argsort(mesh.own(jax.random.uniform(key, (mesh.count() * units // parts, parts))), axis=1)
    return (order + parts * jnp.arange(units // parts)[:, None]).T


class _Sample(NamedTuple):
    """What the loss reads; leaves [T, B, ...]."""

    obs: Obs
    first: jax.Array
    action: Any
    log_prob: jax.Array
    value: jax.Array
    advantage: jax.Array
    target: jax.Array


def _units(network: Network, sample: _Sample) -> tuple[int, Callable[[jax.Array | None], _Sample]]:
    """How many units minibatches are made of, and a function that takes some of them (None: all)."""
    if not network.recurrent:
        # without memory the order of steps means nothing: one long row of them, worker by worker
        sample = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(1, -1, *x.shape[2:]), sample)
    return sample.first.shape[1], lambda part: sample if part is None else jax.tree.map(lambda x: x[:, part], sample)


def _loss(ppo: PPO, network: Network, params: Params, sample: _Sample) -> tuple[jax.Array, Metrics]:
    carry = network.carry(sample.first.shape[1])
    _, head = network.apply(network.pack(params), carry, sample.obs, sample.first)
    log_ratio = head.policy.log_prob(sample.action) - sample.log_prob
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - ppo.clip_eps, 1 + ppo.clip_eps)
    policy_loss = -jnp.minimum(ratio * sample.advantage, clipped * sample.advantage).mean()
    value_loss = _value_loss(ppo, head.value, sample).mean()
    entropy = head.policy.entropy().mean()
    loss = policy_loss + ppo.value_coef * value_loss - ppo.entropy_coef * entropy
    return loss, {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "clipped": (jnp.abs(ratio - 1) > ppo.clip_eps).mean(),
        "kl": (ratio - 1 - log_ratio).mean(),
    }


def _value_loss(ppo: PPO, value: jax.Array, sample: _Sample) -> jax.Array:
    """f32[T, B]"""
    match ppo.value_loss:
        case "squared":
            return 0.5 * jnp.square(value - sample.target)
        case "huber":
            return optax.huber_loss(value, sample.target)
        case "clipped":
            near = sample.value + jnp.clip(value - sample.value, -ppo.clip_eps, ppo.clip_eps)
            return 0.5 * jnp.maximum(jnp.square(value - sample.target), jnp.square(near - sample.target))


def _adam(ppo: PPO) -> optax.GradientTransformation:
    rate = ppo.learning_rate
    if ppo.anneal_updates:
        rate = optax.linear_schedule(ppo.learning_rate, 0.0, ppo.anneal_updates)
    return optax.adam(rate, eps=ppo.adam_eps)
