"""Playing out a queue: every episode counts, and none knows of the others."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import SOON, Small, Wait, example, remembering

from tutelage.learning.episodes import Outcome, run_episodes
from tutelage.learning.network import Network, from_flax

ENV = Wait()
LONG = ENV.horizon


def setting(network: Network, count: int) -> tuple:
    """Weights, a key for each episode, and levels of which every third is long."""
    weights = network.init(jax.random.key(1), example(ENV, jnp.int32(1)))
    # a policy that is not uniform, so that its draws and its mode differ from each other and from step to step
    weights = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(jax.random.key(2), x.shape), weights)
    levels = jnp.where(jnp.arange(count) % 3 == 1, LONG, 1 + jnp.arange(count) % 5)
    return weights, jax.random.split(jax.random.key(3), count), levels


def queued(network: Network, weights: object, keys: jax.Array, levels: jax.Array, **options: object) -> Outcome:
    return jax.jit(partial(run_episodes, ENV, network, **options), compiler_options=SOON)(weights, keys, levels)


def one_by_one(network: Network, weights: object, keys: jax.Array, levels: jax.Array, greedy: bool) -> Outcome:
    """The same in the plainest way: a loop over episodes and a loop over steps."""

    @partial(jax.jit, compiler_options=SOON)
    def once(carry: object, state: object, obs: jax.Array, level: jax.Array, key: jax.Array, time: jax.Array) -> tuple:
        act_key, env_key = jax.random.split(jax.random.fold_in(key, time))
        carry, head = network.apply(weights, carry, obs[None, None], (time == 0)[None, None])
        policy = jax.tree.map(lambda x: x[0, 0], head.policy)
        state, step = ENV.step(env_key, level, state, policy.mode() if greedy else policy.sample(act_key))
        return carry, state, step

    totals, lengths = [], []
    for key, level in zip(keys, levels, strict=True):
        reset_key, key = jax.random.split(key)
        (state, obs), carry = ENV.reset(reset_key, level), network.initial_carry(1)
        total, time, over = np.float32(0), 0, False
        while not over:
            carry, state, step = once(carry, state, obs, level, key, jnp.int32(time))
            total, time, over, obs = total + np.float32(step.reward), time + 1, bool(step.terminated), step.obs
        totals.append(total)
        lengths.append(time)
    return Outcome(np.array(totals), np.array(lengths))


@pytest.mark.slow
@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("num_envs", [1, 3, 8, 64])
def test_a_queue_gives_what_playing_one_by_one_gives_bit_for_bit(num_envs, greedy):
    network = remembering()
    weights, keys, levels = setting(network, 20)
    expected = one_by_one(network, weights, keys, levels, greedy)
    outcome = queued(network, weights, keys, levels, num_envs=num_envs, greedy=greedy)
    np.testing.assert_array_equal(outcome.lengths, levels)
    np.testing.assert_array_equal(outcome.lengths, expected.lengths)
    np.testing.assert_array_equal(outcome.returns, expected.returns)
    assert len(set(expected.returns.tolist())) > 3  # else equality would prove little


def test_one_level_for_all_is_the_same_as_that_level_many_times():
    network = remembering()
    weights, keys, _ = setting(network, 11)
    many = queued(network, weights, keys, jnp.full(11, LONG), num_envs=4)
    one = queued(network, weights, keys, jnp.int32(LONG), num_envs=4, same_level=True)
    np.testing.assert_array_equal(one.returns, many.returns)
    np.testing.assert_array_equal(one.lengths, many.lengths)


def test_measures_are_means_over_an_episodes_own_steps():
    network = remembering()
    weights, keys, levels = setting(network, 20)
    measures = {"time": lambda env, scene, state: state.time, "one": lambda env, scene, state: 1.0}
    outcome = queued(network, weights, keys, levels, num_envs=3, measures=measures)
    np.testing.assert_array_equal(outcome.measures["one"], 1)
    np.testing.assert_allclose(outcome.measures["time"], (np.asarray(levels) - 1) / 2)  # 0, 1, …, length − 1


def test_an_environment_that_never_ends_is_left_at_its_horizon():
    network = from_flax(Small())
    weights, keys, _ = setting(network, 5)
    outcome = queued(network, weights, keys, jnp.full(5, 10 * LONG), num_envs=2)
    np.testing.assert_array_equal(outcome.lengths, LONG)


def test_what_an_environment_says_after_its_end_does_not_count():
    network = from_flax(Small())
    weights, keys, levels = setting(network, 9)
    outcome = queued(network, weights, keys, levels, num_envs=9)  # short ones are stepped on beside the long ones
    assert np.isfinite(outcome.returns).all()


@pytest.mark.slow
@pytest.mark.parametrize("num_envs", [1, 4])
def test_a_recording_holds_every_state_and_reward(num_envs):
    network = remembering()
    weights, keys, levels = setting(network, 7)
    outcome = queued(network, weights, keys, levels, num_envs=num_envs, record=True)
    plain = queued(network, weights, keys, levels, num_envs=num_envs)
    np.testing.assert_array_equal(outcome.returns, plain.returns)
    assert plain.recording == ()
    states, rewards, _ = outcome.recording
    assert rewards.shape == (7, LONG)
    assert states.time.shape == (7, LONG + 1)
    for episode, length in enumerate(levels):
        np.testing.assert_array_equal(states.time[episode, : length + 1], np.arange(length + 1))
        np.testing.assert_array_equal(rewards[episode, length:], 0)
        np.testing.assert_array_equal(states.time[episode, length + 1 :], 0)
        total = np.cumsum(np.asarray(rewards[episode, :length]), dtype=np.float32)[-1]
        assert total == outcome.returns[episode]
