"""What several runs say of a method: spread, robust means, intervals and tests.

Scores are f64[R, L]: R independent runs of one method, each tested on the same L levels. What is not known is NaN and
never a warning: the standard error of one run, and every statistic of runs one of which has no finite score.

The interquartile mean, the probability of improvement and stratified intervals follow Agarwal et al., "Deep
reinforcement learning at the edge of the statistical precipice" (2021); Welch's test is the one of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from tutelage.types import InputError

Scores = np.ndarray[Any, np.dtype[np.float64]]


class Estimate(NamedTuple):
    """A statistic, and an interval that should hold its true value."""

    value: float
    low: float
    high: float


class Welch(NamedTuple):
    """Whether two methods differ in their mean."""

    difference: float
    """x̄ − ȳ."""
    t: float
    degrees: float
    """Degrees of freedom."""
    p: float
    """How often two methods with equal means would differ by as much or more; two-sided."""


class Summary(NamedTuple):
    """A method's scores on one level, or on several together."""

    runs: int
    mean: float
    standard_error: float
    median: float
    lower_quartile: float
    upper_quartile: float
    iqm: float
    iqm_low: float
    iqm_high: float


def mean(x: Scores) -> Scores:
    """x̄ = Σ_r x_r / R, over the first axis: [R, …] → […]."""
    x = _known(x)
    # runs that are all equal have a mean without rounding
    return np.where(np.ptp(x, axis=0) == 0, x[0], x.mean(axis=0))


def standard_error(x: Scores) -> Scores:
    """The mean's: s / √R with s² = Σ_r (x_r − x̄)² / (R − 1), over the first axis: [R, …] → […]; NaN for one run."""
    return np.sqrt(_variance(x) / len(x))


def median(x: Scores) -> Scores:
    """The middle of the runs, or halfway between the two in the middle: [R, …] → […]."""
    return np.median(_known(x), axis=0)


def quartiles(x: Scores) -> tuple[Scores, Scores]:
    """Where a quarter and three quarters of the runs lie below, linear between runs: [R, …] → […] twice.

    The interquartile range, IQR, goes from one to the other.
    """
    lower, upper = np.quantile(_known(x), (0.25, 0.75), axis=0)
    return lower, upper


def interquartile_mean(scores: Scores) -> Scores:
    """IQM: the mean of what is left of all n = R·L scores without the ⌊n/4⌋ lowest and highest: […, R, L] → […].

        IQM = Σ_{i=⌊n/4⌋+1}^{n−⌊n/4⌋} x_(i) / (n − 2⌊n/4⌋),    x_(1) ≤ … ≤ x_(n)

    Unlike the mean it does not depend on outliers, and unlike the median it uses half of the scores.
    """
    ordered = np.sort(_known(scores).reshape(*scores.shape[:-2], -1))  # NaN comes last
    cut = ordered.shape[-1] // 4
    middle = ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)
    return np.where(np.isnan(ordered[..., -1]), np.nan, middle)


def probability_of_improvement(x: Scores, y: Scores) -> Scores:
    """How likely a run of X does better than one of Y, a tie counting half: […, R, L], […, R', L] → […].

        P = 1/L Σ_l U_l / (R R'),    U_l = Σ_{r,r'} 1[x_rl > y_r'l] + ½ 1[x_rl = y_r'l]

    U_l is the statistic of Mann and Whitney.
    """
    x, y = _known(x), _known(y)
    # sign is 1, 0 or −1, so half of its mean is P − ½; level by level, lest all pairs of runs be in memory at once
    leads = (np.sign(x[..., :, None, level] - y[..., None, :, level]) for level in range(x.shape[-1]))
    return np.mean([0.5 + lead.mean(axis=(-2, -1)) / 2 for lead in leads], axis=0)


def bootstrap(
    statistic: Callable[..., Scores],
    samples: Sequence[Scores],
    generator: np.random.Generator,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    whole_runs: bool = False,
) -> Estimate:
    """The statistic of the samples [R, L], and the interval between the quantiles of its resamples.

    `statistic` maps samples […, R, L] to […], so all resamples are computed at once. The bootstrap is stratified: each
    sample draws as many runs as it has, with replacement, and does so for each level anew. Where one run has played
    all levels, its scores tend to rise and fall together and such intervals are too narrow: `whole_runs` draws runs
    with all their scores instead.

    Nothing can be resampled from a single run: its interval is NaN.
    """
    samples = [_known(sample) for sample in samples]
    value = float(statistic(*samples))
    if math.isnan(value) or min(len(sample) for sample in samples) < 2:
        return Estimate(value, math.nan, math.nan)
    draws = (_resample(sample, generator, resamples, whole_runs) for sample in samples)
    tail = (1 - confidence) / 2
    low, high = np.quantile(statistic(*draws), (tail, 1 - tail))
    return Estimate(value, float(low), float(high))


def welch(x: Scores, y: Scores) -> Welch:
    """Welch's t-test of x[R] against y[R'], whose variances need not be equal.

        t = (x̄ − ȳ) / √(a + b),    a = s_x² / R,  b = s_y² / R'
        ν = (a + b)² / (a² / (R − 1) + b² / (R' − 1)),    p = 2 P(T_ν > |t|)

    A run alone has no variance: all is NaN but the difference. Where no run differs from the others of its method, t
    is infinite and p is 0 if the methods differ; both are NaN if they do not.
    """
    difference = float(mean(x) - mean(y))
    a, b = float(standard_error(x)) ** 2, float(standard_error(y)) ** 2
    if math.isnan(a + b) or (a + b == 0 and difference == 0):
        return Welch(difference, math.nan, math.nan, math.nan)
    if a + b == 0:
        return Welch(difference, math.copysign(math.inf, difference), math.nan, 0.0)
    t = difference / math.sqrt(a + b)
    # shares of the variance instead of squares of it, which underflow when runs hardly differ
    degrees = 1 / ((a / (a + b)) ** 2 / (len(x) - 1) + (b / (a + b)) ** 2 / (len(y) - 1))
    return Welch(difference, t, degrees, float(2 * special.stdtr(degrees, -abs(t))))


def holm(p: Scores) -> Scores:
    """Holm's correction of m p-values [m], so that one false alarm among all m tests is as rare as one test's.

        p'_(i) = max_{j ≤ i} min(1, (m − j + 1) p_(j)),    p_(1) ≤ … ≤ p_(m)

    Tests without a result (NaN) stay so and do not count.
    """
    corrected = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.maximum.accumulate(np.minimum(1, factors * p[order]))
    return corrected


def rank_correlation(x: Scores, y: Scores) -> float:
    """Spearman's ρ of x[n] and y[n]: the correlation of their ranks, ties sharing theirs.

    NaN for fewer than two points, or if all of x or all of y are equal.
    """
    if len(x) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return math.nan
    a, b = (ranks - ranks.mean() for ranks in (stats.rankdata(x), stats.rankdata(y)))
    scale = math.sqrt((a @ a) * (b @ b))
    return float(a @ b) / scale if scale else math.nan


def summarise(
    scores: Scores, generator: np.random.Generator, *, resamples: int = 2000, whole_runs: bool = False
) -> Summary:
    """Sum up scores [R, L].

    Mean, median and quartiles are those of the runs, whose score is their mean over levels; the IQM is that of all
    R·L scores.
    """
    runs = _known(scores).mean(axis=1)
    lower, upper = map(float, quartiles(runs))
    iqm = bootstrap(interquartile_mean, [scores], generator, resamples=resamples, whole_runs=whole_runs)
    return Summary(len(runs), float(mean(runs)), float(standard_error(runs)), float(median(runs)), lower, upper, *iqm)


def _known(x: Scores) -> Scores:
    """NaN in the place of infinities, whose differences would be NaN anyway, and with a warning."""
    if x.size == 0:
        raise InputError(
            f"There are no scores in an array of shape {list(x.shape)}: give at least one run and one level."
        )
    return np.where(np.isfinite(x), x, np.nan)


def _variance(x: Scores) -> Scores:
    """s² over the first axis; NaN for one run."""
    if len(x) < 2:
        return np.full(x.shape[1:], np.nan)
    return np.sum((_known(x) - mean(x)) ** 2, axis=0) / (len(x) - 1)


def _resample(x: Scores, generator: np.random.Generator, resamples: int, whole_runs: bool) -> Scores:
    """[resamples, R, L] out of x[R, L]."""
    runs, levels = x.shape
    chosen = generator.integers(runs, size=(resamples, runs, 1 if whole_runs else levels))
    return np.take_along_axis(x[None], chosen, axis=1)
