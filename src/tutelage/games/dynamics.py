"""The six methods, idealized, on a matrix (paper, Algorithms 1 and 3 without their estimators).

The student learns by multiplicative weights from the returns of all policies on the level that it plays. So does the
generator, from its utility on all levels. A curator keeps every level that was played and, at its turn, replays the one
of greatest regret: it plays a best response at once, while a generator changes slowly. A student that learns from
replayed levels only therefore faces a teacher that maximizes regret, and its average strategy tends to minimax regret;
one that learns from random levels too tends to an equilibrium of PLR's dual curriculum game.

Independent runs are rows: [runs, policies] and [runs, levels].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tutelage.games.dual import check_p
from tutelage.games.matrix import Matrix, Strategy, adversarial, indifferent, regret
from tutelage.types import InputError


@dataclass(frozen=True)
class IdealMethod:
    """Which teachers there are, and which of them the student learns from."""

    utility: Callable[[Matrix], Matrix] = indifferent
    """What the generator maximizes. An indifferent one stays uniform: domain randomization."""
    curator: bool = False
    """Whether proposed levels are kept and, with probability p, replayed."""
    train_on_new: bool = True
    """False is the paper's ⊥: the student learns from replayed levels only."""


DR = IdealMethod()
MINIMAX = IdealMethod(utility=adversarial)
PAIRED = IdealMethod(utility=regret)
PLR = IdealMethod(curator=True)
PLR_PERP = replace(PLR, train_on_new=False)
REPAIRED = replace(PAIRED, curator=True, train_on_new=False)

IDEAL_METHODS: Mapping[str, IdealMethod] = {
    "DR": DR,
    "Minimax": MINIMAX,
    "PAIRED": PAIRED,
    "PLR": PLR,
    "PLR⊥": PLR_PERP,
    "REPAIRED": REPAIRED,
}

MOST_POINTS, MOST_WORK = 4_000_000, 10**10
"""Limits on iterations × runs, and on that times policies × levels: 32 MB, and minutes, for each method."""


def worst_case_over_time(
    payoffs: Matrix, method: IdealMethod, p: float, iterations: int, runs: int, rng: np.random.Generator
) -> Matrix:
    """[runs, iterations]: the worst-case regret of the student's average strategy after each iteration."""
    check_p(p)
    if iterations < 1 or runs < 1:
        raise InputError(f"Ask for at least one iteration and one run, not {iterations} and {runs}.")
    if iterations * runs > MOST_POINTS or iterations * runs * payoffs.size > MOST_WORK:
        most = min(MOST_POINTS, MOST_WORK // payoffs.size)
        raise InputError(
            f"{iterations} iterations of {runs} runs take too much time and memory: on a game of this size, iterations "
            f"× runs can be {most} at most."
        )
    V, R, U = payoffs, regret(payoffs), method.utility(payoffs)
    policies, levels = V.shape
    returns, lessons, played = np.zeros((runs, policies)), np.zeros(runs), np.zeros((runs, policies))
    utilities, proposals = np.zeros((runs, levels)), np.zeros(runs)
    known = np.zeros((runs, levels), bool)
    curves = np.empty((runs, iterations))
    for i in range(iterations):
        student = _multiplicative_weights(returns, lessons, np.ptp(V))
        proposal = _draw(_multiplicative_weights(utilities, proposals, np.ptp(U)), rng)
        hardest = np.where(known, student @ R, -np.inf).argmax(axis=1)
        replay = (rng.random(runs) < p) & known.any(axis=1) & method.curator
        level = np.where(replay, hardest, proposal)

        learns = replay | method.train_on_new
        returns += learns[:, None] * V.T[level]
        played += learns[:, None] * student
        lessons += learns
        known[np.arange(runs), level] = True
        utilities += ~replay[:, None] * (student @ U)
        proposals += ~replay

        average = np.where(lessons[:, None] > 0, played / np.maximum(lessons, 1)[:, None], student)
        curves[:, i] = (average @ R).max(axis=1)
    return curves


def _multiplicative_weights(gains: Matrix, rounds: Strategy, spread: float) -> Matrix:
    """[runs, actions]: proportional to exp(η gains / spread) with η = √(8 ln(actions) / (rounds + 1))."""
    rate = np.sqrt(8 * np.log(gains.shape[1]) / (rounds + 1))
    weights = np.exp(rate[:, None] * ((gains - gains.max(axis=1, keepdims=True)) / (spread or 1.0)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _draw(probabilities: Matrix, rng: np.random.Generator) -> NDArray[np.intp]:
    """One index for each row of [runs, levels]."""
    ceilings = probabilities.cumsum(axis=1)
    return np.asarray((rng.random((len(ceilings), 1)) * ceilings[:, -1:] < ceilings).argmax(axis=1))
