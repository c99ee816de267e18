"""Statistics of several runs of a method: means, quartiles, intervals and tests.

Values are f64[R, L]: R independent runs of one method, each tested on the same L levels. Unknown values are NaN,
without a warning: the standard error of one run, and every statistic of runs of which one has no finite value.

The interquartile mean, the probability of improvement and stratified intervals follow Agarwal et al., "Deep
reinforcement learning at the edge of the statistical precipice" (2021). The paper uses Welch's test.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from tutelage.types import InputError

Values = np.ndarray[Any, np.dtype[np.float64]]


class Interval(NamedTuple):
    """A statistic, and an interval that should hold its true value."""

    value: float
    low: float
    high: float


class Welch(NamedTuple):
    """Welch's two-sided test of whether two methods differ in their mean."""

    difference: float
    t: float
    degrees: float
    """Degrees of freedom, ν."""
    p: float


class Correlation(NamedTuple):
    """Spearman's rank correlation: 1 for the same order, −1 for the opposite one; and its two-sided p-value."""

    rho: float
    p: float


class Summary(NamedTuple):
    """A method's values on one level, or on several together."""

    runs: int
    mean: float
    standard_error: float
    median: float
    lower_quartile: float
    upper_quartile: float
    iqm: float
    iqm_low: float
    iqm_high: float
    wilson_low: float
    """The interval of a mean rate (`rate_interval`); NaN where values are no rates."""
    wilson_high: float


def mean(x: Values) -> Values:
    """x̄ = Σ_r x_r / R, over the first axis: [R, …] → […]."""
    x = _known(x)
    # runs that are all equal have a mean without rounding
    return np.where(np.ptp(x, axis=0) == 0, x[0], x.mean(axis=0))


def standard_error(x: Values) -> Values:
    """The mean's: s / √R with s² = Σ_r (x_r − x̄)² / (R − 1), over the first axis: [R, …] → […]; NaN for one run."""
    return np.sqrt(_variance(x) / len(x))


def median(x: Values) -> Values:
    """The middle of the runs, or halfway between the two in the middle: [R, …] → […]."""
    return np.median(_known(x), axis=0)


def quartiles(x: Values) -> tuple[Values, Values]:
    """Where a quarter and three quarters of the runs lie below, linear between runs: [R, …] → […] twice.

    The interquartile range, IQR, goes from one to the other.
    """
    lower, upper = np.quantile(_known(x), (0.25, 0.75), axis=0)
    return lower, upper


def interquartile_mean(values: Values) -> Values:
    """IQM: the mean of what is left of all n = R·L values without the ⌊n/4⌋ lowest and highest: […, R, L] → […].

        IQM = Σ_{i=⌊n/4⌋+1}^{n−⌊n/4⌋} x_(i) / (n − 2⌊n/4⌋),    x_(1) ≤ … ≤ x_(n)

    Unlike the mean it does not depend on outliers, and unlike the median it uses half of the values.
    """
    from scipy import stats  # here, because it takes half a second to load

    flat = _known(values).reshape(*values.shape[:-2], -1)
    return np.where(np.isnan(flat).any(axis=-1), np.nan, stats.trim_mean(flat, 0.25, axis=-1))


def probability_of_improvement(x: Values, y: Values) -> Values:
    """How likely a run of X does better than one of Y, a tie counting half: […, R, L], […, R', L] → […].

        P = 1/L Σ_l U_l / (R R'),    U_l = Σ_{r,r'} 1[x_rl > y_r'l] + ½ 1[x_rl = y_r'l]

    U_l is the statistic of Mann and Whitney.
    """
    x, y = _known(x), _known(y)
    # sign is 1, 0 or −1, so half of its mean is P − ½; level by level, since all pairs of runs take much memory
    leads = (np.sign(x[..., :, None, level] - y[..., None, :, level]) for level in range(x.shape[-1]))
    return np.mean([0.5 + lead.mean(axis=(-2, -1)) / 2 for lead in leads], axis=0)


def bootstrap(
    statistic: Callable[..., Values],
    samples: Sequence[Values],
    generator: np.random.Generator,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    whole_runs: bool = False,
) -> Interval:
    """The statistic of the samples [R, L], and the interval between the quantiles of its resamples.

    `statistic` maps samples […, R, L] to […], so all resamples are computed at once. The bootstrap is stratified: each
    sample draws as many runs as it has, with replacement, separately for each level. Where one run has played all
    levels, its values tend to rise and fall together and such intervals are too narrow: `whole_runs` draws runs with
    all their values instead.

    A single run cannot be resampled: its interval is NaN.
    """
    samples = [_known(sample) for sample in samples]
    value = float(statistic(*samples))
    if math.isnan(value) or min(len(sample) for sample in samples) < 2:
        return Interval(value, math.nan, math.nan)
    draws = []
    for sample in samples:
        runs, levels = sample.shape
        chosen = generator.integers(runs, size=(resamples, runs, 1 if whole_runs else levels))
        draws.append(np.take_along_axis(sample[None], chosen, axis=1))
    tail = (1 - confidence) / 2
    low, high = np.quantile(statistic(*draws), (tail, 1 - tail))
    return Interval(value, float(low), float(high))


def welch(x: Values, y: Values) -> Welch:
    """Welch's t-test of x[R] against y[R'], whose variances need not be equal.

        t = (x̄ − ȳ) / √(a + b),    a = s_x² / R,  b = s_y² / R'
        ν = (a + b)² / (a² / (R − 1) + b² / (R' − 1)),    p = 2 P(T_ν > |t|)

    A single run has no variance: all is NaN but the difference. If the runs of each method are all equal, t is
    infinite and p is 0 where the methods differ; both are NaN where they do not.
    """
    from scipy import stats

    difference = float(mean(x) - mean(y))
    spread = float(_variance(x) + _variance(y))
    if math.isnan(spread) or (spread == 0 and difference == 0):
        return Welch(difference, math.nan, math.nan, math.nan)
    if spread == 0:
        return Welch(difference, math.copysign(math.inf, difference), math.nan, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of runs that are nearly equal
        test = stats.ttest_ind(x, y, equal_var=False)
    return Welch(difference, float(test.statistic), float(test.df), float(test.pvalue))


def hedges_g(x: Values, y: Values) -> float:
    """The difference of x[R] and y[R'] in standard deviations: Cohen's d, without its bias for few runs.

        d = (x̄ − ȳ) / s,    s² = ((R − 1) s_x² + (R' − 1) s_y²) / (R + R' − 2),    g = d (1 − 3 / (4 (R + R') − 9))

    NaN if one of them is a single run, or if the runs of each are all equal.
    """
    degrees = len(x) + len(y) - 2
    pooled = float((len(x) - 1) * _variance(x) + (len(y) - 1) * _variance(y)) / max(degrees, 1)
    if not pooled > 0:
        return math.nan
    return float(mean(x) - mean(y)) / math.sqrt(pooled) * (1 - 3 / (4 * degrees - 1))


def holm(p: Values) -> Values:
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


def rank_correlation(x: Values, y: Values) -> Correlation:
    """Spearman's ρ of x[n] and y[n]: the correlation of their ranks, ties sharing theirs.

    NaN for fewer than two points, or if all of x or all of y are equal.
    """
    from scipy import stats

    if len(x) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()) or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(math.nan, math.nan)
    found = stats.spearmanr(x, y)
    return Correlation(float(found.statistic), float(found.pvalue) if len(x) > 2 else math.nan)


def wilson(rate: float, episodes: float, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a rate p, found in n independent episodes.

        (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n),    z = Φ⁻¹((1 + confidence) / 2)

    Unlike p ± z √(p(1 − p)/n) it is not empty at 0 and 1: 0 of 20 gives [0, 0.16].
    """
    if math.isnan(rate) or episodes <= 0:
        return Interval(rate, math.nan, math.nan)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    center, scale = rate + z**2 / (2 * episodes), 1 + z**2 / episodes
    margin = z * math.sqrt(rate * (1 - rate) / episodes + (z / (2 * episodes)) ** 2)
    low, high = (center - margin) / scale, (center + margin) / scale
    return Interval(rate, min(rate, max(0.0, low)), max(rate, min(1.0, high)))  # rounding must not exclude the rate


def rate_interval(rates: Values, episodes: int) -> Interval:
    """The mean of R runs' rates [R], each of `episodes` episodes, and Wilson's interval for it.

    Episodes of one run share a policy, so they are not independent samples of the method. The interval uses the
    effective number of episodes from the standard error e between runs, n = p(1 − p)/e², at most their true number.
    A single run has no such error: its interval covers other episodes of this run, not other runs.
    """
    rate, error, most = float(mean(rates)), float(standard_error(rates)), float(len(rates) * episodes)
    worth = rate * (1 - rate) / error**2 if error > 0 else most
    return wilson(rate, min(most, max(1.0, worth)))


def summarize(
    values: Values, generator: np.random.Generator, *, episodes: int | None = None, whole_runs: bool = False
) -> Summary:
    """Summarize values [R, L].

    Mean, median and quartiles are over runs, whose value is their mean over levels; the IQM is over all R·L values.
    `episodes` is how many each run played on each level, if the values are rates.
    """
    runs = _known(values).mean(axis=1)
    lower, upper = map(float, quartiles(runs))
    iqm = bootstrap(interquartile_mean, [values], generator, whole_runs=whole_runs)
    interval = rate_interval(runs, episodes * values.shape[1])[1:] if episodes else (math.nan, math.nan)
    center = float(mean(runs)), float(standard_error(runs)), float(median(runs))
    return Summary(len(runs), *center, lower, upper, *iqm, *interval)


def _known(x: Values) -> Values:
    """NaN in place of infinities, whose differences would be NaN anyway, with a warning."""
    if x.size == 0:
        raise InputError(f"There are no values in an array of shape {list(x.shape)}: give at least one run and level.")
    return np.where(np.isfinite(x), x, np.nan)


def _variance(x: Values) -> Values:
    """s² over the first axis; NaN for one run."""
    if len(x) < 2:
        return np.full(x.shape[1:], np.nan)
    return np.sum((_known(x) - mean(x)) ** 2, axis=0) / (len(x) - 1)
