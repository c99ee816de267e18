"""The paper's example of how much random levels can cost (the tightness half of Corollary 1), on N levels.

              θ_0       θ_1       θ_2 … θ_{N−1}
  π_0          B         0         0
  π_1          0         B         0
  π_2       pB + 2ε      0        pB/2 + ε
  π_3          0      pB + 2ε     pB/2 + ε

Half π_0 and half π_1 has the least worst-case regret, R* = B/2. In PLR's dual curriculum game, let the student play
half π_2 and half π_3, and the curator half θ_0 and half θ_1. The student's worst-case regret is then B(1 − p/2) − ε:
more than R* by (1−p)B/2 − ε, a quarter of what the corollary allows if ε is small.

It is an equilibrium if the pB/2 + ε that π_2 and π_3 earn is at least what π_0 earns: pB/2 from the curator, and
(1−p)B/N because θ_0 is one of the N uniform levels, a term that the paper leaves out. Hence ε ≥ (1−p)B/N. The paper
asks for 0 < ε < (1−p)B/2; with a larger ε, π_2 and π_3 would have the lower worst-case regret. The ends are allowed
here, so that there is an example for p = 1.

`b` stands for the paper's B throughout.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tutelage.games.dual import Profile, WorstCase, check_p, corollary_1
from tutelage.games.matrix import LARGEST, SMALLEST, Matrix, uniform
from tutelage.types import InputError

MOST_LEVELS = 100_000


def least_epsilon(b: float, p: float, levels: int) -> float:
    """(1−p)B/N: with a smaller ε the example's profile is not an equilibrium."""
    _check(b, p, levels)
    return (1 - p) * b / levels


def greatest_epsilon(b: float, p: float) -> float:
    """(1−p)B/2: with a larger ε, half π_0 and half π_1 would not have the least worst-case regret."""
    return (1 - p) * b / 2


def default_epsilon(b: float, p: float, levels: int) -> float:
    """An ε for which the student strictly prefers π_2 and π_3, and its regret is still well above R*."""
    least = least_epsilon(b, p, levels)
    return min(2 * least, (least + greatest_epsilon(b, p)) / 2)


def example_payoffs(b: float, p: float, epsilon: float, levels: int) -> Matrix:
    """V [4, N], the table above."""
    _check(b, p, levels)
    if not 0 <= epsilon <= greatest_epsilon(b, p):
        raise InputError(
            f"The example needs an ε from 0 to (1−p)B/2 = {greatest_epsilon(b, p):g}, not {epsilon:g}; "
            f"for its profile to be an equilibrium choose at least (1−p)B/N = {least_epsilon(b, p, levels):g}."
        )
    V = np.zeros((4, levels))
    V[0, 0] = V[1, 1] = b
    V[2, 0] = V[3, 1] = p * b + 2 * epsilon
    V[2:, 2:] = p * b / 2 + epsilon
    return V


def example_profile(levels: int) -> Profile:
    """The student mixes π_2 and π_3 evenly, the curator θ_0 and θ_1; the generator is uniform."""
    curator = np.zeros(levels)
    curator[:2] = 0.5
    return Profile(np.array([0.0, 0.0, 0.5, 0.5]), curator, uniform(levels))


def example_sweep(b: float, levels: int, shares: Sequence[float]) -> list[WorstCase]:
    """Corollary 1 at the example's profile for each p in `shares`, with the least possible ε."""
    student = example_profile(levels).student
    return [corollary_1(example_payoffs(b, p, least_epsilon(b, p, levels), levels), p, student) for p in shares]


def _check(b: float, p: float, levels: int) -> None:
    check_p(p)
    if not SMALLEST <= b <= LARGEST:
        raise InputError(f"B is the greatest payoff; make it a positive number from {SMALLEST} to {LARGEST}, not {b}.")
    if not 3 <= levels <= MOST_LEVELS:
        raise InputError(f"The example has from 3 to {MOST_LEVELS} levels, not {levels}.")
