"""Scores and utilities against numbers worked out by hand."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

from tutelage.curriculum import scores, utilities
from tutelage.curriculum.scores import Evidence, Need, needs, needs_of
from tutelage.learning.returns import Episodes, episodes


def two_episodes():
    """Four steps, two episodes of two steps with returns 0 and 0.8; the level's best return so far is 0.9."""
    reward = jnp.array([0.0, 0.0, 0.0, 0.8])
    done = jnp.array([False, True, False, True])
    return Evidence(
        first=jnp.array([True, False, True, False]),
        value=jnp.array([0.2, 0.4, 0.3, 0.5]),
        advantage=jnp.array([-0.2, -0.4, 0.5, 0.3]),
        episodes=episodes(reward, done),
        best_return=jnp.float32(0.9),
        regret=jnp.float32(0.25),
        optimal_return=jnp.float32(0.95),
    )


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (scores.max_mc, (0.7 + 0.5 + 0.6 + 0.4) / 4),
        (scores.max_mc_start, (0.7 + 0.6) / 2),
        (scores.max_mc_start_clipped, (0.7 + 0.6) / 2),
        (scores.positive_value_loss, (0.5 + 0.3) / 4),
        (scores.l1_value_loss, (0.2 + 0.4 + 0.5 + 0.3) / 4),
        (scores.paired_regret, 0.25),
        (scores.true_regret, 0.95 - 0.4),
        (scores.learnability, 0.25),
    ],
)
def test_scores_by_hand(score, expected):
    np.testing.assert_allclose(score(two_episodes()), expected, rtol=1e-6)


def test_max_mc_uses_the_best_return_ever_seen_not_this_visit():
    evidence = two_episodes()
    higher = scores.max_mc(evidence._replace(best_return=jnp.float32(1.0)))
    np.testing.assert_allclose(higher - scores.max_mc(evidence), 0.1, rtol=1e-5)


def test_max_mc_may_be_negative_but_the_released_dense_form_may_not():
    evidence = two_episodes()._replace(best_return=jnp.float32(0.25))
    assert scores.max_mc(evidence) < 0
    np.testing.assert_allclose(scores.max_mc_start(evidence), (0.05 - 0.05) / 2, atol=1e-7)
    np.testing.assert_allclose(scores.max_mc_start_clipped(evidence), (0.05 + 0) / 2, rtol=1e-6)
    assert scores.max_mc_start(evidence._replace(best_return=jnp.float32(0.0))) < 0


def test_utilities_by_hand():
    def of(mean, best):
        zeros = jnp.zeros(len(mean))
        return Episodes(zeros, jnp.array(mean), jnp.array(best), zeros, zeros)

    np.testing.assert_allclose(utilities.regret(of([0.2, 0.4], [0.6, 0.9])), 0.7, rtol=1e-6)
    np.testing.assert_allclose(utilities.regret(of([0.5, 0.1], [0.6, 0.3])), 0.0)
    np.testing.assert_allclose(utilities.mean_regret(of([0.5, 0.1], [0.6, 0.3])), -0.4, rtol=1e-6)
    np.testing.assert_allclose(utilities.adversarial(of([0.5], [0.6])), -0.6, rtol=1e-6)


def test_scores_and_utilities_declare_what_they_need():
    declared = {
        scores.max_mc: set(),
        scores.max_mc_start: set(),
        scores.max_mc_start_clipped: set(),
        scores.positive_value_loss: set(),
        scores.l1_value_loss: set(),
        scores.paired_regret: {Need.BOTH_STUDENTS},
        scores.true_regret: {Need.ORACLE},
        scores.learnability: {Need.SOLVED},
        utilities.regret: {Need.BOTH_STUDENTS},
        utilities.mean_regret: {Need.BOTH_STUDENTS},
        utilities.adversarial: set(),
        None: set(),
    }
    assert {function: set(needs_of(function)) for function in declared} == declared


def test_a_score_of_ones_own_declares_its_needs():
    @needs(Need.ORACLE, Need.SOLVED)
    def mine(evidence, power=1):
        return evidence.optimal_return * evidence.episodes.solved**power

    assert needs_of(mine) == needs_of(partial(mine, power=2)) == {Need.ORACLE, Need.SOLVED}
    np.testing.assert_allclose(mine(two_episodes()), 0.95 / 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("score", "unknown"), [(scores.paired_regret, {"regret"}), (scores.true_regret, {"optimal_return"})]
)
def test_without_what_it_needs_a_score_is_not_a_number(score, unknown):
    assert np.isnan(score(two_episodes()._replace(**dict.fromkeys(unknown, jnp.float32(jnp.nan)))))
