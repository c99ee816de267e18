"""Proximal policy optimization (Schulman et al., 2017) on a rollout.

The same functions train students and teachers, recurrent or not, on one device or several: gradients, and the moments
that advantages are normalized by, are averages over the mesh.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from tutelage.learning import mesh, returns
from tutelage.learning.network import Network, Params
from tutelage.learning.rollout import Rollout, zeros_of
from tutelage.types import Action, InputError, Key, Obs

Metrics = dict[str, Array]
"""Scalars by name."""


@dataclass(frozen=True)
class PPO:
    """How a policy learns. The defaults are the paper's for mazes (appendix, table of hyperparameters)."""

    gamma: float = 0.995
    """The discount γ (paper: 0.995; in CarRacing 0.99)."""
    gae_lambda: float = 0.95
    """The λ of generalized advantage estimation (paper: 0.95; in CarRacing 0.9)."""
    epochs: int = 5
    """Passes over each rollout (paper: 5; in CarRacing 8)."""
    num_minibatches: int = 1
    """Parts of a rollout in an epoch: whole sequences if the policy is recurrent, else steps (paper: 1; in CarRacing
    4)."""
    clip_eps: float = 0.2
    """The probability ratio is clipped to 1 ± this (paper: 0.2)."""
    value_loss: Literal["clipped", "squared", "huber"] = "clipped"
    """The loss between a value and its target (paper: clipped; released code: in CarRacing huber)."""
    value_coef: float = 0.5
    """The weight of the value loss (paper: 0.5)."""
    entropy_coef: float = 0.0
    """The weight of the entropy bonus (paper: 0; REPAIRED's teacher in CarRacing 0.01)."""
    learning_rate: float = 1e-4
    """Adam's learning rate (paper: 1e-4; in CarRacing 3e-4)."""
    anneal_updates: int = 0
    """Decrease the learning rate linearly to zero over this many gradient updates; 0 keeps it constant."""
    adam_eps: float = 1e-5
    """Added to Adam's denominator (paper: 1e-5)."""
    max_grad_norm: float = 0.5
    """Gradients with a larger norm are scaled down to it (paper: 0.5)."""
    normalize_returns: bool = False
    """Divide rewards by the running std of discounted returns (paper: in CarRacing only) and clip them to ±10 (released
    code)."""
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
        if self.anneal_updates < 0:
            raise InputError(f"anneal_updates is a number of updates, or 0 for never, not {self.anneal_updates}.")
        # written so that NaN is refused as well
        if not (0 <= self.gamma <= 1 and 0 <= self.gae_lambda <= 1):
            raise InputError(f"gamma and gae_lambda lie in [0, 1]; got {self.gamma} and {self.gae_lambda}.")
        for name in ("learning_rate", "value_coef", "entropy_coef"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} is a finite number that is not negative; got {getattr(self, name)}.")
        for name in ("clip_eps", "adam_eps"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} is a finite number above 0; got {getattr(self, name)}.")
        if not self.max_grad_norm > 0:
            raise InputError(f"max_grad_norm is above 0 (inf never clips); got {self.max_grad_norm}.")
        if self.value_loss not in ("clipped", "squared", "huber"):
            raise InputError(f"value_loss is 'clipped', 'squared' or 'huber', not {self.value_loss!r}.")


class Learner(NamedTuple):
    """A policy and the state of its training."""

    params: Params
    opt_state: Any  # Adam's, of all parameters flattened into one vector
    return_stats: returns.RunningMoments  # of discounted returns
    updates: Int[Array, "*S"]  # gradient updates so far


class Estimate(NamedTuple):
    """Advantages and value targets of a rollout."""

    advantage: Float[Array, "*S T B"]
    target: Float[Array, "*S T B"]


def init(ppo: PPO, network: Network, key: Key, obs: Obs) -> Learner:
    """An untrained learner, given an example observation with leaves [T, B, ...]."""
    params = network.init(key, obs)
    return Learner(params, _adam(ppo).init(ravel_pytree(params)[0]), returns.zero_moments(), jnp.int32(0))


def update_return_stats(ppo: PPO, learner: Learner, rollout: Rollout) -> Learner:
    """Add a rollout's discounted returns to the running statistics, if they are used and all rewards are finite."""
    if not ppo.normalize_returns:
        return learner
    per_env = jax.vmap(returns.discounted_sums, (1, 1, None), 1)
    sums = per_env(rollout.reward, rollout.done, ppo.gamma)
    stats = returns.update_moments(learner.return_stats, sums)
    # a single NaN in the running moments would make all later ones NaN
    finite = jnp.isfinite(stats.squares)
    return learner._replace(return_stats=jax.tree.map(partial(jnp.where, finite), stats, learner.return_stats))


def estimate(ppo: PPO, learner: Learner, rollout: Rollout) -> Estimate:
    """Advantages and value targets, in the units of the value function."""
    reward = rollout.reward
    if ppo.normalize_returns:
        reward = jnp.clip(reward / learner.return_stats.std, -10.0, 10.0)
    per_env = jax.vmap(returns.gae, (1, 1, 1, 1, 1, 0, None, None), 1)
    advantage = per_env(
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

    If any loss or gradient is not finite, the learner is returned unchanged and the metric `finite` is 0.
    """
    mean = mesh.mean(estimated.advantage.mean())
    std = jnp.sqrt(mesh.mean(jnp.square(estimated.advantage - mean).mean()))
    # advantages that are all equal still differ by rounding errors, which must not be scaled up to ±1
    std += 1e-5 * (1 + jnp.abs(mean))
    batch = _Batch(
        rollout.obs,
        rollout.first,
        rollout.action,
        rollout.log_prob,
        rollout.value,
        (estimated.advantage - mean) / std,
        estimated.target,
    )
    adam = _adam(ppo)
    # one vector of all parameters: one all-reduce, one norm and one Adam update, instead of one for each array
    flat_params, unravel = ravel_pytree(learner.params)

    def gradient_step(carry: tuple[Array, Any], batch: _Batch) -> tuple[tuple[Array, Any], Metrics]:
        flat_params, opt_state = carry
        grads, metrics = mesh.mean(_gradients(ppo, network, flat_params, unravel, batch))
        norm = jnp.sqrt(jnp.sum(jnp.square(grads)))
        scale = jnp.minimum(1.0, ppo.max_grad_norm / (norm + 1e-6))
        updates, opt_state = adam.update(scale * grads, opt_state)
        finite = jnp.isfinite(norm) & jnp.isfinite(metrics["loss"])
        return (flat_params + updates, opt_state), metrics | {"grad_norm": norm, "finite": finite.astype(jnp.float32)}

    before = (flat_params, learner.opt_state)
    size, take = _samples(network, batch)
    if ppo.num_minibatches == 1:
        after, metrics = lax.scan(lambda carry, _: gradient_step(carry, take(None)), before, length=ppo.epochs)
    else:
        minibatches = jax.vmap(lambda key: shuffled(key, size, ppo.num_minibatches))(jax.random.split(key, ppo.epochs))
        minibatches = minibatches.reshape(-1, minibatches.shape[-1])
        after, metrics = lax.scan(lambda carry, which: gradient_step(carry, take(which)), before, minibatches)

    finite = metrics["finite"].min()
    flat_params, opt_state = jax.tree.map(partial(jnp.where, finite > 0), after, before)
    updates = learner.updates + jnp.where(finite > 0, ppo.epochs * ppo.num_minibatches, 0)
    metrics = {name: x.mean() for name, x in metrics.items()} | {"finite": finite}
    return Learner(unravel(flat_params), opt_state, learner.return_stats, updates), metrics


def shuffled(key: Key, size: int, num_minibatches: int) -> Int[Array, "num_minibatches minibatch"]:
    """Split this device's samples at random into minibatches of one size.

    Of `num_minibatches` successive samples, each goes to another minibatch. So a minibatch has equally many samples of
    every device, and holds the same samples for any number of devices.
    """
    if size % num_minibatches:
        raise InputError(
            f"{num_minibatches} minibatches cannot share {size} sequences (or steps, for a policy that is not "
            f"recurrent) on each of {mesh.count()} devices evenly; choose a number of minibatches that divides {size}."
        )
    rows = size // num_minibatches
    order = jnp.argsort(mesh.shard(jax.random.uniform(key, (mesh.count() * rows, num_minibatches))), axis=1)
    return (order + num_minibatches * jnp.arange(rows)[:, None]).T


class _Batch(NamedTuple):
    """What the loss reads; leaves [T, B, ...]."""

    obs: Obs
    first: Bool[Array, "T B"]
    action: Action
    log_prob: Float[Array, "T B"]
    value: Float[Array, "T B"]
    advantage: Float[Array, "T B"]
    target: Float[Array, "T B"]


def _samples(network: Network, batch: _Batch) -> tuple[int, Callable[[Int[Array, " minibatch"] | None], _Batch]]:
    """How many samples (sequences or steps) a batch has, and a function that takes some of them (None: all)."""
    if not network.recurrent:
        # the order of steps does not matter: all of them on one axis, env by env
        batch = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(1, -1, *x.shape[2:]), batch)
    return batch.first.shape[1], lambda which: batch if which is None else jax.tree.map(lambda x: x[:, which], batch)


def _gradients(ppo: PPO, network: Network, flat_params: Array, unravel: Any, batch: _Batch) -> tuple[Array, Metrics]:
    """Of the loss by the vector of all parameters, and metrics: means over blocks of at most `network.block` steps."""
    count, loss = batch.first.shape[1], partial(_loss, ppo, network)
    fewest = 1 if network.block is None or network.recurrent else -(-count // network.block)
    parts = next((parts for parts in range(fewest, 2 * fewest) if count % parts == 0), 1)
    if parts == 1 or jax.default_backend() != "cpu":
        return jax.grad(lambda flat_params: loss(unravel(flat_params), batch), has_aux=True)(flat_params)
    blocks = jax.tree.map(lambda x: x.reshape(parts, 1, count // parts, *x.shape[2:]), batch)
    gradients = partial(jax.grad(loss, has_aux=True), unravel(flat_params))

    def add(total: Any, block: _Batch) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, gradients(block)), None

    zeros = zeros_of(lambda: gradients(jax.tree.map(lambda x: x[0], blocks)))
    grads, metrics = jax.tree.map(lambda x: x / parts, lax.scan(add, zeros, blocks)[0])
    return ravel_pytree(grads)[0], metrics


def _loss(ppo: PPO, network: Network, params: Params, batch: _Batch) -> tuple[Float[Array, ""], Metrics]:
    carry = network.initial_carry(batch.first.shape[1])
    _, head = network.apply(network.pack(params), carry, batch.obs, batch.first)
    log_ratio = head.policy.log_prob(batch.action) - batch.log_prob
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - ppo.clip_eps, 1 + ppo.clip_eps)
    policy_loss = -jnp.minimum(ratio * batch.advantage, clipped * batch.advantage).mean()
    value_loss = _value_loss(ppo, head.value, batch).mean()
    entropy = head.policy.entropy().mean()
    loss = policy_loss + ppo.value_coef * value_loss - ppo.entropy_coef * entropy
    return loss, {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "clip_fraction": (jnp.abs(ratio - 1) > ppo.clip_eps).mean(),
        "approx_kl": (ratio - 1 - log_ratio).mean(),
    }


def _value_loss(ppo: PPO, value: Float[Array, "T B"], batch: _Batch) -> Float[Array, "T B"]:
    match ppo.value_loss:
        case "squared":
            return 0.5 * jnp.square(value - batch.target)
        case "huber":
            return optax.huber_loss(value, batch.target)
        case "clipped":
            near = batch.value + jnp.clip(value - batch.value, -ppo.clip_eps, ppo.clip_eps)
            return 0.5 * jnp.maximum(jnp.square(value - batch.target), jnp.square(near - batch.target))


def _adam(ppo: PPO) -> optax.GradientTransformation:
    rate = ppo.learning_rate
    if ppo.anneal_updates:
        rate = optax.linear_schedule(ppo.learning_rate, 0.0, ppo.anneal_updates)
    return optax.adam(rate, eps=ppo.adam_eps)
