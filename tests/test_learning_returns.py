"""Advantages, episodes and running moments by hand, and what they reduce to at the ends of their ranges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tutelage.learning import mesh
from tutelage.learning.returns import (
    RunningMoments,
    discounted,
    discounted_sums,
    endings,
    episodes,
    gae,
    update_moments,
    zero_moments,
)

NO = jnp.zeros(3, bool)
REWARD, VALUE = jnp.array([1.0, 2.0, 3.0]), jnp.array([0.5, 0.25, -1.0])


def _at(step: int) -> jax.Array:
    return NO.at[step].set(True)


def test_gae_by_hand_when_the_rollout_ends_first():
    # γ = 0.5, λ = 0.5; V' = 0.25, −1, 4
    # δ = 1 + 0.125 − 0.5, 2 − 0.5 − 0.25, 3 + 2 + 1 = 0.625, 1.25, 6
    advantage = gae(REWARD, VALUE, NO, NO, jnp.zeros(3), jnp.float32(4), 0.5, 0.5)
    assert_allclose(advantage, [0.625 + (1.25 + 6 / 4) / 4, 1.25 + 6 / 4, 6])


def test_gae_by_hand_across_a_termination():
    # V' = 0.25, 0, 4; nothing flows back over the end after step 1, whatever `truncation_value` says
    advantage = gae(REWARD, VALUE, _at(1), NO, jnp.full(3, 99.0), jnp.float32(4), 0.5, 0.5)
    assert_allclose(advantage, [0.625 + 1.75 / 4, 1.75, 6])


def test_gae_by_hand_across_a_time_limit():
    # V' = 0.25, 8, 4; the worth of what would have followed counts, the next episode's advantage does not
    advantage = gae(REWARD, VALUE, NO, _at(1), jnp.array([99.0, 8.0, 99.0]), jnp.float32(4), 0.5, 0.5)
    assert_allclose(advantage, [0.625 + 5.75 / 4, 5.75, 6])


def test_a_termination_at_the_limit_is_a_termination():
    both = gae(REWARD, VALUE, _at(1), _at(1), jnp.full(3, 8.0), jnp.float32(4), 0.5, 0.5)
    terminated = gae(REWARD, VALUE, _at(1), NO, jnp.zeros(3), jnp.float32(4), 0.5, 0.5)
    assert_allclose(both, terminated)


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_an_end_at_the_last_step_hides_the_last_value(end):
    ended = {"terminated": NO, "truncated": NO} | {end: _at(2)}
    advantage = gae(
        REWARD, VALUE, **ended, truncation_value=jnp.zeros(3), last_value=jnp.float32(4), gamma=0.5, gae_lambda=1.0
    )
    assert_allclose(advantage[-1], 3 + 1)


def _trajectory(seed: int, length: int = 40) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    terminated, cut = random.random(length) < 0.1, random.random(length) < 0.1
    reward, value, truncation_value = random.normal(size=(3, length)).astype(np.float32)
    return {
        "reward": reward,
        "value": value,
        "terminated": terminated,
        "truncated": cut,
        "truncation_value": truncation_value,
    }


@pytest.mark.parametrize("seed", range(3))
def test_gae_reduces_to_the_discounted_return_less_the_value(seed):
    run = _trajectory(seed)
    expected, following = np.zeros(40), 0.7
    for t in reversed(range(40)):
        if run["terminated"][t]:
            following = 0.0
        elif run["truncated"][t]:
            following = run["truncation_value"][t]
        following = run["reward"][t] + 0.9 * following
        expected[t] = following - run["value"][t]
    advantage = gae(**jax.tree.map(jnp.asarray, run), last_value=jnp.float32(0.7), gamma=0.9, gae_lambda=1.0)
    assert_allclose(advantage, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_gae_reduces_to_the_error_of_one_step(seed):
    run = _trajectory(seed)
    following = np.append(run["value"][1:], 0.7)
    following = np.where(run["truncated"], run["truncation_value"], following)
    following = np.where(run["terminated"], 0.0, following)
    advantage = gae(**jax.tree.map(jnp.asarray, run), last_value=jnp.float32(0.7), gamma=0.9, gae_lambda=0.0)
    assert_allclose(advantage, run["reward"] + 0.9 * following - run["value"], rtol=1e-5, atol=1e-6)


def _episodes(reward: list[float], done: list[int], **settings: float) -> tuple[float, ...]:
    found = episodes(jnp.array(reward, jnp.float32), jnp.array(done, bool), **settings)
    return tuple(float(x) for x in found)


def test_episodes_by_hand_leave_out_a_trailing_part():
    # returns 3, −1 and 0.5, lengths 2, 3 and 1; the last two steps belong to an episode that has not ended
    found = _episodes([1, 2, -1, 0, 0, 0.5, 9, 9], [0, 1, 0, 0, 1, 1, 0, 0])
    assert_allclose(found, (3, 2.5 / 3, 3.0, 2.0, 2 / 3), rtol=1e-6)


def test_a_running_episode_counts_if_none_has_ended():
    assert_allclose(_episodes([-1, 2, -4], [0, 0, 0]), (1, -3, -3, 3, 0))


def test_an_episode_that_ends_with_the_rollout_counts_once():
    assert_allclose(_episodes([-1, 2, 4], [0, 1, 1]), (2, 2.5, 4, 1.5, 1))


def test_the_best_of_bad_episodes_is_still_bad():
    # zeros from other steps must not pass for returns
    assert _episodes([-3, -2, -5], [1, 1, 0])[2] == -2


def test_solved_means_above_the_threshold_and_not_at_it():
    assert _episodes([1, 2, 3], [1, 1, 1], solved_above=2.0)[4] == pytest.approx(1 / 3)


def test_endings_by_hand():
    reward = jnp.array([1.0, 2.0, -1.0, 0.5])
    done, totals = endings(reward, jnp.array([False, True, False, False]))
    assert done.tolist() == [False, True, False, False]
    assert_allclose(totals, [1, 3, -1, -0.5])
    done, totals = endings(reward, jnp.zeros(4, bool))
    assert done.tolist() == [False, False, False, True]
    assert_allclose(totals, [1, 3, 2, 2.5])


def test_discounted_sums_by_hand_begin_anew_with_each_episode():
    sums = discounted_sums(jnp.array([1.0, 2.0, 4.0, 8.0]), jnp.array([False, True, False, False]), 0.5)
    assert_allclose(sums, [1, 2.5, 4, 10])


def _updated(batches: list[np.ndarray], devices: int) -> RunningMoments:
    """The moments after all of them, each batch [B, T] split over devices by B."""

    def over_all(batches: list[jax.Array]) -> RunningMoments:
        moments = zero_moments()
        for values in batches:
            moments = update_moments(moments, mesh.shard(values))
        return moments

    return jax.jit(mesh.on_devices(over_all, mesh.make_mesh(4, devices)))([jnp.asarray(x) for x in batches])


@pytest.mark.parametrize("devices", [1, 2])
def test_updates_give_the_moments_of_all_values_together(devices):
    random = np.random.default_rng(0)
    batches = [random.normal(5 * i, 1 + i, (4, 3 + i)).astype(np.float32) for i in range(4)]
    values = np.concatenate([x.ravel() for x in batches])
    moments = _updated(batches, devices)
    assert moments.number == values.size
    assert_allclose(moments.mean, values.mean(), rtol=1e-5)
    assert_allclose(moments.std, values.std(), rtol=1e-5)


def test_the_std_is_one_before_anything_was_seen():
    assert zero_moments().std == 1


def test_discounting_counts_steps_from_the_beginning_of_each_episode():
    reward, first = jnp.array([1.0, 2.0, 4.0, 8.0, 16.0]), jnp.array([True, False, False, True, False])
    assert_allclose(discounted(reward, first, 0.5), [1, 1, 1, 8, 8])
