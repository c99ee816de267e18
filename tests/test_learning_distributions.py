"""Both families of policies against numbers worked out by hand, by numpy and by scipy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from tutelage.learning.distributions import Beta, Categorical

PROBABILITIES = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])


def test_categorical_by_hand():
    # logits are free up to a constant for each distribution
    policy = Categorical(jnp.log(PROBABILITIES) + jnp.array([[3.0], [-40.0]]))
    assert_allclose(policy.log_prob(jnp.array([0, 2])), np.log([0.5, 0.7]), rtol=1e-5)
    assert_allclose(policy.entropy()[0], 1.5 * np.log(2), rtol=1e-5)
    assert_allclose(policy.entropy()[1], -(PROBABILITIES[1] * np.log(PROBABILITIES[1])).sum(), rtol=1e-5)
    assert_array_equal(policy.mode(), [0, 2])


def test_categorical_samples_follow_their_probabilities():
    policy = Categorical(jnp.log(jnp.array([0.1, 0.0, 0.9])))
    drawn = jax.vmap(policy.sample)(jax.random.split(jax.random.key(0), 20_000))
    shares = np.bincount(drawn, minlength=3) / drawn.size
    assert shares[1] == 0
    assert_allclose(shares, [0.1, 0.0, 0.9], atol=5 * np.sqrt(0.09 / drawn.size))


def test_a_masked_action_is_impossible_and_leaves_the_rest_as_if_it_were_not_there():
    masked = Categorical(jnp.array([0.3, -jnp.inf, -1.0]))
    without = Categorical(jnp.array([0.3, -1.0]))
    assert masked.log_prob(jnp.array(1)) == -jnp.inf
    assert_allclose(masked.log_prob(jnp.array(2)), without.log_prob(jnp.array(1)), rtol=1e-6)
    assert_allclose(masked.entropy(), without.entropy(), rtol=1e-6)


@pytest.mark.parametrize("method", [Categorical.entropy, lambda policy: policy.log_prob(jnp.array(2))])
def test_gradients_stay_finite_beside_a_mask(method):
    grads = jax.grad(lambda logits: method(Categorical(logits)))(jnp.array([0.3, -jnp.inf, -1.0]))
    without = Categorical(jnp.array([0.3, -1.0]))
    expected = jax.grad(lambda logits: without._replace(logits=logits).entropy())(without.logits)
    assert np.isfinite(grads).all()
    assert grads[1] == 0
    if method is Categorical.entropy:
        assert_allclose(grads[jnp.array([0, 2])], expected, rtol=1e-5)


def test_only_one_action_left_has_no_entropy_and_no_gradient():
    logits = jnp.array([-jnp.inf, 2.0, -jnp.inf])
    entropy, grads = jax.value_and_grad(lambda x: Categorical(x).entropy())(logits)
    assert entropy == 0
    assert_array_equal(grads, 0)


ALPHA, BETA = np.array([[0.7, 2.0, 1.0], [5.0, 1.5, 30.0]]), np.array([[0.4, 3.0, 1.0], [1.0, 1.5, 8.0]])
LOW, HIGH = np.array([-1.0, 0.0, 0.0]), np.array([1.0, 1.0, 3.0])


def _beta() -> tuple[Beta, scipy.stats.rv_continuous]:
    low, high = np.broadcast_to(LOW, ALPHA.shape), np.broadcast_to(HIGH, ALPHA.shape)
    ours = Beta(*(jnp.asarray(x, jnp.float32) for x in (ALPHA, BETA, low, high)))
    return ours, scipy.stats.beta(ALPHA, BETA, loc=LOW, scale=HIGH - LOW)


def test_beta_equals_scipy():
    ours, theirs = _beta()
    actions = LOW + (HIGH - LOW) * np.random.default_rng(0).uniform(0.02, 0.98, ALPHA.shape)
    assert_allclose(ours.log_prob(jnp.asarray(actions, jnp.float32)), theirs.logpdf(actions).sum(-1), rtol=2e-5)
    assert_allclose(ours.entropy(), theirs.entropy().sum(-1), rtol=1e-4, atol=1e-5)
    assert_allclose(ours.mode(), theirs.mean(), rtol=1e-6)


@pytest.mark.slow
def test_beta_samples_have_the_moments_of_scipy():
    ours, theirs = _beta()
    keys = jax.random.split(jax.random.key(1), (40_000, len(ALPHA)))
    drawn = np.asarray(jax.vmap(jax.vmap(Beta.sample), (None, 0))(ours, keys), np.float64)
    error = theirs.std() / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(0) - theirs.mean()) < 5 * error).all()
    assert_allclose(drawn.std(0), theirs.std(), rtol=0.02)
    assert (drawn >= LOW).all()
    assert (drawn <= HIGH).all()


def test_beta_stays_within_bounds_that_floats_cannot_stretch_to_exactly():
    # α, β this small put nearly every draw on a bound, where a rounding error would leave the box
    low, high = jnp.sort(jax.random.normal(jax.random.key(1), (2, 500)), axis=0)
    policy = Beta(jnp.full(500, 0.02), jnp.full(500, 0.02), low, high)
    drawn = jax.vmap(policy.sample)(jax.random.split(jax.random.key(0), 10))
    assert (drawn >= low).all()
    assert (drawn <= high).all()


def test_beta_on_its_bounds_is_finite_and_so_are_its_gradients():
    ours, _ = _beta()
    for bound in ours.low, ours.high:
        log_prob, grads = jax.value_and_grad(lambda p, at=bound: p.log_prob(at).sum())(ours)
        assert np.isfinite(log_prob)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))
