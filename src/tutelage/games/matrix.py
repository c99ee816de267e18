"""Base games on matrices: regret, the teachers' utilities and minimax regret (paper, sections 2 and 4).

A base game has a student who picks a policy π and a teacher who picks a level θ. Both may mix. Shapes:

    payoffs, utilities    [policies, levels]    V[π, θ], the student's return; U[π, θ], what a teacher gains
    student               [policies]            a probability for each policy
    teacher               [levels]              a probability for each level
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from tutelage.types import InputError

Matrix = NDArray[np.float64]
Strategy = NDArray[np.float64]

LARGEST = 1e100
"""Payoffs beyond this are refused: differences and products of them would overflow."""


def check_payoffs(values: ArrayLike) -> Matrix:
    """The payoffs as an array of floats [policies, levels], or an `InputError` if they are not a game."""
    V = np.asarray(values, np.float64)
    if V.ndim != 2 or V.size == 0:
        raise InputError(f"Payoffs need a row for each policy and a column for each level; got shape {V.shape}.")
    if not (np.abs(V) < LARGEST).all():
        row, column = np.argwhere(~(np.abs(V) < LARGEST))[0]
        raise InputError(
            f"The payoff in row {row + 1}, column {column + 1} is {V[row, column]}; "
            f"make every payoff a finite number between −{LARGEST:g} and {LARGEST:g}."
        )
    return V


def read_payoffs(path: Path) -> Matrix:
    """Payoffs [policies, levels] from comma-separated numbers; skips lines that are empty or begin with #."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text ({error}); give the path of a CSV file.") from None
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        cells = line.split(",")
        if rows and len(cells) != len(rows[0]):
            raise InputError(
                f"{path}, line {number} has {len(cells)} numbers where the lines above have {len(rows[0])}; "
                "give every policy a payoff on every level."
            )
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}; write numbers separated by commas.") from None
    if not rows:
        raise InputError(f"{path} holds no numbers; write one line of payoffs for each policy.")
    return check_payoffs(rows)


def regret(payoffs: Matrix) -> Matrix:
    """U^R[π, θ] = max_π' V[π', θ] − V[π, θ]: what the student loses against the best policy for each level.

    The best policy is chosen for each level apart, so the maximum over mixed π' is reached by a pure one.
    """
    return payoffs.max(axis=0) - payoffs


def indifferent(payoffs: Matrix) -> Matrix:
    """U^U[π, θ] = 0: all levels are alike to this teacher, so that it may as well play uniformly."""
    return np.zeros_like(payoffs)


def adversarial(payoffs: Matrix) -> Matrix:
    """U[π, θ] = −V[π, θ]: the utility of minimax training."""
    return -payoffs


def uniform(levels: int) -> Strategy:
    """[levels]: domain randomisation."""
    return np.full(levels, 1 / levels)


def worst_case_regret(payoffs: Matrix, student: Strategy) -> float:
    """The student's expected regret on the level where it is greatest."""
    return float((student @ regret(payoffs)).max())


class Gaps(NamedTuple):
    """How much each player could gain by deviating alone; a Nash equilibrium has gaps of zero."""

    student: float
    teacher: float


def base_gaps(payoffs: Matrix, utility: Matrix, student: Strategy, teacher: Strategy) -> Gaps:
    """The Nash gaps of (π, θ) in the base game whose teacher has this utility."""
    returns, gains = payoffs @ teacher, student @ utility
    return Gaps(float(returns.max() - student @ returns), float(gains.max() - gains @ teacher))


class Saddle(NamedTuple):
    """Optimal strategies of a zero-sum game and its value."""

    student: Strategy
    teacher: Strategy
    value: float


def solve_zero_sum(costs: Matrix) -> Saddle:
    """A saddle point of the game in which the student (rows) pays `costs` to the teacher (columns).

    One linear programme: minimise v subject to πᵀ costs ≤ v. Its dual solution is the teacher's strategy.
    """
    policies, levels = costs.shape
    # the solver's tolerances are absolute, so give it numbers in [0, 1]
    low, scale = costs.min(), np.ptp(costs) or 1.0
    solution = linprog(
        c=np.append(np.zeros(policies), 1.0),
        A_ub=np.column_stack([((costs - low) / scale).T, -np.ones(levels)]),
        b_ub=np.zeros(levels),
        A_eq=np.append(np.ones(policies), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * policies + [(None, None)],
        method="highs-ds",  # the simplex ends on a vertex, exact up to rounding
    )
    if not solution.success:
        raise ArithmeticError(f"The linear programme of a {policies} × {levels} game failed: {solution.message}")
    student, teacher = _normalise(solution.x[:policies]), _normalise(-solution.ineqlin.marginals)
    return Saddle(student, teacher, float(student @ costs @ teacher))


def minimax_regret(payoffs: Matrix) -> Saddle:
    """The student of least worst-case regret, a teacher that holds every student to it, and R* itself."""
    return solve_zero_sum(regret(payoffs))


def _normalise(weights: Strategy) -> Strategy:
    positive = np.maximum(weights, 0)
    return positive / positive.sum()
