"""PPO on probe environments: what is learned must be the answer that is known beforehand."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from probes import Aim, Choice, Constant, Endless, Later, Match, Recall, Sign, remembering, small, train

from tutelage.learning.ppo import PPO

GAMMA = 0.8
SETTINGS = PPO(gamma=GAMMA, epochs=4, num_minibatches=2, learning_rate=0.01, value_loss="squared")
SIGNS = jnp.array([[[1.0], [-1.0]]])
CUES = jnp.array([[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])


@pytest.mark.slow
def test_value_of_a_constant_and_no_preference_where_there_is_nothing_to_prefer():
    head = train(Constant(), small(), SETTINGS)(jnp.ones((1, 1, 1)))
    assert_allclose(head.value, 1.0, atol=0.01)
    # Equal advantages are no reason to change a policy that begins uniform. But Adam follows even what rounding leaves
    # of them, a little this way and a little that.
    assert_allclose(jax.nn.softmax(head.policy.logits)[0, 0], [0.5, 0.5], atol=0.1)


def test_value_depends_on_the_observation():
    # with a constant learning rate the last steps' noise is as large as the tolerance
    head = train(Sign(), small(), replace(SETTINGS, anneal_updates=1200))(SIGNS)
    assert_allclose(head.value, [[1.0, -1.0]], atol=0.05)


@pytest.mark.slow
def test_value_is_discounted_over_steps():
    head = train(Later(), small(), SETTINGS)(jnp.array([[[0.0], [1.0]]]))
    assert_allclose(head.value, [[GAMMA, 1.0]], atol=0.05)


@pytest.mark.slow
def test_action_that_is_rewarded_is_chosen():
    head = train(Choice(), small(), SETTINGS)(jnp.ones((1, 1, 1)))
    assert jax.nn.softmax(head.policy.logits)[0, 0, 1] > 0.95
    assert_allclose(head.value, 1.0, atol=0.1)


def test_action_depends_on_the_observation():
    head = train(Match(), small(), SETTINGS)(SIGNS)
    assert_allclose(jax.nn.softmax(head.policy.logits)[0, :, 1], [1.0, 0.0], atol=0.05)
    assert_allclose(head.value, 1.0, atol=0.1)


@pytest.mark.slow
def test_real_actions_hit_what_they_see():
    head = train(Aim(), small(dims=1), SETTINGS)(SIGNS)
    assert_allclose(head.policy.mode()[..., 0], [[1.0, -1.0]], atol=0.15)
    # what is missing is the variance of the policy itself
    assert_allclose(head.value, 0.0, atol=0.15)


@pytest.mark.slow
def test_recurrence_across_steps():
    head = train(Recall(), remembering(), SETTINGS)(CUES)
    assert_allclose(jax.nn.softmax(head.policy.logits)[1, :, 1], [1.0, 0.0], atol=0.05)
    assert_allclose(head.value, [[GAMMA, GAMMA], [1.0, 1.0]], atol=0.1)


@pytest.mark.slow
def test_without_recurrence_it_cannot_be_solved():
    head = train(Recall(), small(), SETTINGS)(CUES)
    one_way = jax.nn.softmax(head.policy.logits)[1, :, 1]
    assert one_way[0] == one_way[1]
    # an action blind to the sign earns nothing on average: what one sign gives, the other takes
    assert_allclose(head.value[0].sum(), 0.0, atol=0.25)
    assert_allclose(head.value[1], 0.0, atol=0.25)


@pytest.mark.parametrize(
    ("network", "tolerance"),
    [
        pytest.param(small(), 0.1, id="feed-forward"),
        # The value after the last step was never trained on, so it need not be exactly right; but a limit
        # that counted as an end would give 2.44.
        pytest.param(remembering(), 0.5, id="recurrent", marks=pytest.mark.slow),
    ],
)
def test_a_time_limit_that_does_not_end_the_task(network, tolerance):
    # the rollout's end falls in the middle of an episode, so it too has to be looked beyond
    settings = replace(SETTINGS, bootstrap_on_truncation=True, anneal_updates=4000)
    head = train(Endless(), network, settings, iterations=500, length=7)(jnp.eye(4)[None, :1])
    assert_allclose(head.value, 1 / (1 - GAMMA), atol=tolerance)


def test_a_time_limit_that_ends_the_task():
    head = train(Endless(clock=True), small(), SETTINGS, length=7)(jnp.eye(4)[None, :3])
    to_go = np.array([[3, 2, 1]])
    assert_allclose(head.value, (1 - GAMMA**to_go) / (1 - GAMMA), atol=0.1)


@pytest.mark.slow
def test_a_rollout_that_ends_the_task():
    # the limit lies beyond the rollout, so only the rollout's end can end it
    settings = replace(SETTINGS, bootstrap_on_truncation=True, bootstrap_at_rollout_end=False)
    head = train(Endless(limit=4, clock=True), small(), settings, length=3)(jnp.eye(5)[None, :3])
    to_go = np.array([[3, 2, 1]])
    assert_allclose(head.value, (1 - GAMMA**to_go) / (1 - GAMMA), atol=0.1)
