"""What a rollout records, step by step, on levels whose every observation and value is known beforehand."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from probes import SOON, Recall, compiled, example, gathered, remembering

from tutelage.learning import mesh
from tutelage.learning.distributions import Categorical
from tutelage.learning.network import Head, Network
from tutelage.learning.rollout import Rollout, collect_rollout, renew
from tutelage.types import Discrete, Env, Key, Step


class Level(NamedTuple):
    name: Any
    length: Any
    cut: Any  # whether a time limit ends its episodes


class Noted(NamedTuple):
    time: jax.Array
    luck: jax.Array


@dataclass(frozen=True)
class Diary(Env):
    """Shows its level's name, the time, and a number drawn at each step."""

    @property
    def actions(self) -> Discrete:
        return Discrete(5)

    @property
    def horizon(self) -> int:
        return 100

    def load(self, level: Level) -> tuple[Level, jax.Array]:
        return level, 10.0 * level.name

    def reset(self, key: Key, scene: Any) -> tuple[Noted, jax.Array]:
        state = Noted(jnp.int32(0), jax.random.uniform(key))
        return state, self.look(scene, state)

    def step(self, key: Key, scene: Any, state: Noted, action: jax.Array) -> tuple[Noted, Step]:
        level, _ = scene
        state = Noted(state.time + 1, jax.random.uniform(key))
        over = state.time == level.length
        return state, Step(self.look(scene, state), 1.0 * action, over & ~level.cut, over & level.cut)

    def look(self, scene: Any, state: Noted) -> jax.Array:
        return jnp.stack([scene[1], state.time.astype(jnp.float32), state.luck])


def _count(weights: float, carry: jax.Array, obs: jax.Array, first: jax.Array) -> tuple[jax.Array, Head]:
    """V = the level's name · 10 + `weights` · how many observations are remembered. All actions are equally likely."""

    def over_step(carry: jax.Array, first: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jnp.where(first, 0.0, carry) + 1
        return carry, carry

    carry, seen = jax.lax.scan(over_step, carry, first)
    return carry, Head(Categorical(jnp.zeros((*first.shape, 5))), obs[..., 0] + weights * seen)


COUNTING = Network(lambda *_: 0.01, jnp.zeros, _count)


def _collect(levels: list[list[tuple[int, int, bool]]], length: int, **settings: Any) -> tuple[Rollout, Noted]:
    """Collect, env by env, a rollout on the levels (name, length, cut) of its queue."""
    columns = zip(*(zip(*queue, strict=True) for queue in levels), strict=True)
    queues = Level(*(jnp.array(column) for column in columns))
    keys = jax.random.split(jax.random.key(0), len(levels))
    collect = partial(collect_rollout, Diary(), COUNTING, 0.01, num_steps=length, **settings)
    return jax.jit(collect, compiler_options=SOON)(keys, queues)


@pytest.fixture(scope="module")
def collected() -> tuple[Rollout, Noted]:
    """Seven steps of three envs, each with a queue of three levels; the last env never ends its first."""
    return _collect(
        [
            [(1, 2, True), (2, 3, False), (3, 1, False)],
            [(4, 1, False), (5, 2, False), (6, 1, True)],
            [(7, 50, True), (8, 50, True), (9, 50, True)],
        ],
        7,
        bootstrap_on_truncation=True,
    )


def test_levels_follow_each_other_and_begin_again(collected):
    rollout, _ = collected
    assert_array_equal(rollout.obs[..., 0].T, 10 * np.array([[1, 1, 2, 2, 2, 3, 1], [4, 5, 5, 6, 4, 5, 5], [7] * 7]))


def test_every_episode_starts_from_its_reset(collected):
    rollout, _ = collected
    assert_array_equal(rollout.obs[..., 1].T, [[0, 1, 0, 1, 2, 0, 0], [0, 0, 1, 0, 0, 0, 1], range(7)])
    assert_array_equal(rollout.first, rollout.obs[..., 1] == 0)
    # no two resets or steps drew the same number
    assert np.unique(rollout.obs[..., 2]).size == rollout.obs[..., 2].size


def test_ends_are_told_apart(collected):
    rollout, _ = collected
    assert_array_equal(rollout.truncated.T, [[0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0], [0] * 7])
    assert_array_equal(rollout.terminated.T, [[0, 0, 0, 0, 1, 1, 0], [1, 0, 1, 0, 1, 0, 1], [0] * 7])
    assert_array_equal(rollout.done[:-1], rollout.first[1:])


def test_the_carry_is_cleared_where_an_episode_begins(collected):
    rollout, _ = collected
    assert_allclose(rollout.value, rollout.obs[..., 0] + 0.01 * (rollout.obs[..., 1] + 1), rtol=1e-6)


def test_the_truncation_value_is_that_of_the_last_observation_with_the_carry_of_its_episode(collected):
    rollout, _ = collected
    expected = np.zeros((7, 3))
    expected[1, 0] = 10 + 0.01 * 3
    expected[3, 1] = 60 + 0.01 * 2
    assert_allclose(rollout.truncation_value, expected, rtol=1e-6)


def test_the_last_value_is_that_of_the_observation_after_the_last_step(collected):
    rollout, _ = collected
    assert_allclose(rollout.last_value, [10 + 0.02, 50 + 0.03, 70 + 0.08], rtol=1e-6)


def test_the_state_is_the_one_before_any_reset(collected):
    _, state = collected
    assert_array_equal(state.time, [1, 2, 7])


def test_rewards_and_log_probs_belong_to_the_actions(collected):
    rollout, _ = collected
    assert_array_equal(rollout.reward, rollout.action)
    assert_allclose(rollout.log_prob, np.log(0.2), rtol=1e-6)
    assert len(np.unique(rollout.action)) > 1


def test_a_queue_of_one_repeats_its_level():
    rollout, _ = _collect([[(1, 2, False)], [(2, 3, True)]], 7)
    assert_array_equal(rollout.obs[..., 0], np.full((7, 2), [10, 20]))
    assert_array_equal(rollout.obs[..., 1].T, [[0, 1, 0, 1, 0, 1, 0], [0, 1, 2, 0, 1, 2, 0]])
    # not asked for, so not evaluated
    assert_array_equal(rollout.truncation_value, 0)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_only_what_is_asked_for_is_made_anew(backend, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    old = {"a": jnp.arange(4), "b": jnp.zeros((4, 2))}
    made = jax.jit(lambda which: renew(which, lambda env: {"a": 10 * env, "b": jnp.full(2, 1.0 * env)}, old))
    new = made(jnp.array([False, True, False, True]))
    assert_array_equal(new["a"], [0, 10, 2, 30])
    assert_array_equal(new["b"], [[0, 0], [1, 1], [0, 0], [3, 3]])
    jax.tree.map(assert_array_equal, made(jnp.zeros(4, bool)), old)


def test_a_level_may_be_empty():
    keys = jax.random.split(jax.random.key(0), 2)
    network = remembering()
    params = network.init(jax.random.key(1), example(Recall()))
    collect = partial(collect_rollout, Recall(), network, num_steps=3)
    rollout, state = jax.jit(collect, compiler_options=SOON)(params, keys, ())
    assert_array_equal(rollout.first, [[1, 1], [0, 0], [1, 1]])
    assert_array_equal(state.time, [1, 1])


def _beside(envs: slice, devices: int) -> Rollout:
    """What some of eight envs do with a policy that is not uniform, on so many devices."""
    keys = jax.random.split(jax.random.key(0), 8)[envs]
    network = remembering()
    params = network.init(jax.random.key(1), jnp.zeros((1, 1, 3)))
    params["logits"]["kernel"] = jax.random.normal(jax.random.key(2), params["logits"]["kernel"].shape)
    number = jnp.arange(8)[envs, None]
    levels = Level(
        jnp.concatenate([number, number + 8], 1) / 8, jnp.concatenate([number + 1, number + 2], 1), number > 3
    )
    levels = levels._replace(cut=jnp.broadcast_to(levels.cut, levels.name.shape))

    def run(keys: Key, levels: Level) -> Rollout:
        rollout, _ = collect_rollout(
            Diary(), network, params, mesh.shard(keys), mesh.shard(levels), 12, bootstrap_on_truncation=True
        )
        return gathered(rollout)

    return compiled(run, len(keys), devices)(keys, levels)


@pytest.mark.slow
def test_an_envs_trajectory_does_not_depend_on_the_envs_beside_it():
    alone = _beside(slice(4, 8), 1)
    assert len(np.unique(alone.action)) == 2
    for devices in (1, 2):
        half = jax.tree.map(lambda x: x[..., 4:8] if x.ndim == 1 else x[:, 4:8], _beside(slice(8), devices))
        assert_array_equal(half.action, alone.action)
        assert_array_equal(half.done, alone.done)
        jax.tree.map(partial(assert_allclose, rtol=1e-4, atol=1e-5), half, alone)


@dataclass(frozen=True)
class Keyed(Diary):
    """A diary whose state holds the key that its luck is drawn from."""

    def reset(self, key: Key, scene: Any) -> tuple[Any, jax.Array]:
        state, obs = super().reset(key, scene)
        return (state, key), obs

    def step(self, key: Key, scene: Any, state: Any, action: jax.Array) -> tuple[Any, Step]:
        noted, own = state
        own, use = jax.random.split(own)
        noted, step = super().step(use, scene, noted, action)
        return (noted, own), step


def test_a_state_may_hold_a_key():
    keys = jax.random.split(jax.random.key(0), 2)
    levels = Level(jnp.ones((2, 1)), jnp.array([[2], [9]]), jnp.zeros((2, 1), bool))
    rollout, (noted, own) = jax.jit(
        partial(collect_rollout, Keyed(), COUNTING, 0.01, num_steps=5), compiler_options=SOON
    )(keys, levels)
    assert_array_equal(rollout.done.T, [[0, 1, 0, 1, 0], [0] * 5])
    assert_array_equal(noted.time, [1, 5])
    assert np.unique(rollout.obs[..., 2]).size == 10
    assert jnp.issubdtype(own.dtype, jax.dtypes.prng_key)
