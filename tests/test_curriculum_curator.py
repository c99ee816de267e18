"""The curator: hand-computed probabilities, properties, a plain rewrite of Algorithm 2 beside it, and known bugs."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError, jaxtyped

from tutelage.curriculum import curator as curation
from tutelage.curriculum.curator import Buffer, Curator, proportional, rank
from tutelage.types import InputError

K = 6
SMALL = Curator(capacity=K, temperature=0.5, staleness=0.25, min_fill=0.5)


def make_buffer(curator, scores, ages, clock=100):
    """A buffer whose first slots hold levels 0, 1, 2, … with these scores and ages."""
    pad = curator.capacity - len(scores)
    rows = arriving(range(curator.capacity), [*scores, *[0.0] * pad])._replace(id=jnp.arange(curator.capacity))
    scored_at = jnp.asarray([clock - age for age in ages] + [0] * pad, jnp.int32)
    return Buffer(rows, scored_at, jnp.int32(len(scores)), jnp.int32(clock), jnp.int32(len(scores)))


def arriving(levels, scores, best=None):
    levels = jnp.asarray(list(levels), jnp.int32)
    scores = jnp.asarray(scores, jnp.float32)
    return entries(levels, scores, scores if best is None else jnp.asarray(best, jnp.float32))


entries = jax.jit(jax.vmap(curation.entry))


@partial(jax.jit, static_argnums=0)
def insert(curator, buffer, rows):
    return curation.insert(curator, buffer, rows)


@partial(jax.jit, static_argnums=0)
def probabilities(curator, buffer):
    return curation.replay_probabilities(curator, buffer)


@partial(jax.jit, static_argnums=(0, 3))
def sample(curator, buffer, key, count):
    return curation.sample(curator, buffer, key, count)


def test_rank_probabilities_by_hand():
    # ranks 2, 1, 3; weights (1/rank)^(1/0.5) = 1/4, 1, 1/9; ages 1, 2, 1
    buffer = make_buffer(SMALL, [0.5, 0.9, 0.1], [1, 2, 1])
    by_score = np.array([1 / 4, 1, 1 / 9]) / (1 / 4 + 1 + 1 / 9)
    by_age = np.array([1, 2, 1]) / 4
    expected = 0.75 * by_score + 0.25 * by_age
    np.testing.assert_allclose(probabilities(SMALL, buffer), [*expected, 0, 0, 0], rtol=1e-6)


def test_proportional_probabilities_by_hand():
    curator = replace(SMALL, prioritization=proportional, temperature=2.0)
    buffer = make_buffer(curator, [4.0, -3.0, 1.0], [0, 0, 5])
    by_score = np.array([2, 0, 1]) / 3  # square roots; a negative score counts as zero
    by_age = np.array([0, 0, 1])
    expected = 0.75 * by_score + 0.25 * by_age
    np.testing.assert_allclose(probabilities(curator, buffer), [*expected, 0, 0, 0], rtol=1e-6)


def test_proportional_with_no_positive_score_is_uniform():
    curator = replace(SMALL, prioritization=proportional, staleness=0.0)
    buffer = make_buffer(curator, [0.0, -1.0], [1, 1])
    np.testing.assert_allclose(probabilities(curator, buffer), [0.5, 0.5, 0, 0, 0, 0])


def test_equal_scores_share_a_rank():
    curator = replace(SMALL, staleness=0.0)
    buffer = make_buffer(curator, [1.0, 1.0, 0.0], [1, 1, 1])
    weights = np.array([1, 1, 1 / 9])
    np.testing.assert_allclose(probabilities(curator, buffer)[:3], weights / weights.sum(), rtol=1e-6)


def test_temperature_near_zero_is_argmax():
    curator = replace(SMALL, temperature=1e-3, staleness=0.0)
    for prioritization in (rank, proportional):
        p = probabilities(
            replace(curator, prioritization=prioritization), make_buffer(curator, [0.1, 0.3, 0.2], [1] * 3)
        )
        np.testing.assert_array_equal(p, [0, 1, 0, 0, 0, 0])


def test_staleness_one_is_proportional_to_age():
    curator = replace(SMALL, staleness=1.0)
    p = probabilities(curator, make_buffer(curator, [3, 2, 1, 0], [4, 3, 2, 1]))
    np.testing.assert_allclose(p, [0.4, 0.3, 0.2, 0.1, 0, 0], rtol=1e-6)


def test_temperature_is_an_exponent_not_a_divisor():
    # (1/2)^(1/0.25) = 1/16; dividing by the temperature would leave the ratio at 1/2
    curator = replace(SMALL, temperature=0.25, staleness=0.0)
    p = probabilities(curator, make_buffer(curator, [2.0, 1.0], [1, 1]))
    np.testing.assert_allclose(p[1] / p[0], 1 / 16, rtol=1e-6)


def test_ranks_are_taken_over_filled_slots_only():
    # empty slots hold the score 0, which would outrank both levels here
    p = probabilities(replace(SMALL, staleness=0.0), make_buffer(SMALL, [-2.0, -1.0], [1, 1]))
    np.testing.assert_allclose(p, [1 / 5, 4 / 5, 0, 0, 0, 0], rtol=1e-6)


def test_nothing_is_divided_by_zero():
    for prioritization in (rank, proportional):
        curator = replace(SMALL, prioritization=prioritization)
        empty = curation.empty(curator, jnp.int32(0))
        np.testing.assert_array_equal(probabilities(curator, empty), np.zeros(K))
        np.testing.assert_allclose(probabilities(curator, make_buffer(curator, [0.0], [0]))[0], 1.0)


def test_all_levels_just_scored_are_equally_stale():
    curator = replace(SMALL, staleness=1.0)
    np.testing.assert_allclose(probabilities(curator, make_buffer(curator, [2.0, 1.0], [0, 0]))[:2], [0.5, 0.5])


def test_a_prioritization_of_ones_own():
    def exponential(scores, ranks, filled):
        return jnp.exp(scores - jnp.max(scores, where=filled, initial=-jnp.inf))

    curator = replace(SMALL, prioritization=exponential, temperature=2.0, staleness=0.0)
    buffer = make_buffer(curator, [0.0, 2.0, -400.0], [1, 1, 1])  # empty slots hold the score 0
    weights = np.exp([0.0, 1.0])
    np.testing.assert_allclose(probabilities(curator, buffer), [*weights / weights.sum(), 0, 0, 0, 0], rtol=1e-6)
    full = make_buffer(curator, [3.0, 2.0, -400.0, 0.0, 1.0, 5.0], [1] * 6)
    np.testing.assert_array_equal(insert(curator, full, arriving([7], [-1.0])).entries.level, [0, 1, 7, 3, 4, 5])


@pytest.mark.parametrize("broken", [np.nan, np.inf, -1.0])
def test_a_weight_that_is_none_counts_as_zero(broken):
    curator = replace(SMALL, prioritization=lambda scores, ranks, filled: jnp.where(scores > 1, broken, 1.0))
    p = probabilities(replace(curator, staleness=0.0), make_buffer(curator, [1.0, 2.0, 0.0], [1, 1, 1]))
    np.testing.assert_allclose(p, [0.5, 0, 0.5, 0, 0, 0])


def test_a_prioritization_gives_a_weight_for_each_slot():
    with pytest.raises(InputError, match="one weight for each of 6 slots"):
        probabilities(replace(SMALL, prioritization=lambda scores, *_: scores.max()), make_buffer(SMALL, [1.0], [1]))


def test_eviction_takes_the_least_supported_not_the_lowest_score():
    curator = replace(SMALL, capacity=3, staleness=0.5)
    # slot 2 has the lowest score but is old; slot 1 is a little better and fresh: least support
    buffer = make_buffer(curator, [3.0, 1.0, 0.9], [1, 0, 9])
    assert int(jnp.argmin(probabilities(curator, buffer))) == 1
    after = insert(curator, buffer, arriving([7], [2.0]))
    np.testing.assert_array_equal(after.entries.level, [0, 7, 2])
    # a new level that is worse than the victim stays out, even if it beats another
    unchanged = insert(curator, buffer, arriving([7], [0.95]))
    np.testing.assert_array_equal(unchanged.entries.level, [0, 1, 2])


def test_equal_scores_replace_only_if_asked():
    buffer = make_buffer(replace(SMALL, capacity=2), [1.0, 0.5], [1, 1])
    for replaces in (False, True):
        curator = replace(SMALL, capacity=2, replace_equals=replaces)
        levels = insert(curator, buffer, arriving([9], [0.5])).entries.level
        np.testing.assert_array_equal(levels, [0, 9] if replaces else [0, 1])


def test_a_known_level_is_updated_and_its_best_return_never_falls():
    buffer = insert(SMALL, curation.empty(SMALL, jnp.int32(0)), arriving([5, 6], [1.0, 2.0], best=[0.8, 0.9]))
    buffer = curation.tick(buffer)
    again = insert(SMALL, buffer, arriving([5, 5], [0.3, 0.4], best=[0.2, 0.1]))
    assert int(again.size) == 2
    np.testing.assert_allclose(again.entries.score[:2], [0.4, 2.0])
    np.testing.assert_allclose(again.entries.best_return[:2], [0.8, 0.9])
    np.testing.assert_array_equal(again.scored_at[:2], [1, 0])
    np.testing.assert_array_equal(again.entries.id[:2], buffer.entries.id[:2])


def test_an_evicted_level_leaves_nothing_behind():
    curator = replace(SMALL, capacity=1, replay_rate=1.0)
    buffer = insert(curator, curation.empty(curator, jnp.int32(0)), arriving([3], [0.5], best=[0.9]))
    after = insert(curator, buffer, arriving([4], [0.6], best=[0.1]))
    row = jax.tree.map(lambda x: x[0], after.entries)
    assert (int(row.level), float(row.best_return), int(row.id)) == (4, np.float32(0.1), 1)
    assert int(curation.find(after, jnp.int32(3))) == -1
    assert int(curation.find(after, jnp.int32(4))) == 0
    assert float(curation.best_known(after, curation.find(after, jnp.int32(3)))) == -np.inf


def test_best_returns_are_shared_by_envs_on_one_level():
    buffer = make_buffer(SMALL, [1.0, 2.0], [1, 1])
    buffer, best = curation.update_best_return(buffer, jnp.array([0, 0, 1]), jnp.array([0.5, 4.0, 3.0]))
    np.testing.assert_allclose(best, [4.0, 4.0, 3.0])
    np.testing.assert_allclose(buffer.entries.best_return[:2], [4.0, 3.0])


def test_a_level_played_twice_gets_the_mean_of_its_scores():
    buffer = curation.rescore(
        make_buffer(SMALL, [1.0, 2.0, 3.0], [5, 5, 5]), jnp.array([0, 0, 2]), jnp.array([2.0, 4.0, 7.0])
    )
    np.testing.assert_allclose(buffer.entries.score[:3], [3.0, 2.0, 7.0])
    np.testing.assert_array_equal(buffer.scored_at[:3], [100, 95, 100])


def test_a_score_that_is_not_known_leaves_the_old_one():
    buffer = curation.rescore(make_buffer(SMALL, [1.0, 2.0], [5, 5]), jnp.array([0, 1]), jnp.array([jnp.nan, 4.0]))
    np.testing.assert_allclose(buffer.entries.score[:2], [1.0, 4.0])


def test_sampling_follows_the_probabilities():
    buffer = make_buffer(SMALL, [0.5, 0.9, 0.1], [1, 2, 1])
    slots = curation.sample(SMALL, buffer, jax.random.key(0), 20_000)
    frequency = np.bincount(slots, minlength=K) / slots.size
    np.testing.assert_allclose(frequency, probabilities(SMALL, buffer), atol=0.015)


def test_without_replacement_the_first_draw_follows_the_probabilities_and_all_differ():
    curator = replace(SMALL, with_replacement=False)
    buffer = make_buffer(curator, [0.5, 0.9, 0.1, 0.3], [1, 2, 1, 7])
    keys = jax.random.split(jax.random.key(0), 20_000)
    slots = np.asarray(jax.vmap(lambda key: sample(curator, buffer, key, 3))(keys))
    frequency = np.bincount(slots[:, 0], minlength=K) / len(slots)
    np.testing.assert_allclose(frequency, probabilities(curator, buffer), atol=0.015)
    assert (np.diff(np.sort(slots, axis=1), axis=1) > 0).all()
    assert slots.max() < 4


def test_without_replacement_levels_of_probability_zero_come_last_and_empty_slots_never():
    curator = replace(SMALL, with_replacement=False, staleness=1.0)
    buffer = make_buffer(curator, [3.0, 2.0, 1.0, 0.5], [0, 4, 0, 9])
    slots = np.asarray(jax.vmap(lambda key: sample(curator, buffer, key, 4))(jax.random.split(jax.random.key(1), 50)))
    np.testing.assert_array_equal(np.sort(slots[:, :2], axis=1), [[1, 3]] * 50)
    np.testing.assert_array_equal(np.sort(slots[:, 2:], axis=1), [[0, 2]] * 50)


@pytest.mark.parametrize("count", [5, 9])  # more than there are levels; more than there are slots
def test_without_replacement_too_few_levels_are_repeated_in_turn(count):
    curator = replace(SMALL, with_replacement=False)
    slots = np.asarray(sample(curator, make_buffer(curator, [0.5, 0.9], [1, 2]), jax.random.key(0), count))
    assert slots.shape == (count,)
    np.testing.assert_array_equal(np.sort(slots[:2]), [0, 1])
    np.testing.assert_array_equal(slots[2:], slots[:-2])


def test_replay_waits_for_the_minimum_fill():
    for filled, expected in [(0, False), (2, False), (3, True)]:
        assert bool(curation.ready(SMALL, make_buffer(SMALL, [1.0] * filled, [1] * filled))) is expected
    assert not bool(curation.ready(replace(SMALL, min_fill=0.0), curation.empty(SMALL, jnp.int32(0))))


def test_fingerprints_tell_levels_apart():
    grids = np.random.default_rng(0).integers(0, 2, (3000, 13, 13), dtype=np.uint8).astype(bool)
    digests = np.asarray(jax.vmap(curation.fingerprint)(jnp.asarray(grids)))
    assert len(np.unique(digests, axis=0)) == len(np.unique(grids, axis=0))
    for dtype in (jnp.float16, jnp.bfloat16, jnp.int8):
        numbers = jnp.array([0.25, 0.5, -0.5, 100]).astype(dtype)[:, None]
        digests = np.asarray(jax.vmap(curation.fingerprint)(numbers))
        assert len(np.unique(digests, axis=0)) == len(np.unique(np.asarray(numbers, np.float32)))
    # where a value stands matters, too
    assert not np.array_equal(curation.fingerprint(jnp.array([1.0, 2.0])), curation.fingerprint(jnp.array([2.0, 1.0])))


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("capacity", 0, "at least one slot"),
        ("temperature", 0.0, "above 0"),
        ("staleness", 1.5, r"\[0, 1\]"),
        ("replay_rate", -0.1, r"\[0, 1\]"),
        ("min_fill", 2.0, r"\[0, 1\]"),
        ("temperature", float("nan"), "above 0"),
    ],
)
def test_bad_settings_get_a_sentence(field, value, says):
    with pytest.raises(InputError, match=says):
        replace(SMALL, **{field: value})


@pytest.mark.parametrize("field", ["score", "prioritization"])
def test_a_word_in_place_of_a_function_gets_a_sentence(field):
    # not by `replace`: where the tests check types, that refuses it first
    settings = SimpleNamespace(**vars(SMALL) | {field: "best"})
    with pytest.raises(InputError, match=rf"{field} is a function, such as `{getattr(SMALL, field).__name__}`, not 'b"):
        Curator.__post_init__(settings)


def test_shapes_are_checked():
    rescore = jaxtyped(curation.rescore, typechecker=beartype)
    rescore(make_buffer(SMALL, [1.0], [1]), jnp.array([0, 0]), jnp.array([1.0, 2.0]))
    with pytest.raises(TypeCheckError):
        rescore(make_buffer(SMALL, [1.0], [1]), jnp.array([0, 0]), jnp.array([1.0]))


# ---------------------------------------------------------------------------------------------------------------------
# The victim, against float64


def least_supported(curator, scores, ages):
    """The slot to evict, by P_replay in NumPy's float64; what rounding leaves equal is told apart exactly."""
    scores, ages = np.asarray(scores, np.float64), np.asarray(ages, np.float64)
    higher = scores.size - np.searchsorted(np.sort(scores), scores, side="right")
    weights = 1 / (1 + higher) if curator.prioritization is rank else np.maximum(scores, 0)
    powers = (weights / weights.max()) ** (1 / curator.temperature) if weights.max() > 0 else np.ones_like(weights)
    by_age = ages / ages.sum() if ages.sum() > 0 else np.full_like(ages, 1 / ages.size)
    p = (1 - curator.staleness) * powers / powers.sum() + curator.staleness * by_age
    equal = np.flatnonzero(p <= p.min() * (1 + 1e-12))
    return min(equal, key=lambda i: (weights[i], ages[i], i))


def victims(curator, scores, ages):
    """i32[N]: the slots that a level of the highest score takes in full buffers, scores and ages [N, K]."""

    def evicted(scores, ages):
        buffer = make_buffer(curator, [], [])
        buffer = buffer._replace(
            entries=buffer.entries._replace(score=scores), scored_at=100 - ages, size=jnp.int32(curator.capacity)
        )
        after = curation.insert(curator, buffer, arriving([-1], [3e38]))
        return curation.find(after, jnp.int32(-1))

    return np.asarray(jax.jit(jax.vmap(evicted))(jnp.asarray(scores, jnp.float32), jnp.asarray(ages, jnp.int32)))


@pytest.mark.parametrize("prioritization", [rank, proportional])
@pytest.mark.parametrize("staleness", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.3, 1.0, 3.0])
def test_the_victim_is_that_of_float64(prioritization, temperature, staleness):
    curator = Curator(capacity=100, prioritization=prioritization, temperature=temperature, staleness=staleness)
    rng = np.random.default_rng(0)
    scores = [
        *rng.normal(size=(10, 100)),
        *rng.uniform(0.5, 1, (10, 100)),
        *rng.integers(-2, 6, (10, 100)),  # many equal
        *(1 + rng.integers(0, 50, (10, 100)) * 2.0**-23),  # neighbors in float32
        *10.0 ** rng.uniform(-30, 30, (10, 100)),
    ]
    scores = np.asarray(scores, np.float32)
    ages = np.concatenate(
        [rng.integers(low, high, (10, 100)) for low, high in [(0, 3), (0, 50), (1, 9), (5, 6), (1, 2)]]
    )
    ages = rng.permutation(ages)
    expected = [least_supported(curator, *row) for row in zip(scores, ages, strict=True)]
    np.testing.assert_array_equal(victims(curator, scores, ages), expected)


@pytest.mark.parametrize("staleness", [0.0, 0.3])
def test_with_a_low_temperature_the_lowest_score_goes(staleness):
    curator = Curator(capacity=100, temperature=0.05, staleness=staleness)
    buffer = make_buffer(curator, np.random.default_rng(0).permutation(100) + 1.0, [1] * 100)
    after = insert(curator, buffer, arriving([200], [10.0]))
    assert sorted(after.entries.score) == [*range(2, 11), *range(10, 101)]


def test_at_the_defaults_no_two_slots_tie():
    curator, rng = Curator(), np.random.default_rng(0)
    scores, ages = rng.permuted(np.tile(np.arange(4000), (2, 1)), axis=1), np.array([[1] * 4000, [7] * 4000])
    np.testing.assert_array_equal(victims(curator, scores, ages), scores.argmin(axis=1))


# ---------------------------------------------------------------------------------------------------------------------
# Numbers that are not finite


def all_finite(buffer):
    return bool(jnp.isfinite(buffer.entries.score).all() & jnp.isfinite(buffer.entries.best_return).all())


@pytest.mark.parametrize("prioritization", [rank, proportional])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_level_without_a_finite_score_takes_no_slot(broken, prioritization):
    curator = replace(SMALL, prioritization=prioritization)
    empty = curation.empty(curator, jnp.int32(0))
    with_it = insert(curator, empty, arriving([0, 1, 2, 3], [3.0, 1.0, broken, 2.0], best=[0.0] * 4))
    without = insert(curator, empty, arriving([0, 1, 3], [3.0, 1.0, 2.0], best=[0.0] * 3))
    jax.tree.map(np.testing.assert_array_equal, with_it, without)
    np.testing.assert_array_equal(probabilities(curator, with_it), probabilities(curator, without))
    full = make_buffer(curator, [1.0] * K, [1] * K)
    jax.tree.map(np.testing.assert_array_equal, insert(curator, full, arriving([9], [broken], best=[0.0])), full)
    jax.tree.map(np.testing.assert_array_equal, insert(curator, full, arriving([9], [2.0], best=[broken])), full)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_known_level_keeps_its_numbers_if_new_ones_are_not_finite(broken):
    buffer = make_buffer(SMALL, [1.0, 2.0], [5, 5])
    again = insert(SMALL, buffer, arriving([0, 1], [broken, 5.0], best=[7.0, broken]))
    np.testing.assert_array_equal(again.entries.score[:2], [1.0, 5.0])
    np.testing.assert_array_equal(again.entries.best_return[:2], [7.0, 2.0])
    raised, best = curation.update_best_return(buffer, jnp.array([0, 1, 1]), jnp.array([broken, broken, 4.0]))
    np.testing.assert_array_equal(best, [1.0, 4.0, 4.0])
    assert all_finite(raised)
    rescored = curation.rescore(buffer, jnp.array([0, 1, 1]), jnp.array([broken, broken, 4.0]))
    np.testing.assert_array_equal(rescored.entries.score[:2], [1.0, 4.0])


anything = st.lists(st.floats(width=32) | st.sampled_from([np.nan, np.inf, -np.inf, 1.0]), min_size=4, max_size=4)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([rank, proportional]),
    st.lists(
        st.tuples(st.lists(st.integers(0, 9), min_size=4, max_size=4), anything, anything, st.booleans()), min_size=1
    ),
)
def test_whatever_happens_a_buffer_stays_finite(prioritization, batches):
    curator = replace(SMALL, prioritization=prioritization)
    buffer = curation.empty(curator, jnp.int32(0))
    for numbers, values, best, replay in batches:
        buffer = curation.tick(buffer)
        if replay and buffer.size > 0:
            slots = jnp.array(numbers) % buffer.size
            buffer, _ = curation.update_best_return(buffer, slots, jnp.array(best, jnp.float32))
            buffer = curation.rescore(buffer, slots, jnp.array(values, jnp.float32))
        else:
            buffer = insert(curator, buffer, arriving(numbers, values, best))
        assert all_finite(buffer)
        assert bool(jnp.isfinite(probabilities(curator, buffer)).all())


# ---------------------------------------------------------------------------------------------------------------------
# Properties

levels = st.lists(st.integers(0, 9), min_size=4, max_size=4)
scores = st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0]), min_size=4, max_size=4)
batches = st.lists(st.tuples(levels, scores, scores), min_size=1, max_size=6)
curators = st.sampled_from(
    [
        SMALL,
        replace(SMALL, prioritization=proportional),
        replace(SMALL, staleness=0.0),
        replace(SMALL, replace_equals=True),
    ]
)


class PlainCurator:
    """Algorithm 2 with Python lists, one level at a time."""

    def __init__(self, curator):
        self.curator, self.slots, self.clock = curator, [], 0

    def weights(self):
        if self.curator.prioritization is rank:
            return [1 / (1 + sum(other["score"] > row["score"] for other in self.slots)) for row in self.slots]
        return [max(row["score"], 0.0) for row in self.slots]

    def support(self):
        curator, rows = self.curator, self.slots
        weight = [weight ** (1 / curator.temperature) for weight in self.weights()]
        age = [self.clock - row["at"] for row in rows]
        weight, age = ([1.0] * len(x) if sum(x) == 0 else x for x in (weight, age))
        return [
            (1 - curator.staleness) * w / sum(weight) + curator.staleness * a / sum(age)
            for w, a in zip(weight, age, strict=True)
        ]

    def insert(self, level, score, best):
        for row in self.slots:
            if row["level"] == level:
                row.update(score=score, best=max(best, row["best"]), at=self.clock)
                return
        new = {"level": level, "score": score, "best": best, "at": self.clock}
        if len(self.slots) < self.curator.capacity:
            self.slots.append(new)
            return
        support, weights = self.support(), self.weights()
        equal = [i for i, p in enumerate(support) if p <= min(support) * (1 + 1e-12)]
        victim = min(equal, key=lambda i: (weights[i], -self.slots[i]["at"], i))
        old = self.slots[victim]["score"]
        if old < score or (self.curator.replace_equals and old == score):
            self.slots[victim] = new


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(curators, batches)
def test_it_does_what_algorithm_2_does(curator, batches):
    plain, buffer = PlainCurator(curator), curation.empty(curator, jnp.int32(0))
    for numbers, values, best in batches:
        plain.clock += 1
        buffer = insert(curator, curation.tick(buffer), arriving(numbers, values, best))
        for row in zip(numbers, values, best, strict=True):
            plain.insert(*row)
        size = int(buffer.size)
        held = [
            {"level": int(e), "score": float(s), "best": float(b), "at": int(a)}
            for e, s, b, a in zip(
                buffer.entries.level, buffer.entries.score, buffer.entries.best_return, buffer.scored_at, strict=True
            )
        ][:size]
        assert held == plain.slots
        np.testing.assert_allclose(probabilities(curator, buffer)[:size], plain.support(), rtol=1e-4, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(curators, batches)
def test_properties_that_always_hold(curator, batches):
    buffer, size, best_seen = curation.empty(curator, jnp.int32(0)), 0, {}
    for numbers, values, best in batches:
        buffer = insert(curator, curation.tick(buffer), arriving(numbers, values, best))
        assert size <= int(buffer.size) <= K
        size = int(buffer.size)
        p = np.asarray(probabilities(curator, buffer))
        np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-5)
        assert (p >= 0).all()
        assert (p[size:] == 0).all()
        held = [int(x) for x in buffer.entries.level[:size]]
        assert len(set(held)) == size
        # by id: a level that was evicted and comes back is a new entry
        now = dict(zip(map(int, buffer.entries.id[:size]), map(float, buffer.entries.best_return[:size]), strict=True))
        assert all(now[i] >= best_seen[i] for i in now if i in best_seen)
        best_seen = now


@settings(max_examples=40, deadline=None)
@given(curators, st.permutations(range(5)), st.lists(st.floats(-1, 3, width=32), min_size=5, max_size=5))
def test_permuting_slots_permutes_probabilities(curator, order, values):
    ages = [1, 4, 2, 7, 3]
    p = probabilities(curator, make_buffer(curator, values, ages))
    q = probabilities(curator, make_buffer(curator, [values[i] for i in order], [ages[i] for i in order]))
    np.testing.assert_allclose(q[:5], p[:5][jnp.array(order)], rtol=1e-5, atol=1e-7)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=3, max_size=3), st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3))
def test_rescoring_changes_only_what_was_played(slots, values):
    before = make_buffer(SMALL, [5.0, 4.0, 3.0, 2.0, 1.0], [9] * 5)
    after = curation.rescore(before, jnp.array(slots), jnp.array(values, jnp.float32))
    for slot in range(5):
        played = [v for s, v in zip(slots, values, strict=True) if s == slot]
        expected = np.mean(played) if played else float(before.entries.score[slot])
        np.testing.assert_allclose(after.entries.score[slot], expected, rtol=1e-5, atol=1e-7)
        assert int(after.scored_at[slot]) == (100 if played else 91)
