"""PPO by hand: its losses, its minibatches, its safeguards, and that devices, jit and vmap change nothing."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from probes import SOON, Faulty, Match, Recall, compiled, example, iteration, remembering, small

from tutelage.learning import mesh, ppo
from tutelage.learning.distributions import Categorical
from tutelage.learning.network import Head, Network
from tutelage.learning.ppo import PPO, Learner
from tutelage.learning.returns import RunningMoments, zero_moments
from tutelage.learning.rollout import Rollout
from tutelage.types import InputError

STILL = PPO(epochs=1, num_minibatches=1, learning_rate=0.0)
OLD_PROBABILITY = np.array([0.5, 0.5, 0.5, 0.5])
NEW_PROBABILITY = np.array([0.9, 0.55, 0.9, 0.2])  # ratios 1.8, 1.1, 1.8, 0.4
ADVANTAGE = np.array([3.0, 1.0, -1.0, -3.0])
OLD_VALUE, NEW_VALUE = np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.1, 0.5, -3.0, 1.5])
TARGET = np.array([1.0, 1.0, 1.0, 1.0])


def _table(params: Any, carry: Any, obs: jax.Array, first: jax.Array) -> tuple[Any, Head]:
    """A policy that says of each step what its parameters say; observations are the steps' numbers."""
    return carry, Head(Categorical(params["logits"][obs]), params["value"][obs])


def _lookup(params: Any) -> Network:
    return Network(lambda *_: params, lambda _: (), _table)


def _four_steps() -> tuple[Any, Rollout, ppo.Estimate]:
    """Four steps of one env, with the probabilities and values above; action 0 was taken throughout."""
    column = partial(jnp.asarray, dtype=jnp.float32)
    params = {
        "logits": jnp.log(column(np.stack([NEW_PROBABILITY, 1 - NEW_PROBABILITY], -1))),
        "value": column(NEW_VALUE),
    }
    no = jnp.zeros((4, 1), bool)
    rollout = Rollout(
        obs=jnp.arange(4)[:, None],
        first=no,
        action=jnp.zeros((4, 1), jnp.int32),
        log_prob=jnp.log(column(OLD_PROBABILITY))[:, None],
        value=column(OLD_VALUE)[:, None],
        reward=jnp.zeros((4, 1)),
        terminated=no,
        truncated=no,
        truncation_value=jnp.zeros((4, 1)),
        last_value=jnp.zeros(1),
    )
    return params, rollout, ppo.Estimate(column(ADVANTAGE)[:, None], column(TARGET)[:, None])


def _metrics(settings: PPO) -> dict[str, float]:
    params, rollout, estimated = _four_steps()
    network = _lookup(params)

    def run(key: jax.Array) -> Any:
        learner = ppo.init(settings, network, key, rollout.obs)
        return ppo.update(settings, network, learner, rollout, estimated, key)[1]

    return {name: float(x) for name, x in compiled(run, 1)(jax.random.key(0)).items()}


CLIPPED_GAIN = np.mean([3.6, 1.1, -1.8, -2.4]) / np.sqrt(5.0)
"""Advantages have mean 0 and variance (9 + 1 + 1 + 9) / 4. Gains are cut at 1.2, losses at 0.8 where that is worse:
min(1.8 · 3, 1.2 · 3), 1.1 · 1, min(1.8 · −1, 1.2 · −1), min(0.4 · −3, 0.8 · −3)."""


def test_policy_loss_by_hand():
    metrics = _metrics(STILL)
    assert_allclose(metrics["policy_loss"], -CLIPPED_GAIN, rtol=1e-4)
    assert_allclose(metrics["clip_fraction"], 3 / 4)
    ratio = NEW_PROBABILITY / OLD_PROBABILITY
    assert_allclose(metrics["approx_kl"], (ratio - 1 - np.log(ratio)).mean(), rtol=1e-5)


def test_value_losses_by_hand():
    # clipped: 0.1 → 0.9²; 0.5 → max(0.5², (0.2 − 1)²); −3 → max(4², (−0.2 − 1)²); 1.5 → max(0.5², 0.2²)
    assert_allclose(_metrics(STILL)["value_loss"], 0.5 * np.mean([0.81, 0.64, 16, 0.25]), rtol=1e-5)
    squared = replace(STILL, value_loss="squared")
    assert_allclose(_metrics(squared)["value_loss"], 0.5 * np.mean([0.81, 0.25, 16, 0.25]), rtol=1e-5)
    # Huber: half the square up to 1, the distance less a half beyond
    huber = replace(STILL, value_loss="huber")
    assert_allclose(_metrics(huber)["value_loss"], np.mean([0.405, 0.125, 3.5, 0.125]), rtol=1e-5)


@pytest.mark.parametrize("block", [1, 2, 3])
def test_blocks_of_steps_add_up(block):
    params, rollout, estimated = _four_steps()

    def run(block: int | None) -> Any:
        network = _lookup(params)._replace(block=block)
        learner = ppo.init(PPO(epochs=2), network, jax.random.key(0), rollout.obs)
        update = partial(ppo.update, PPO(epochs=2), network, learner, rollout, estimated)
        return compiled(update, 1)(jax.random.key(0))

    jax.tree.map(partial(assert_allclose, rtol=1e-5, atol=1e-7), run(block), run(None))


def test_the_loss_is_the_weighted_sum():
    metrics = _metrics(replace(STILL, value_coef=0.3, entropy_coef=0.07))
    p = NEW_PROBABILITY
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p)).mean()
    assert_allclose(metrics["entropy"], entropy, rtol=1e-5)
    assert_allclose(metrics["loss"], metrics["policy_loss"] + 0.3 * metrics["value_loss"] - 0.07 * entropy, rtol=1e-5)


def test_no_gradient_flows_where_the_ratio_is_clipped():
    params, rollout, estimated = _four_steps()
    settings = PPO(epochs=1, learning_rate=0.1, value_coef=0.0)
    network = _lookup(params)

    def run(key: jax.Array) -> Learner:
        learner = ppo.init(settings, network, key, rollout.obs)
        return ppo.update(settings, network, learner, rollout, estimated, key)[0]

    moved = np.abs(compiled(run, 1)(jax.random.key(0)).params["logits"] - params["logits"]).max(-1) > 0
    # 1.8 with a gain and 0.4 with a loss are beyond the clip; 1.8 with a loss must still be undone
    assert_array_equal(moved, [False, True, True, False])


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (250.0, -3.0)])
def test_advantages_are_normalized(scale, shift):
    params, rollout, estimated = _four_steps()
    network = _lookup(params)

    def run(advantage: jax.Array) -> Any:
        learner = ppo.init(STILL, network, jax.random.key(0), rollout.obs)
        estimate = estimated._replace(advantage=advantage)
        return ppo.update(STILL, network, learner, rollout, estimate, jax.random.key(0))[1]["policy_loss"]

    loss = compiled(run, 1)(scale * estimated.advantage + shift)
    assert_allclose(loss, -CLIPPED_GAIN, rtol=1e-4)


def test_equal_advantages_say_nothing():
    params, rollout, estimated = _four_steps()
    # so many that the mean is off by a rounding error
    many = partial(jax.tree.map, lambda x: jnp.tile(x, (25, 1)))
    rollout = many(rollout._replace(last_value=rollout.last_value[None]))
    network = _lookup(params)

    def run(advantage: jax.Array) -> Any:
        learner = ppo.init(STILL, network, jax.random.key(0), rollout.obs)
        estimate = many(estimated)._replace(advantage=advantage)
        return ppo.update(STILL, network, learner, rollout, estimate, jax.random.key(0))[1]["policy_loss"]

    equal = jnp.tile(jnp.geomspace(0.01, 100, 40)[:, None, None], (1, 100, 1))
    losses = compiled(jax.vmap(run), 1)(equal)
    assert_allclose(losses, 0.0, atol=0.05)


def _parts(units: int, parts: int, devices: int) -> np.ndarray:
    """The units of all devices in each part, sorted: i32[parts, units / parts]."""

    def run(key: jax.Array) -> jax.Array:
        mine = ppo.shuffled(key, units // mesh.count(), parts)
        first = jax.lax.axis_index(mesh.AXIS) * (units // mesh.count())
        return mesh.gather((mine + first).T).T

    return np.sort(compiled(run, devices, devices)(jax.random.key(3)), axis=1)


def test_shuffled_deals_out_every_unit_once_and_the_same_for_any_number_of_devices():
    one, two = _parts(24, 3, 1), _parts(24, 3, 2)
    assert one.shape == (3, 8)
    assert_array_equal(np.sort(one, axis=None), np.arange(24))
    assert_array_equal(one, two)
    assert (np.diff(one) != 3).any()


def test_minibatches_that_do_not_divide_are_refused_in_words():
    with pytest.raises(InputError, match=r"5 minibatches cannot share 12 .* choose a number .* that divides 12"):
        _parts(12, 5, 1)
    with pytest.raises(InputError, match=r"4 minibatches cannot share 6 .* on each of 2 devices"):
        _parts(12, 4, 2)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"epochs": 0}, "at least one epoch"),
        ({"num_minibatches": 0}, "one minibatch"),
        ({"gamma": 1.1}, r"lie in \[0, 1\]"),
        ({"gae_lambda": -0.1}, r"lie in \[0, 1\]"),
        ({"gamma": float("nan")}, r"lie in \[0, 1\]"),
        ({"gae_lambda": float("nan")}, r"lie in \[0, 1\]"),
        ({"anneal_updates": -1}, "anneal_updates is a number of updates, or 0 for never, not -1"),
        *(
            ({name: wrong}, f"{name} is a finite number that is not negative; got {wrong}")
            for name in ("learning_rate", "value_coef", "entropy_coef")
            for wrong in (-1.0, float("inf"), float("nan"))
        ),
        *(
            ({name: wrong}, f"{name} is a finite number above 0; got {wrong}")
            for name in ("clip_eps", "adam_eps")
            for wrong in (-1.0, 0.0, float("inf"), float("nan"))
        ),
        *(
            ({"max_grad_norm": wrong}, f"max_grad_norm is above 0 .*; got {wrong}")
            for wrong in (-1.0, 0.0, float("nan"))
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(wrong, says):
    with pytest.raises(InputError, match=says):
        PPO(**wrong)


def test_an_unknown_value_loss_is_refused_in_words():
    settings = PPO()
    object.__setattr__(settings, "value_loss", "absolute")  # as from a file: the tests' type checker knows the choices
    with pytest.raises(InputError, match="not 'absolute'"):
        settings.__post_init__()


ROUND = PPO(gamma=0.9, epochs=2, num_minibatches=2, learning_rate=0.01, entropy_coef=0.01, normalize_returns=True)


def _init(settings: PPO, network: Network, env: Any, seed: int = 0) -> Learner:
    return jax.jit(lambda key: ppo.init(settings, network, key, example(env)), compiler_options=SOON)(
        jax.random.key(seed)
    )


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 3], ids=["first device", "last device"])
def test_a_reward_that_is_not_a_number_changes_nothing(which):
    levels = jnp.zeros((4, 1), bool).at[which].set(True)
    begun = _init(ROUND, small(), Faulty())
    learner, metrics, _ = compiled(iteration(Faulty(), small(), ROUND, 4, 4, levels), 4)(begun, jax.random.key(1))
    assert metrics["finite"] == 0
    jax.tree.map(assert_array_equal, learner, begun)


def test_a_finite_round_does_change_the_learner():
    begun = _init(ROUND, small(), Faulty())
    run = compiled(iteration(Faulty(), small(), ROUND, 4, 4, jnp.zeros((4, 1), bool)), 4)
    learner, metrics, _ = run(begun, jax.random.key(1))
    assert metrics["finite"] == 1
    assert learner.updates == 4
    assert learner.return_stats.number == 16
    assert all((a != b).any() for a, b in zip(*map(jax.tree.leaves, (learner.params, begun.params)), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("network", [small(), remembering()], ids=["feed-forward", "recurrent"])
def test_two_devices_equal_one(network):
    begun = _init(ROUND, network, Recall())
    iterate = iteration(Recall(), network, ROUND, 8, 5)
    one, two = (compiled(iterate, 8, devices)(begun, jax.random.key(1)) for devices in (1, 2))
    _assert_close(two, one)


@pytest.mark.slow
def test_seeds_side_by_side_equal_one_after_the_other():
    begun = [_init(ROUND, remembering(), Recall(), seed) for seed in (0, 1)]
    keys = jax.random.split(jax.random.key(1), 2)
    iterate = iteration(Recall(), remembering(), ROUND, 8, 5)
    alone = compiled(iterate, 8, devices=1)
    in_turn = [alone(learner, key) for learner, key in zip(begun, keys, strict=True)]
    together = compiled(jax.vmap(iterate), 8, devices=1)(jax.tree.map(lambda *x: jnp.stack(x), *begun), keys)
    _assert_close(together, jax.tree.map(lambda *x: jnp.stack(x), *in_turn))


@pytest.mark.slow
def test_jit_changes_nothing():
    settings = replace(ROUND, epochs=1)
    begun = _init(settings, small(), Match())
    # a mesh of one that runs operation by operation
    iterate = jax.vmap(iteration(Match(), small(), settings, 2, 2), in_axes=None, axis_name=mesh.AXIS, axis_size=1)
    jitted = jax.jit(iterate, compiler_options=SOON)(begun, jax.random.key(1))
    with jax.disable_jit():
        plain = iterate(begun, jax.random.key(1))
    _assert_close(jitted, plain)


def _assert_close(ours: tuple[Learner, Any, Rollout], theirs: tuple[Learner, Any, Rollout]) -> None:
    """Actions must be equal; the rest may differ by rounding."""
    assert_array_equal(ours[2].action, theirs[2].action)
    jax.tree.map(partial(assert_allclose, rtol=1e-4, atol=1e-5), ours, theirs)


@pytest.mark.slow
def test_annealing_reaches_zero():
    settings = PPO(epochs=4, num_minibatches=1, learning_rate=0.01, anneal_updates=8)
    begun = _init(settings, small(), Match())
    run = compiled(iteration(Match(), small(), settings, 4, 4), 4, devices=1)
    learners = [begun]
    for i in range(3):
        learners.append(run(learners[-1], jax.random.key(i))[0])
    moves = [
        float(optax.tree.norm(jax.tree.map(jnp.subtract, new.params, old.params))) for old, new in pairwise(learners)
    ]
    assert moves[0] > moves[1] > 0
    assert moves[2] == 0
    assert learners[-1].updates == 12


def test_the_gradient_is_clipped_to_its_norm():
    params, rollout, estimated = _four_steps()
    # Adam's first moment after one step is a tenth of the gradient that it was given
    settings = replace(STILL, max_grad_norm=0.01)
    network = _lookup(params)

    def run(key: jax.Array) -> Any:
        learner = ppo.init(settings, network, key, rollout.obs)
        return ppo.update(settings, network, learner, rollout, estimated, key)

    learner, metrics = compiled(run, 1)(jax.random.key(0))
    assert metrics["grad_norm"] > 0.1
    assert_allclose(10 * optax.tree.norm(learner.opt_state[0].mu), 0.01, rtol=1e-3)


def test_scaled_rewards_are_divided_by_the_std_and_clipped():
    _, rollout, _ = _four_steps()
    rollout = rollout._replace(
        reward=jnp.array([[1.0], [-3.0], [50.0], [-90.0]]), value=jnp.zeros((4, 1)), terminated=jnp.ones((4, 1), bool)
    )
    learner = Learner({}, None, RunningMoments(jnp.float32(10), jnp.float32(7), jnp.float32(40)), jnp.int32(0))
    settings = PPO(normalize_returns=True)
    # the std is √(40 / 10) = 2; every step is an episode, so an advantage is a reward
    assert_allclose(ppo.estimate(settings, learner, rollout).advantage[:, 0], [0.5, -1.5, 10, -10], rtol=1e-5)
    unscaled = ppo.estimate(PPO(), learner, rollout)
    assert_allclose(unscaled.advantage[:, 0], [1, -3, 50, -90], rtol=1e-5)


@pytest.mark.parametrize("scale", [True, False])
def test_return_stats_are_updated_only_where_rewards_are_scaled(scale):
    _, rollout, _ = _four_steps()
    rollout = rollout._replace(reward=jnp.array([[1.0], [2.0], [3.0], [4.0]]))
    begun = Learner({}, None, zero_moments(), jnp.int32(0))
    settings = PPO(normalize_returns=scale, gamma=0.5)
    updated = compiled(partial(ppo.update_return_stats, settings), 1)(begun, rollout)
    if scale:
        assert_allclose(updated.return_stats.mean, np.mean([1, 2.5, 4.25, 6.125]))
    else:
        assert updated.return_stats.number == 0


def test_estimates_are_read_in_the_same_way_for_every_env():
    _, rollout, _ = _four_steps()
    two = jax.tree.map(lambda x: jnp.concatenate([x, x], -1), rollout._replace(reward=jnp.arange(4.0)[:, None]))
    two = two._replace(reward=two.reward * jnp.array([1.0, 2.0]), value=jnp.zeros((4, 2)), last_value=jnp.zeros(2))
    estimated = ppo.estimate(PPO(), Learner({}, None, zero_moments(), jnp.int32(0)), two)
    assert_allclose(estimated.advantage[:, 1], 2 * estimated.advantage[:, 0], rtol=1e-6)
    assert_allclose(estimated.target, estimated.advantage)
