"""The dual curriculum game: one student, two teachers (paper, section 3; Theorem 1 and its corollaries).

With probability p the level comes from the first teacher, otherwise from the second. A teacher gains only at its own
turns, so its best response does not depend on the other teacher. The student meets the mixture pθ¹ + (1−p)θ². Shapes
are those of `tutelage.games.matrix`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tutelage.games.matrix import (
    Matrix,
    Strategy,
    base_gaps,
    check_payoffs,
    gain,
    indifferent,
    lemke_howson,
    minimax_regret,
    regret,
    solve_zero_sum,
    uniform,
    worst_case_regret,
)
from tutelage.types import InputError

TOLERANCE = 1e-9
"""A profile counts as an equilibrium if no gap is larger than this share of the game's largest spread."""

MOST_LABELS, MOST_STARTS = 400, 50
"""`corollary_2` searches games with at most so many policies and levels in total, from at most so many labels."""


def check_p(p: float) -> float:
    """The mixing probability, or an `InputError` if it is not in [0, 1]."""
    if not 0 <= p <= 1:
        raise InputError(f"p is the probability of the first teacher's turn; make it a number from 0 to 1, not {p}.")
    return p


class Profile(NamedTuple):
    """A mixed strategy for each of the three players."""

    student: Strategy
    first: Strategy
    second: Strategy


class DualGaps(NamedTuple):
    """How much each player could gain by deviating alone, a teacher's gain being counted at its own turns."""

    student: float
    first: float
    second: float


@dataclass(frozen=True, eq=False)
class DualCurriculumGame:
    """The student's payoffs, both teachers' utilities, all [policies, levels], and the first teacher's p."""

    payoffs: Matrix
    first: Matrix
    second: Matrix
    p: float

    def __post_init__(self) -> None:
        check_p(self.p)
        shape = check_payoffs(self.payoffs).shape
        if self.first.shape != shape or self.second.shape != shape:
            raise InputError("Payoffs and both utilities need one row for each policy and one column for each level.")
        if not (np.isfinite(self.first).all() and np.isfinite(self.second).all()):
            raise InputError("A utility is infinite or not a number; make all finite.")

    @property
    def difference(self) -> float:
        """Theorem 1's B: the largest absolute difference between the two teachers' utilities."""
        return float(np.abs(self.first - self.second).max())

    @property
    def joint(self) -> Matrix:
        """The utility of both teachers taken as one: p U¹ + (1−p) U²."""
        return self.p * self.first + (1 - self.p) * self.second

    def mixture(self, profile: Profile) -> Strategy:
        """[levels]: pθ¹ + (1−p)θ², what the student meets, and the teacher's strategy in the base game."""
        return self.p * profile.first + (1 - self.p) * profile.second

    def gaps(self, profile: Profile) -> DualGaps:
        """The Nash gaps of a profile."""
        student, first, second = profile
        return DualGaps(
            gain(self.payoffs @ self.mixture(profile), student),
            gain(student @ self.first, first),
            gain(student @ self.second, second),
        )

    def is_equilibrium(self, profile: Profile) -> bool:
        """Whether no player gains by deviating, up to rounding."""
        matrices = self.payoffs, self.first, self.second
        spread, largest = max(map(np.ptp, matrices)), max(np.abs(matrix).max() for matrix in matrices)
        return max(self.gaps(profile)) <= max(TOLERANCE * float(spread), 1e-14 * float(largest))


def plr_game(payoffs: Matrix, p: float) -> DualCurriculumGame:
    """PLR: a curator that maximizes regret has share p, a generator of random levels the rest."""
    return DualCurriculumGame(payoffs, regret(payoffs), indifferent(payoffs), p)


def robust_game(payoffs: Matrix, p: float) -> DualCurriculumGame:
    """PLR⊥ and REPAIRED: whichever teacher the student learns from, that one maximizes regret (Corollary 2)."""
    return DualCurriculumGame(payoffs, regret(payoffs), regret(payoffs), p)


def plr_equilibrium(payoffs: Matrix, p: float) -> Profile:
    """An equilibrium of `plr_game` whose second teacher plays uniformly.

    For the student, more return is less regret, since max_π V[π, θ] does not depend on what it plays; and its regret
    on uniform levels does not depend on the first teacher. So these two play a zero-sum game with costs

        p U^R[π, θ] + (1−p) mean_θ' U^R[π, θ']
    """
    R, random = regret(payoffs), uniform(payoffs.shape[1])
    student, first, _ = solve_zero_sum(check_p(p) * R + (1 - p) * (R @ random)[:, None])
    if p == 0:  # the student never meets the first teacher, so the costs say nothing about it
        first = np.eye(payoffs.shape[1])[(student @ R).argmax()]
    return Profile(student, first, random)


class Approximation(NamedTuple):
    """How far a profile is from equilibrium in one base game, and the bound of Theorem 1."""

    teacher: str
    gap: float
    bound: float


def theorem_1(game: DualCurriculumGame, profile: Profile) -> tuple[Approximation, Approximation, Approximation]:
    """The gap of (π, pθ¹ + (1−p)θ²) in the base game of the first teacher, the second and both as one.

    The bounds hold if the profile is an equilibrium of the dual curriculum game.
    """
    mixture, p, B = game.mixture(profile), game.p, game.difference

    def gap(utility: Matrix) -> float:
        return max(base_gaps(game.payoffs, utility, profile.student, mixture))

    return (
        Approximation("first", gap(game.first), 2 * B * (1 - p)),
        Approximation("second", gap(game.second), 2 * B * p),
        Approximation("joint", gap(game.joint), 2 * B * p * (1 - p)),
    )


class WorstCase(NamedTuple):
    """A student's worst-case regret, the least possible, R*, and Corollary 1's bound for PLR's equilibria."""

    regret: float
    optimum: float
    bound: float


def corollary_1(payoffs: Matrix, p: float, student: Strategy) -> WorstCase:
    """Worst-case regret, R*, and the bound R* + 2(B⁺−B⁻)(1−p), where payoffs range from B⁻ to B⁺."""
    optimum = minimax_regret(payoffs).value
    return WorstCase(worst_case_regret(payoffs, student), optimum, optimum + 2 * float(np.ptp(payoffs)) * (1 - p))


class Equilibria(NamedTuple):
    """Equilibria that were found, their students' worst-case regrets, and R* by linear programming."""

    profiles: list[Profile]
    regrets: list[float]
    optimum: float


def corollary_2(payoffs: Matrix, p: float) -> Equilibria:
    """Equilibria of `robust_game`: by the corollary, each student's worst-case regret is R*.

    They are found without reference to R*: Lemke and Howson's algorithm solves the game between the student and one
    regret teacher, whose strategy both teachers then play. Policies and levels that equal others are left out of the
    search. Only profiles that pass `is_equilibrium` are returned.
    """
    game = robust_game(payoffs, p)
    rows, columns = (np.sort(np.unique(payoffs, axis=axis, return_index=True)[1]) for axis in (0, 1))
    if len(rows) + len(columns) > MOST_LABELS:
        raise InputError(f"Equilibria are searched for in games of at most {MOST_LABELS} policies and levels together.")
    cell, found = np.ix_(rows, columns), dict[bytes, Profile]()
    for label in range(min(len(rows) + len(columns), MOST_STARTS)):
        student, teacher = np.zeros(payoffs.shape[0]), np.zeros(payoffs.shape[1])
        student[rows], teacher[columns] = lemke_howson(payoffs[cell], game.first[cell], label)
        profile = Profile(student, teacher, teacher)
        if game.is_equilibrium(profile):
            found.setdefault(np.concatenate([student, teacher]).round(9).tobytes(), profile)
    profiles = [*found.values()]
    regrets = [worst_case_regret(payoffs, profile.student) for profile in profiles]
    return Equilibria(profiles, regrets, minimax_regret(payoffs).value)


def sweep(payoffs: Matrix, shares: Sequence[float]) -> list[WorstCase]:
    """Corollary 1 at the equilibrium of PLR for each p in `shares`."""
    return [corollary_1(payoffs, p, plr_equilibrium(payoffs, p).student) for p in shares]
