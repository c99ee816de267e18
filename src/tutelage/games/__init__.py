"""The theory, checked numerically: dual curriculum games on payoff matrices (paper, section 3).

- `matrix`: base games; regret, the teachers' utilities, minimax regret by linear programming, equilibria by pivoting
- `dual`: the dual curriculum game; Nash gaps, PLR's equilibrium, Theorem 1, Corollaries 1 and 2
- `example`: the paper's table, on which Corollary 1 is tight up to a constant
- `dynamics`: the six methods as learning processes on a matrix
"""

from tutelage.games.dual import DualCurriculumGame as DualCurriculumGame
from tutelage.games.dual import Profile as Profile
from tutelage.games.dual import WorstCase as WorstCase
from tutelage.games.dual import corollary_1 as corollary_1
from tutelage.games.dual import corollary_2 as corollary_2
from tutelage.games.dual import plr_equilibrium as plr_equilibrium
from tutelage.games.dual import plr_game as plr_game
from tutelage.games.dual import robust_game as robust_game
from tutelage.games.dual import sweep as sweep
from tutelage.games.dual import theorem_1 as theorem_1
from tutelage.games.dynamics import IDEAL_METHODS as IDEAL_METHODS
from tutelage.games.dynamics import IdealMethod as IdealMethod
from tutelage.games.dynamics import worst_case_over_time as worst_case_over_time
from tutelage.games.example import default_epsilon as default_epsilon
from tutelage.games.example import example_payoffs as example_payoffs
from tutelage.games.example import example_profile as example_profile
from tutelage.games.example import example_sweep as example_sweep
from tutelage.games.example import greatest_epsilon as greatest_epsilon
from tutelage.games.example import least_epsilon as least_epsilon
from tutelage.games.matrix import adversarial as adversarial
from tutelage.games.matrix import base_gaps as base_gaps
from tutelage.games.matrix import check_payoffs as check_payoffs
from tutelage.games.matrix import lemke_howson as lemke_howson
from tutelage.games.matrix import minimax_regret as minimax_regret
from tutelage.games.matrix import read_payoffs as read_payoffs
from tutelage.games.matrix import regret as regret
from tutelage.games.matrix import uniform as uniform
from tutelage.games.matrix import worst_case_regret as worst_case_regret
