"""tutelage: train agents that generalise by letting two teachers choose what they practise on.

Here are the names that most programs need; the rooms below hold the rest.
"""

from tutelage.checks import check_domain
from tutelage.curriculum.curator import Curator
from tutelage.curriculum.curriculum import Curriculum
from tutelage.curriculum.methods import METHODS, Method
from tutelage.curriculum.parts import Parts
from tutelage.evaluation.evaluate import Evaluator
from tutelage.learning.mesh import use_cores
from tutelage.learning.network import Network
from tutelage.learning.ppo import PPO
from tutelage.training.config import Config
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.presets.racing import RacingSetup
from tutelage.training.run import Run
from tutelage.training.train import resume, train
from tutelage.types import Design, Discrete, Domain, Env, InputError, Step, TestLevel

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "PPO",
    "Config",
    "Curator",
    "Curriculum",
    "Design",
    "Discrete",
    "Domain",
    "Env",
    "Evaluator",
    "InputError",
    "MazeSetup",
    "Method",
    "Network",
    "Parts",
    "RacingSetup",
    "Run",
    "Step",
    "TestLevel",
    "check_domain",
    "resume",
    "train",
    "use_cores",
]
