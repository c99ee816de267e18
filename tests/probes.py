"""Probe environments: each isolates one thing that learning must get right, and its exact answer is known.

Also the smallest networks that can learn them, and the loop of rollouts and updates that the tests share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from tutelage.learning import mesh, ppo
from tutelage.learning.distributions import Beta, Categorical
from tutelage.learning.network import Head, Network, from_flax
from tutelage.learning.rollout import Rollout, collect_rollout
from tutelage.types import Box, Discrete, Env, Key, Space, Step


class Seen(NamedTuple):
    """The state of a probe: the time, and a sign ±1 drawn at the reset."""

    time: jax.Array  # i32[]
    sign: jax.Array  # f32[]


@dataclass(frozen=True)
class Probe(Env):
    """Two actions, a sign drawn at random, and episodes of `horizon` steps. A probe has no levels."""

    @property
    def actions(self) -> Space:
        return Discrete(2)

    @property
    def horizon(self) -> int:
        return 1

    def reset(self, key: Key, scene: Any) -> tuple[Seen, jax.Array]:
        state = Seen(jnp.int32(0), jax.random.rademacher(key, (), jnp.float32))
        return state, self.look(state)

    def step(self, key: Key, scene: Any, state: Seen, action: jax.Array) -> tuple[Seen, Step]:
        later = Seen(state.time + 1, state.sign)
        over = later.time == self.horizon
        return later, Step(self.look(later), self.earn(state, action), over, jnp.bool_(False))

    def look(self, state: Seen) -> jax.Array:
        """f32[D]: the observation."""
        return jnp.ones(1)

    def earn(self, state: Seen, action: jax.Array) -> jax.Array:
        """f32[]: the reward."""
        return jnp.float32(1)


@dataclass(frozen=True)
class Constant(Probe):
    """One step, reward 1. V = 1, and no action is better than another."""


@dataclass(frozen=True)
class Sign(Probe):
    """One step whose reward is what is seen. V(o) = o."""

    def look(self, state: Seen) -> jax.Array:
        return state.sign[None]

    def earn(self, state: Seen, action: jax.Array) -> jax.Array:
        return state.sign


@dataclass(frozen=True)
class Later(Probe):
    """Two steps, reward 1 after the second. V = γ, then 1."""

    @property
    def horizon(self) -> int:
        return 2

    def look(self, state: Seen) -> jax.Array:
        return state.time.astype(jnp.float32)[None]

    def earn(self, state: Seen, action: jax.Array) -> jax.Array:
        return state.time.astype(jnp.float32)


@dataclass(frozen=True)
class Choice(Probe):
    """One step, reward 1 for action 1 and −1 for action 0."""

    def earn(self, state: Seen, action: jax.Array) -> jax.Array:
        return 2.0 * action - 1.0


@dataclass(frozen=True)
class Match(Probe):
    """One step, reward 1 if the action is the sign that is seen (0 for −1), else −1."""

    def look(self, state: Seen) -> jax.Array:
        return state.sign[None]

    def earn(self, state: Seen, action: jax.Array) -> jax.Array:
        return state.sign * (2.0 * action - 1.0)


@dataclass(frozen=True)
class Recall(Match):
    """Two steps. The first shows the sign, the second does not, but its action has to match it."""

    @property
    def horizon(self) -> int:
        return 2

    def look(self, state: Seen) -> jax.Array:
        return jnp.where(state.time == 0, jnp.array([state.sign, 0.0]), jnp.array([0.0, 1.0]))

    def earn(self, state: Seen, action: jax.Array) -> jax.Array:
        return (state.time == 1) * super().earn(state, action)


@dataclass(frozen=True)
class Endless(Probe):
    """Reward 1 at each step of a task without end, which a time limit cuts after `limit` steps.

    V = 1 / (1 − γ). If the limit counts as an end, V = (1 − γⁿ) / (1 − γ) with n steps to go, which needs a `clock`.
    """

    limit: int = 3
    clock: bool = False

    @property
    def horizon(self) -> int:
        return self.limit

    def look(self, state: Seen) -> jax.Array:
        return jax.nn.one_hot(state.time * self.clock, self.limit + 1)

    def step(self, key: Key, scene: Any, state: Seen, action: jax.Array) -> tuple[Seen, Step]:
        later, step = super().step(key, scene, state, action)
        return later, step._replace(terminated=jnp.bool_(False), truncated=step.terminated)


@dataclass(frozen=True)
class Aim(Probe):
    """One step with a real action in [−2, 2], which should hit the sign that is seen."""

    @property
    def actions(self) -> Space:
        return Box((-2.0,), (2.0,))

    def look(self, state: Seen) -> jax.Array:
        return state.sign[None]

    def earn(self, state: Seen, action: jax.Array) -> jax.Array:
        return -jnp.square(action[0] - state.sign)


@dataclass(frozen=True)
class Faulty(Match):
    """`Match`, but where the level is true every reward is not a number."""

    def step(self, key: Key, scene: jax.Array, state: Seen, action: jax.Array) -> tuple[Seen, Step]:
        later, step = super().step(key, scene, state, action)
        return later, step._replace(reward=jnp.where(scene, jnp.nan, step.reward))


@dataclass(frozen=True)
class Wait(Env):
    """The level says how long an episode lasts: from one step to `horizon`, and forever if it says more.

    Each step earns the action and the draw of a random number; after the end rewards are not numbers.
    """

    @property
    def actions(self) -> Space:
        return Discrete(2)

    @property
    def horizon(self) -> int:
        return 40

    def reset(self, key: Key, scene: jax.Array) -> tuple[Seen, jax.Array]:
        state = Seen(jnp.int32(0), jax.random.rademacher(key, (), jnp.float32))
        return state, self.look(state)

    def step(self, key: Key, scene: jax.Array, state: Seen, action: jax.Array) -> tuple[Seen, Step]:
        later = Seen(state.time + 1, jax.random.rademacher(key, (), jnp.float32))
        reward = jnp.where(later.time > scene, jnp.nan, action + 0.25 * later.sign)
        return later, Step(self.look(later), reward, later.time == scene, jnp.bool_(False))

    def look(self, state: Seen) -> jax.Array:
        return jnp.stack([state.sign, state.time / 40.0])


class Small(nn.Module):
    """A policy that is not recurrent; `dims` of a real action, or None for two discrete ones."""

    dims: int | None = None

    @nn.compact
    def __call__(self, carry: Any, obs: jax.Array, first: jax.Array) -> tuple[Any, Head]:
        x = nn.tanh(nn.Dense(16)(obs))
        return carry, _heads(x, self.dims)


class Remembering(nn.Module):
    """A recurrent policy, whose carry is f32[B, 16]."""

    @nn.compact
    def __call__(self, carry: jax.Array, obs: jax.Array, first: jax.Array) -> tuple[jax.Array, Head]:
        def cell(module: nn.Module, carry: jax.Array, xs: Any) -> Any:
            obs, first = xs
            carry = jnp.where(first[:, None], 0.0, carry)
            return nn.GRUCell(16, parent=module, name="cell")(carry, obs)

        scan = nn.scan(cell, variable_broadcast="params", split_rngs={"params": False})
        carry, x = scan(self, carry, (obs, first))
        return carry, _heads(x, None)


def _heads(x: jax.Array, dims: int | None) -> Head:
    value = nn.Dense(1, name="value")(x)[..., 0]
    if dims is None:
        return Head(Categorical(nn.Dense(2, name="logits", kernel_init=nn.initializers.zeros)(x)), value)
    shape = 1 + nn.softplus(nn.Dense(2 * dims, name="shape")(x))
    bound = jnp.full((*x.shape[:-1], dims), 2.0)
    return Head(Beta(shape[..., :dims], shape[..., dims:], -bound, bound), value)


def small(dims: int | None = None) -> Network:
    return from_flax(Small(dims))


def remembering() -> Network:
    return from_flax(Remembering(), lambda batch: jnp.zeros((batch, 16)))


def example(env: Env, level: Any = ()) -> Any:
    """An observation with leaves [1, 1, ...], from which a network takes its shapes."""
    _, obs = env.reset(jax.random.key(0), env.load(level))
    return jax.tree.map(lambda x: x[None, None], obs)


SOON = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Nearly all of a small test's time is the compiler's: options for plain code, soon, instead of quick code, late."""


def compiled(f: Callable[..., Any], batch: int, devices: int | None = None) -> Callable[..., Any]:
    """`f` on a mesh for `batch` levels."""
    return jax.jit(mesh.on_devices(f, mesh.make_mesh(batch, devices)), compiler_options=SOON)


Iteration = Callable[[ppo.Learner, Key], tuple[ppo.Learner, ppo.Metrics, Rollout]]


def iteration(env: Env, network: Network, settings: ppo.PPO, batch: int, length: int, queues: Any = ()) -> Iteration:
    """One rollout and its update, to be run on devices; the rollout that comes back is whole."""

    def iterate(learner: ppo.Learner, key: Key) -> tuple[ppo.Learner, ppo.Metrics, Rollout]:
        play_key, learn_key = jax.random.split(key)
        rollout, _ = collect_rollout(
            env,
            network,
            network.pack(learner.params),
            mesh.shard(jax.random.split(play_key, batch)),
            mesh.shard(queues),
            length,
            bootstrap_on_truncation=settings.bootstrap_on_truncation,
        )
        learner = ppo.update_return_stats(settings, learner, rollout)
        estimated = ppo.estimate(settings, learner, rollout)
        learner, metrics = ppo.update(settings, network, learner, rollout, estimated, learn_key)
        return learner, metrics, gathered(rollout)

    return iterate


def gathered(rollout: Rollout) -> Rollout:
    """The whole rollout, put together from every device's envs."""
    by_env = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), rollout._replace(last_value=rollout.last_value[None]))
    together = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), mesh.gather(by_env))
    return together._replace(last_value=together.last_value[0])


def train(
    env: Env, network: Network, settings: ppo.PPO, *, iterations: int = 150, batch: int = 32, length: int = 6
) -> Callable[[jax.Array], Head]:
    """Train a policy on a probe, as one compiled program. Returns what it then says to observations [T, B, ...]."""
    iterate = iteration(env, network, settings, batch, length)

    def all_of_it(key: Key) -> ppo.Learner:
        init_key, key = jax.random.split(key)
        learner = ppo.init(settings, network, init_key, example(env))
        keys = jax.random.split(key, iterations)
        return jax.lax.scan(lambda learner, key: (iterate(learner, key)[0], None), learner, keys)[0]

    learner = compiled(all_of_it, batch)(jax.random.key(0))

    def say(obs: jax.Array) -> Head:
        first = jnp.zeros(obs.shape[:2], bool).at[0].set(True)
        return network.apply(network.pack(learner.params), network.initial_carry(obs.shape[1]), obs, first)[1]

    return say
