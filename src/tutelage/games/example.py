"""The paper's example of how much random levels can cost (the tightness half of Corollary 1).

              θ_0       θ_1       θ_2 … θ_n
  π_0          B         0         0
  π_1          0         B         0
  π_2       pB/2 + ε  pB/2 + ε  pB/2 + ε

Half π_0 and half π_1 has the least worst-case regret, R* = B/2. But in PLR's dual curriculum game the
student plays π_2, the curator mixes θ_0 and θ_1 evenly, and the student's worst-case regret is B(1 − p/2) −
ε: more than R* by (1−p)B/2 − ε, a quarter of what the corollary allows if ε is small.

It is an equilibrium if π_2's certain pB/2 + ε is at least what π_0 earns: pB/2 from the curator, but also
(1−p)B/N because θ_0 is one of the N = n + 1 uniform levels. Hence ε ≥ (1−p)B/N. And were ε more than
(1−p)B/2, then π_2 would earn more than B/2 everywhere and R* would fall below B/2, so that the example would
no longer show anything.

`b` stands for the paper's B throughout.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tutelage.games.dual import Profile, WorstCase, check_p, corollary_1
from tutelage.games.matrix import LARGEST, Matrix, uniform
from tutelage.types import InputError


def least_epsilon(b: float, p: float, n: int) -> float:
    """(1−p)B/N: with a smaller ε the example's profile is not an equilibrium."""
    _check(b, p, n)
    return (1 - p) * b / (n + 1)


def greatest_epsilon(b: float, p: float) -> float:
    """(1−p)B/2: with a larger ε, π_2 would have less worst-case regret than half π_0 and half π_1."""
    return (1 - p) * b / 2


def telling_epsilon(b: float, p: float, n: int) -> float:
    """An ε for which the student strictly prefers π_2, yet small enough for its regret to stand out."""
    least = least_epsilon(b, p, n)
    return min(2 * least, (least + greatest_epsilon(b, p)) / 2)


def example_payoffs(b: float, p: float, epsilon: float, n: int) -> Matrix:
    """V [3, n + 1], the table above."""
    _check(b, p, n)
    if not 0 <= epsilon <= greatest_epsilon(b, p):
        raise InputError(
            f"The example needs an ε from 0 to (1−p)B/2 = {greatest_epsilon(b, p):g}, not {epsilon:g}; "
            f"for its profile to be an equilibrium choose at least (1−p)B/N = {least_epsilon(b, p, n):g}."
        )
    V = np.zeros((3, n + 1))
    V[0, 0] = V[1, 1] = b
    V[2] = p * b / 2 + epsilon
    return V


def example_profile(n: int) -> Profile:
    """The student plays π_2, the curator θ_0 and θ_1 evenly, the generator uniformly."""
    curator = np.zeros(n + 1)
    curator[:2] = 0.5
    return Profile(np.array([0.0, 0.0, 1.0]), curator, uniform(n + 1))


def example_sweep(b: float, n: int, shares: Sequence[float]) -> list[WorstCase]:
    """Corollary 1 at the example's profile for each p in `shares`, with the least possible ε."""
    student = example_profile(n).student
    return [corollary_1(example_payoffs(b, p, least_epsilon(b, p, n), n), p, student) for p in shares]


def _check(b: float, p: float, n: int) -> None:
    check_p(p)
    if not 0 < b < LARGEST:
        raise InputError(f"B is the example's greatest payoff; make it a positive number, not {b}.")
    if n < 2:
        raise InputError(f"The example's levels are θ_0 … θ_n; make n 2 or more, not {n}.")
