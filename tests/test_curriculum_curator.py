"""The curator: hand-computed probabilities, properties, a plain rewrite of Algorithm 2 beside it, and known bugs."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.curriculum import curator as curation
from tutelage.curriculum.curator import Buffer, Curator
from tutelage.types import InputError

K = 6
SMALL = Curator(capacity=K, temperature=0.5, staleness=0.25, min_fill=0.5)


def make_buffer(curator, scores, ages, clock=100):
    """A buffer whose first slots hold levels 0, 1, 2, … with these scores and ages."""
    pad = curator.capacity - len(scores)
    rows = arriving(range(curator.capacity), [*scores, *[0.0] * pad])._replace(name=jnp.arange(curator.capacity))
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


def test_rank_probabilities_by_hand():
    # ranks 2, 1, 3; weights (1/rank)^(1/0.5) = 1/4, 1, 1/9; ages 1, 2, 1
    buffer = make_buffer(SMALL, [0.5, 0.9, 0.1], [1, 2, 1])
    by_score = np.array([1 / 4, 1, 1 / 9]) / (1 / 4 + 1 + 1 / 9)
    by_age = np.array([1, 2, 1]) / 4
    expected = 0.75 * by_score + 0.25 * by_age
    np.testing.assert_allclose(probabilities(SMALL, buffer), [*expected, 0, 0, 0], rtol=1e-6)


def test_proportional_probabilities_by_hand():
    curator = replace(SMALL, prioritisation="proportional", temperature=2.0)
    buffer = make_buffer(curator, [4.0, -3.0, 1.0], [0, 0, 5])
    by_score = np.array([2, 0, 1]) / 3  # square roots; a negative score counts as zero
    by_age = np.array([0, 0, 1])
    expected = 0.75 * by_score + 0.25 * by_age
    np.testing.assert_allclose(probabilities(curator, buffer), [*expected, 0, 0, 0], rtol=1e-6)


def test_proportional_with_no_positive_score_is_uniform():
    curator = replace(SMALL, prioritisation="proportional", staleness=0.0)
    buffer = make_buffer(curator, [0.0, -1.0], [1, 1])
    np.testing.assert_allclose(probabilities(curator, buffer), [0.5, 0.5, 0, 0, 0, 0])


def test_equal_scores_share_a_rank():
    curator = replace(SMALL, staleness=0.0)
    buffer = make_buffer(curator, [1.0, 1.0, 0.0], [1, 1, 1])
    weights = np.array([1, 1, 1 / 9])
    np.testing.assert_allclose(probabilities(curator, buffer)[:3], weights / weights.sum(), rtol=1e-6)


def test_temperature_near_zero_is_argmax():
    curator = replace(SMALL, temperature=1e-3, staleness=0.0)
    for prioritisation in ("rank", "proportional"):
        p = probabilities(
            replace(curator, prioritisation=prioritisation), make_buffer(curator, [0.1, 0.3, 0.2], [1] * 3)
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
    for prioritisation in ("rank", "proportional"):
        curator = replace(SMALL, prioritisation=prioritisation)
        empty = curation.empty(curator, jnp.int32(0))
        np.testing.assert_array_equal(probabilities(curator, empty), np.zeros(K))
        np.testing.assert_allclose(probabilities(curator, make_buffer(curator, [0.0], [0]))[0], 1.0)


def test_all_levels_just_scored_are_equally_stale():
    curator = replace(SMALL, staleness=1.0)
    np.testing.assert_allclose(probabilities(curator, make_buffer(curator, [2.0, 1.0], [0, 0]))[:2], [0.5, 0.5])


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
    np.testing.assert_array_equal(again.entries.name[:2], buffer.entries.name[:2])


def test_an_evicted_level_leaves_nothing_behind():
    curator = replace(SMALL, capacity=1, replay_rate=1.0)
    buffer = insert(curator, curation.empty(curator, jnp.int32(0)), arriving([3], [0.5], best=[0.9]))
    after = insert(curator, buffer, arriving([4], [0.6], best=[0.1]))
    row = jax.tree.map(lambda x: x[0], after.entries)
    assert (int(row.level), float(row.best_return), int(row.name)) == (4, np.float32(0.1), 1)
    assert int(curation.find(after, jnp.int32(3))) == -1
    assert int(curation.find(after, jnp.int32(4))) == 0
    assert float(curation.best_known(after, curation.find(after, jnp.int32(3)))) == -np.inf


def test_best_returns_are_shared_by_workers_on_one_level():
    buffer = make_buffer(SMALL, [1.0, 2.0], [1, 1])
    buffer, best = curation.remember_best(buffer, jnp.array([0, 0, 1]), jnp.array([0.5, 4.0, 3.0]))
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
        ("prioritisation", "best", "'rank' or 'proportional'"),
    ],
)
def test_bad_settings_get_a_sentence(field, value, says):
    with pytest.raises(InputError, match=says):
        replace(SMALL, **{field: value})


# ---------------------------------------------------------------------------------------------------------------------
# Properties

levels = st.lists(st.integers(0, 9), min_size=4, max_size=4)
scores = st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0]), min_size=4, max_size=4)
batches = st.lists(st.tuples(levels, scores, scores), min_size=1, max_size=6)
curators = st.sampled_from(
    [
        SMALL,
        replace(SMALL, prioritisation="proportional"),
        replace(SMALL, staleness=0.0),
        replace(SMALL, replace_equals=True),
    ]
)


class PlainCurator:
    """Algorithm 2 with Python lists, one level at a time."""

    def __init__(self, curator):
        self.curator, self.slots, self.clock = curator, [], 0

    def support(self):
        curator, rows = self.curator, self.slots
        if curator.prioritisation == "rank":
            weight = [
                (1 / (1 + sum(other["score"] > row["score"] for other in rows))) ** (1 / curator.temperature)
                for row in rows
            ]
        else:
            weight = [max(row["score"], 0.0) ** (1 / curator.temperature) for row in rows]
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
        support = self.support()
        least = min(support)
        victim = next(i for i, p in enumerate(support) if p <= least * (1 + 1e-5))
        old = self.slots[victim]["score"]
        if old < score or (self.curator.replace_equals and old == score):
            self.slots[victim] = new


@settings(max_examples=60, deadline=None)
@given(curators, batches)
def test_it_does_what_algorithm_2_does(curator, batches):
    plain, buffer = PlainCurator(curator), curation.empty(curator, jnp.int32(0))
    for names, values, best in batches:
        plain.clock += 1
        buffer = insert(curator, curation.tick(buffer), arriving(names, values, best))
        for row in zip(names, values, best, strict=True):
            plain.insert(*row)
        size = int(buffer.size)
        held = [
            {"level": int(e), "score": float(s), "best": float(b), "at": int(a)}
            for e, s, b, a in zip(
                buffer.entries.level, buffer.entries.score, buffer.entries.best_return, buffer.scored_at, strict=True
            )
        ][:size]
        # ties in support may break either way in float32: then only what is held has to be equally good
        if held != plain.slots:
            ties = len(set(np.round(plain.support(), 5))) < len(plain.slots)
            assert ties, (held, plain.slots)
            return
        np.testing.assert_allclose(probabilities(curator, buffer)[:size], plain.support(), rtol=1e-4, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(curators, batches)
def test_properties_that_always_hold(curator, batches):
    buffer, size, best_seen = curation.empty(curator, jnp.int32(0)), 0, {}
    for names, values, best in batches:
        buffer = insert(curator, curation.tick(buffer), arriving(names, values, best))
        assert size <= int(buffer.size) <= K
        size = int(buffer.size)
        p = np.asarray(probabilities(curator, buffer))
        np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-5)
        assert (p >= 0).all()
        assert (p[size:] == 0).all()
        held = [int(x) for x in buffer.entries.level[:size]]
        assert len(set(held)) == size
        # by name: a level that was evicted and comes back is a new entry
        now = dict(
            zip(map(int, buffer.entries.name[:size]), map(float, buffer.entries.best_return[:size]), strict=True)
        )
        assert all(now[name] >= best_seen[name] for name in now if name in best_seen)
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
