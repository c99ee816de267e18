"""The theory, checked numerically: dual curriculum games on payoff matrices (paper, section 3).

- `matrix`: base games; regret, the teachers' utilities, minimax regret by linear programming, equilibria by pivoting
- `dual`: the dual curriculum game; Nash gaps, PLR's equilibrium, Theorem 1, Corollaries 1 and 2
- `example`: the paper's table, on which Corollary 1 is tight up to a constant
- `dynamics`: the six methods as learning processes on a matrix
- `figures`: what `tutelage game` draws; it loads matplotlib, so it is imported only when something is drawn
"""

from tutelage.games.dual import (
    DualCurriculumGame,
    Profile,
    WorstCase,
    corollary_1,
    corollary_2,
    plr_equilibrium,
    plr_game,
    robust_game,
    sweep,
    theorem_1,
)
from tutelage.games.dynamics import METHODS, IdealMethod, worst_case_over_time
from tutelage.games.example import (
    default_epsilon,
    example_payoffs,
    example_profile,
    example_sweep,
    greatest_epsilon,
    least_epsilon,
)
from tutelage.games.matrix import (
    adversarial,
    base_gaps,
    check_payoffs,
    lemke_howson,
    minimax_regret,
    read_payoffs,
    regret,
    uniform,
    worst_case_regret,
)

__all__ = [
    "METHODS",
    "DualCurriculumGame",
    "IdealMethod",
    "Profile",
    "WorstCase",
    "adversarial",
    "base_gaps",
    "check_payoffs",
    "corollary_1",
    "corollary_2",
    "default_epsilon",
    "example_payoffs",
    "example_profile",
    "example_sweep",
    "greatest_epsilon",
    "least_epsilon",
    "lemke_howson",
    "minimax_regret",
    "plr_equilibrium",
    "plr_game",
    "read_payoffs",
    "regret",
    "robust_game",
    "sweep",
    "theorem_1",
    "uniform",
    "worst_case_over_time",
    "worst_case_regret",
]
