"""The theory, checked numerically: dual curriculum games on payoff matrices (paper, section 4).

- `matrix`: base games; regret, the teachers' utilities, minimax regret by linear programming
- `dual`: the dual curriculum game; Nash gaps, PLR's equilibrium, Theorem 1, Corollary 1
- `enumeration`: all equilibria of small games, to check Theorem 1 and Corollary 2 on games at large
- `example`: the paper's table, on which Corollary 1 is tight up to a constant
- `dynamics`: the six methods as learning processes on a matrix
- `figures`: what `tutelage game` draws
"""

from tutelage.games.dual import (
    Approximation,
    DualCurriculumGame,
    DualGaps,
    Profile,
    WorstCase,
    corollary_1,
    plr_equilibrium,
    plr_game,
    robust_game,
    sweep,
    theorem_1,
)
from tutelage.games.dynamics import METHODS, IdealMethod, worst_case_over_time
from tutelage.games.enumeration import equilibria
from tutelage.games.example import (
    example_payoffs,
    example_profile,
    example_sweep,
    greatest_epsilon,
    least_epsilon,
    telling_epsilon,
)
from tutelage.games.matrix import (
    Gaps,
    Matrix,
    Saddle,
    Strategy,
    adversarial,
    base_gaps,
    check_payoffs,
    indifferent,
    minimax_regret,
    read_payoffs,
    regret,
    solve_zero_sum,
    uniform,
    worst_case_regret,
)

__all__ = [
    "METHODS",
    "Approximation",
    "DualCurriculumGame",
    "DualGaps",
    "Gaps",
    "IdealMethod",
    "Matrix",
    "Profile",
    "Saddle",
    "Strategy",
    "WorstCase",
    "adversarial",
    "base_gaps",
    "check_payoffs",
    "corollary_1",
    "equilibria",
    "example_payoffs",
    "example_profile",
    "example_sweep",
    "greatest_epsilon",
    "indifferent",
    "least_epsilon",
    "minimax_regret",
    "plr_equilibrium",
    "plr_game",
    "read_payoffs",
    "regret",
    "robust_game",
    "solve_zero_sum",
    "sweep",
    "telling_epsilon",
    "theorem_1",
    "uniform",
    "worst_case_over_time",
    "worst_case_regret",
]
