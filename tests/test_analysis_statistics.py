"""Statistics of runs: hand-computed numbers, scipy's, properties, and what is said of degenerate input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats as scipy_stats

from tutelage.analysis.statistics import (
    bootstrap,
    hedges_g,
    holm,
    interquartile_mean,
    mean,
    median,
    probability_of_improvement,
    quartiles,
    rank_correlation,
    rate_interval,
    standard_error,
    summarize,
    welch,
    wilson,
)
from tutelage.types import InputError

numbers = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
tables = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=numbers)
samples = arrays(np.float64, st.integers(2, 8), elements=numbers)


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def column(*x: float) -> np.ndarray:
    return np.array(x)[:, None]


# Hand-computed


def test_mean_and_standard_error():
    x = np.array([1.0, 2.0, 3.0, 6.0])  # squares of distances from 3: 4 + 1 + 0 + 9 = 14
    assert mean(x) == 3
    assert standard_error(x) == pytest.approx(math.sqrt(14 / 3 / 4))


def test_median_and_quartiles():
    x = np.array([5.0, 1.0, 2.0, 9.0])
    assert median(x) == 3.5
    assert quartiles(x) == (1.75, 6.0)  # three quarters of the way from 1 to 2, a quarter from 5 to 9


def test_each_level_by_itself():
    x = np.array([[1.0, 10.0], [3.0, 30.0]])
    assert mean(x).tolist() == [2, 20]
    assert standard_error(x).tolist() == pytest.approx([1, 10])
    assert median(x).tolist() == [2, 20]


def test_interquartile_mean_drops_a_quarter_on_each_side():
    assert interquartile_mean(np.array([[0.0, 100.0], [2.0, 4.0]])) == 3  # of four, the lowest and the highest
    assert interquartile_mean(column(0, 1, 5)) == 2  # of three, none


def test_probability_of_improvement():
    x, y = column(1, 2, 3), column(2, 0)
    # 1 < 2, 1 > 0, 2 = 2, 2 > 0, 3 > 2, 3 > 0: four and a half of six
    assert probability_of_improvement(x, y) == pytest.approx(0.75)
    wins, loses = np.hstack([x, column(9, 9, 9)]), np.hstack([y, column(0, 0)])
    assert probability_of_improvement(wins, loses) == pytest.approx((0.75 + 1) / 2)


def test_welch():
    x, y = np.array([1.0, 3.0]), np.array([4.0, 5.0, 6.0])  # a = 2/2, b = 1/3
    result = welch(x, y)
    assert result.difference == -3
    assert result.t == pytest.approx(-3 / math.sqrt(4 / 3))
    assert result.degrees == pytest.approx((4 / 3) ** 2 / (1 + 1 / 9 / 2))


def test_holm():
    # in order .01 × 3, .03 × 2, .04 × 1, and none less than the one before
    assert holm(np.array([0.04, 0.01, np.nan, 0.03])) == pytest.approx([0.06, 0.03, np.nan, 0.06], nan_ok=True)
    assert holm(np.array([0.9, 0.8])).tolist() == [1, 1]


def test_rank_correlation():
    assert rank_correlation(np.array([1.0, 2.0, 30.0]), np.array([0.1, 0.5, 0.6])).rho == pytest.approx(1)
    assert rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 1.0])).rho == pytest.approx(-0.5)


def test_summary():
    scores = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])  # runs' means are .5, 2.5 and 4.5
    result = summarize(scores, generator())
    assert result[:7] == pytest.approx((3, 2.5, math.sqrt(4 / 3), 2.5, 1.5, 3.5, 2.5))
    assert 0 <= result.iqm_low < 2.5 < result.iqm_high <= 5


def test_wilsons_interval_is_never_empty():
    # z²/n = 3.8415 / 20: the upper bound of 0 of 20 is .19207 / 1.19207
    assert wilson(0, 20) == pytest.approx((0, 0, 0.16113), abs=1e-5)
    assert wilson(1, 20) == pytest.approx((1, 1 - 0.16113, 1), abs=1e-5)
    assert np.isnan(wilson(math.nan, 20)).all()
    assert np.isnan(wilson(0.5, 0)[1:]).all()


def test_runs_that_differ_are_worth_fewer_episodes():
    # p = .5 and e = .1 between runs: worth .25 / .01 = 25 episodes, of 2,000
    assert rate_interval(np.array([0.4, 0.6]), 1000) == pytest.approx(wilson(0.5, 25))
    assert rate_interval(np.array([0.0, 0.0]), 10) == pytest.approx(wilson(0, 20))  # equal: never more than there were
    assert rate_interval(np.array([0.3]), 10) == pytest.approx(wilson(0.3, 10))
    assert rate_interval(np.array([0.0, 1.0]), 10) == pytest.approx(wilson(0.5, 1))


def test_a_summary_of_rates_has_an_interval():
    scores = np.array([[0.0, 0.0], [0.0, 0.0]])
    assert summarize(scores, generator(), episodes=5)[-2:] == pytest.approx(wilson(0, 20)[1:])
    assert np.isnan(summarize(scores, generator())[-2:]).all()


# scipy's


@given(st.integers(0, 30), st.integers(1, 30))
def test_wilson_is_scipys(solved: int, more: int):
    n = solved + more
    reference = scipy_stats.binomtest(solved, n).proportion_ci(method="wilson")
    assert wilson(solved / n, n)[1:] == pytest.approx((reference.low, reference.high), abs=1e-9)


@given(samples, samples)
def test_welch_is_scipys(x: np.ndarray, y: np.ndarray):
    if min(x.std(), y.std()) < 1e-3:
        return  # where scipy warns of lost precision
    reference = scipy_stats.ttest_ind(x, y, equal_var=False)
    result = welch(x, y)
    assert result.t == pytest.approx(reference.statistic, rel=1e-7, abs=1e-9)
    assert result.degrees == pytest.approx(reference.df, rel=1e-7)
    assert result.p == pytest.approx(reference.pvalue, rel=1e-6, abs=1e-12)


@given(tables)
def test_interquartile_mean_is_scipys_trimmed_mean(scores: np.ndarray):
    assert interquartile_mean(scores) == pytest.approx(scipy_stats.trim_mean(scores, 0.25, axis=None), abs=1e-6)


@given(samples, samples)
def test_probability_of_improvement_is_scipys_mann_whitney(x: np.ndarray, y: np.ndarray):
    u = scipy_stats.mannwhitneyu(x, y, method="asymptotic").statistic
    assert probability_of_improvement(x[:, None], y[:, None]) == pytest.approx(u / len(x) / len(y))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=20))
def test_rank_correlation_is_scipys(pairs: list[tuple[int, int]]):
    x, y = np.array(pairs, float).T
    if np.ptp(x) and np.ptp(y):
        reference = scipy_stats.spearmanr(x, y)
        assert rank_correlation(x, y) == pytest.approx((reference.statistic, reference.pvalue), nan_ok=True)
    else:
        assert np.isnan(rank_correlation(x, y)).all()


def test_standard_error_is_scipys():
    x = generator().normal(size=(7, 3))
    assert standard_error(x) == pytest.approx(scipy_stats.sem(x))


# Properties


@given(numbers, st.integers(1, 6), st.integers(1, 5))
def test_constants_are_their_own_statistics(c: float, runs: int, levels: int):
    scores = np.full((runs, levels), c)
    assert interquartile_mean(scores) == pytest.approx(c)
    assert mean(scores[:, 0]) == median(scores[:, 0]) == c
    if runs > 1:
        assert standard_error(scores[:, 0]) == 0
        assert bootstrap(interquartile_mean, [scores], generator(), resamples=20) == pytest.approx((c, c, c))


@given(tables, st.randoms())
def test_the_order_of_runs_does_not_matter(scores: np.ndarray, random):
    order = list(range(len(scores)))
    random.shuffle(order)
    for statistic in (mean, median, interquartile_mean):
        assert statistic(scores[order]) == pytest.approx(statistic(scores), abs=1e-6)
    assert probability_of_improvement(scores[order], scores + 1) == probability_of_improvement(scores, scores + 1)


@given(tables)
def test_the_interquartile_mean_lies_between_the_scores(scores: np.ndarray):
    assert scores.min() - 1e-6 <= interquartile_mean(scores) <= scores.max() + 1e-6


@given(st.integers(1, 4), st.data())
def test_improvements_add_up_to_one(levels: int, data: st.DataObject):
    few = st.integers(0, 3).map(float)  # so that there are ties
    x, y = (data.draw(arrays(np.float64, (data.draw(st.integers(1, 5)), levels), elements=few)) for _ in "xy")
    forth, back = probability_of_improvement(x, y), probability_of_improvement(y, x)
    assert forth + back == pytest.approx(1)
    assert 0 <= forth <= 1
    assert probability_of_improvement(x, x) == pytest.approx(0.5)


@given(samples, samples)
def test_welch_is_antisymmetric(x: np.ndarray, y: np.ndarray):
    forth, back = welch(x, y), welch(y, x)
    assert forth.t == pytest.approx(-back.t, nan_ok=True)
    assert forth.p == pytest.approx(back.p, nan_ok=True)
    assert math.isnan(forth.p) or 0 <= forth.p <= 1


@given(arrays(np.float64, st.integers(0, 8), elements=st.floats(0, 1)))
def test_holm_never_lowers_nor_reorders(p: np.ndarray):
    corrected = holm(p)
    assert (corrected >= p).all()
    assert (corrected <= 1).all()
    assert (np.diff(corrected[np.argsort(p, kind="stable")]) >= 0).all()


@settings(max_examples=25)
@given(tables, tables)
def test_batches_are_computed_as_one_by_one(x: np.ndarray, y: np.ndarray):
    y = np.resize(y, (len(y), x.shape[1]))
    batch_x, batch_y = np.stack([x, x + 1, -x]), np.stack([y, y, y])
    assert interquartile_mean(batch_x) == pytest.approx([float(interquartile_mean(each)) for each in batch_x])
    assert probability_of_improvement(batch_x, batch_y) == pytest.approx(
        [float(probability_of_improvement(*pair)) for pair in zip(batch_x, batch_y, strict=True)]
    )


# The bootstrap


def test_a_seed_gives_one_interval():
    scores = generator().normal(size=(8, 3))
    once, again, other = (bootstrap(interquartile_mean, [scores], np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert once == again != other


def test_runs_are_resampled_within_their_level():
    scores = np.array([[0.0, 10.0], [1.0, 20.0], [2.0, 30.0]])
    seen: list[np.ndarray] = []

    def statistic(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return x.mean(axis=(-2, -1))

    for whole_runs in (False, True):
        bootstrap(statistic, [scores], generator(), resamples=500, whole_runs=whole_runs)
        drawn = seen[-1]
        assert drawn.shape == (500, 3, 2)
        assert set(drawn[..., 0].ravel()) == {0, 1, 2}
        assert set(drawn[..., 1].ravel()) == {10, 20, 30}
        together = (drawn[..., 1] == 10 + 10 * drawn[..., 0]).all()
        assert together == whole_runs


def coverage(scores: np.ndarray, **options: bool) -> float:
    """How many of the intervals, one for each of scores [repeats, R, L], hold the true IQM, 0."""
    rng = np.random.default_rng(7)
    intervals = [bootstrap(interquartile_mean, [each], rng, resamples=400, **options) for each in scores]
    return float(np.mean([low <= 0 <= high for _, low, high in intervals]))


def test_intervals_of_a_normal_sample_cover_what_they_say():
    # percentiles of 20 runs are known to be a little too narrow; 400 repeats leave ± .012
    assert 0.90 <= coverage(generator().normal(size=(400, 20, 3))) <= 0.98


@pytest.mark.slow
def test_whole_runs_cover_levels_that_rise_and_fall_together():
    students, levels = generator().normal(size=(2, 400, 20, 6))
    scores = students[..., :1] + 0.3 * levels
    assert coverage(scores) < 0.8
    assert 0.89 <= coverage(scores, whole_runs=True) <= 0.98


def test_the_interval_of_an_improvement_covers():
    x, y = generator().normal(size=(2, 300, 12, 4))
    rng = np.random.default_rng(3)
    intervals = [
        bootstrap(probability_of_improvement, pair, rng, resamples=200) for pair in zip(x, y + 0.5, strict=True)
    ]
    truth = scipy_stats.norm.cdf(-0.5 / math.sqrt(2))
    assert 0.88 <= np.mean([low <= truth <= high for _, low, high in intervals]) <= 0.99


# Degenerate input


def test_one_run_has_a_mean_but_no_spread():
    result = summarize(np.array([[0.25, 0.75]]), generator())
    assert result[:9] == pytest.approx((1, 0.5, np.nan, 0.5, 0.5, 0.5, 0.5, np.nan, np.nan), nan_ok=True)
    assert welch(np.array([1.0]), np.array([2.0, 3.0])) == pytest.approx((-1.5, np.nan, np.nan, np.nan), nan_ok=True)


def test_runs_without_variance():
    same, other = np.array([0.1, 0.1, 0.1]), np.array([0.7, 0.7])
    assert welch(same, other)[1:] == pytest.approx((-math.inf, np.nan, 0), nan_ok=True)
    # 0.1 summed three and seven times rounds differently
    assert welch(same, np.full(7, 0.1)) == pytest.approx((0, np.nan, np.nan, np.nan), nan_ok=True)
    assert welch(same, np.array([0.6, 0.8])).degrees == pytest.approx(1)  # only the other's variance counts


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_unknown_score_makes_the_rest_unknown(bad: float):
    x, y = np.array([1.0, bad, 2.0]), np.array([1.0, 4.0])
    assert np.isnan([mean(x), standard_error(x), median(x), *quartiles(x), *welch(x, y), *welch(y, x)]).all()
    assert np.isnan(interquartile_mean(x[:, None]))
    assert np.isnan(probability_of_improvement(x[:, None], y[:, None]))
    assert np.isnan(bootstrap(interquartile_mean, [x[:, None]], generator())).all()
    assert np.isnan(rank_correlation(x, np.arange(3.0))).all()


def test_no_values_are_refused():
    with pytest.raises(InputError, match="no values in an array of shape \\[0, 3\\]"):
        summarize(np.empty((0, 3)), generator())
    with pytest.raises(InputError, match="give at least one run"):
        mean(np.array([]))
    assert holm(np.array([])).size == 0
    assert np.isnan(rank_correlation(np.array([]), np.array([]))).all()


def test_hedges_g_by_hand():
    x, y = np.array([3.0, 5.0, 7.0]), np.array([1.0, 2.0, 3.0])
    # means 5 and 2, variances 4 and 1: pooled √2.5; four degrees of freedom
    assert hedges_g(x, y) == pytest.approx(3 / np.sqrt(2.5) * (1 - 3 / 15))
    assert hedges_g(y, x) == pytest.approx(-hedges_g(x, y))
    assert np.isnan(hedges_g(x, y[:1]))
    assert np.isnan(hedges_g(np.ones(3), np.zeros(3)))
