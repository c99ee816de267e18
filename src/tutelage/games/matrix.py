"""Base games on matrices: regret, the teachers' utilities and minimax regret (paper, sections 2 and 3).

In a base game the student picks a policy π and the teacher a level θ. Both may mix. Shapes:

    payoffs, utilities    [policies, levels]    V[π, θ], the student's return; U[π, θ], what a teacher gains
    student               [policies]            a probability for each policy
    teacher               [levels]              a probability for each level
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tutelage.types import InputError

Matrix = NDArray[np.float64]
Strategy = NDArray[np.float64]

LARGEST, SMALLEST = 1e100, 1e-100
"""Payoffs beyond these sizes, except 0, are refused: their products would overflow or vanish."""

MOST_PIVOTS = 10_000
"""Lemke and Howson's algorithm usually takes fewer pivots than there are labels, but exponentially many at worst."""


def check_payoffs(values: ArrayLike, smallest: float = 0.0) -> Matrix:
    """The payoffs as an array of floats [policies, levels], or an `InputError` if they are not a game."""
    V = np.asarray(values, np.float64)
    if V.ndim != 2 or V.size == 0:
        raise InputError(f"Payoffs need a row for each policy and a column for each level; got shape {V.shape}.")
    fits = (V == 0) | ((np.abs(V) >= smallest) & (np.abs(V) <= LARGEST))
    if not fits.all():
        row, column = np.argwhere(~fits)[0]
        raise InputError(
            f"The payoff in row {row + 1}, column {column + 1} is {V[row, column]}; make every payoff 0 or a "
            f"finite number whose size is from {SMALLEST:g} to {LARGEST:g}."
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
    return check_payoffs(rows, SMALLEST)


def regret(payoffs: Matrix) -> Matrix:
    """U^R[π, θ] = max_π' V[π', θ] − V[π, θ]: what the student loses against the best policy for each level.

    The best policy is chosen for each level separately, so a pure π' reaches the maximum over mixed ones.
    """
    return np.asarray(payoffs.max(axis=0) - payoffs)


def indifferent(payoffs: Matrix) -> Matrix:
    """U^U[π, θ] = 0: this teacher is indifferent between all levels, so that uniform play is optimal for it."""
    return np.zeros_like(payoffs)


def adversarial(payoffs: Matrix) -> Matrix:
    """U[π, θ] = −V[π, θ]: the utility of minimax training."""
    return -payoffs


def uniform(levels: int) -> Strategy:
    """[levels]: domain randomization."""
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
    return Gaps(gain(payoffs @ teacher, student), gain(student @ utility, teacher))


def gain(values: Strategy, strategy: Strategy) -> float:
    """The gain of the best deviation from a mixed strategy, given the value of each pure one."""
    return float(values.max() - values @ strategy)


class Saddle(NamedTuple):
    """Optimal strategies of a zero-sum game and its value."""

    student: Strategy
    teacher: Strategy
    value: float


def solve_zero_sum(costs: Matrix) -> Saddle:
    """A saddle point of the game in which the student (rows) pays `costs` to the teacher (columns).

    One linear program: minimize v subject to πᵀ costs ≤ v. Its dual solution is the teacher's strategy.
    """
    from scipy.optimize import linprog  # slow to import, and most commands of the package do not need it

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
        raise ArithmeticError(f"The linear program of a {policies} × {levels} game failed: {solution.message}")
    student, teacher = _normalize(solution.x[:policies]), _normalize(-solution.ineqlin.marginals)
    return Saddle(student, teacher, float(student @ costs @ teacher))


def minimax_regret(payoffs: Matrix) -> Saddle:
    """The student of least worst-case regret, a teacher that holds every student to it, and R* itself."""
    return solve_zero_sum(regret(payoffs))


def _normalize(weights: Strategy) -> Strategy:
    positive = np.maximum(weights, 0)
    return np.asarray(positive / positive.sum())


def lemke_howson(payoffs: Matrix, utility: Matrix, label: int) -> tuple[Strategy, Strategy]:
    """A Nash equilibrium (π, θ) of any base game, by complementary pivoting (Lemke and Howson, 1964).

    Labels 0 … policies − 1 are policies, the others levels. Different starting labels may lead to different equilibria.
    In {x ≥ 0: Uᵀx ≤ 1} and {y ≥ 0: Vy ≤ 1}, with V and U shifted to be positive, each label is a variable of one
    polytope and a slack of the other. Pivots alternate until the first label is complementary again. Ties are broken
    by the lexicographic rule, so that degenerate games cannot cycle.
    """
    policies, levels = payoffs.shape
    V, U = ((matrix - matrix.min()) / (np.ptp(matrix) or 1.0) + 1.0 for matrix in (payoffs, utility))
    tableaus = (
        np.hstack([U.T, np.eye(levels), np.ones((levels, 1))]),
        np.hstack([np.eye(policies), V, np.ones((policies, 1))]),
    )
    bases = np.arange(policies, policies + levels), np.arange(policies)
    slacks = tuple(basis.copy() for basis in bases)
    entering, side = label, 0 if label < policies else 1
    for _ in range(MOST_PIVOTS):
        tableau, basis = tableaus[side], bases[side]
        rows = np.flatnonzero(tableau[:, entering] > 1e-11)
        ratios = tableau[np.ix_(rows, np.append(-1, slacks[side]))] / tableau[rows, entering, None]
        row = rows[np.lexsort(ratios.round(11).T[::-1])[0]]
        tableau[row] /= tableau[row, entering]
        others = np.arange(len(tableau)) != row
        tableau[others] -= np.outer(tableau[others, entering], tableau[row])
        entering, basis[row] = int(basis[row]), entering
        if entering == label:
            break
        side = 1 - side
    student, teacher = np.zeros((2, policies + levels))
    student[bases[0]], teacher[bases[1]] = tableaus[0][:, -1], tableaus[1][:, -1]
    return _normalize(student[:policies]), _normalize(teacher[policies:])
