"""tutelage: train agents that generalize. A generator proposes levels, and a curator replays them.

These are the names that most programs need. Each is imported when it is first used, so that `import tutelage` loads
neither JAX nor matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tutelage.checks import check_domain as check_domain
    from tutelage.curriculum.curator import Curator as Curator
    from tutelage.curriculum.curriculum import Curriculum as Curriculum
    from tutelage.curriculum.methods import METHODS as METHODS
    from tutelage.curriculum.methods import Method as Method
    from tutelage.curriculum.parts import Parts as Parts
    from tutelage.evaluation.evaluate import Evaluator as Evaluator
    from tutelage.learning.mesh import use_cores as use_cores
    from tutelage.learning.network import Network as Network
    from tutelage.learning.ppo import PPO as PPO
    from tutelage.training.config import Config as Config
    from tutelage.training.presets.maze import MazeSetup as MazeSetup
    from tutelage.training.presets.racing import RacingSetup as RacingSetup
    from tutelage.training.processes import use_processes as use_processes
    from tutelage.training.run import Run as Run
    from tutelage.training.train import resume as resume
    from tutelage.training.train import train as train
    from tutelage.types import Design as Design
    from tutelage.types import Discrete as Discrete
    from tutelage.types import Domain as Domain
    from tutelage.types import Env as Env
    from tutelage.types import InputError as InputError
    from tutelage.types import Step as Step
    from tutelage.types import TestLevel as TestLevel

__version__ = "0.2.0.dev0"

_HOMES = {
    "tutelage.checks": ("check_domain",),
    "tutelage.curriculum.curator": ("Curator",),
    "tutelage.curriculum.curriculum": ("Curriculum",),
    "tutelage.curriculum.methods": ("METHODS", "Method"),
    "tutelage.curriculum.parts": ("Parts",),
    "tutelage.evaluation.evaluate": ("Evaluator",),
    "tutelage.learning.mesh": ("use_cores",),
    "tutelage.learning.network": ("Network",),
    "tutelage.learning.ppo": ("PPO",),
    "tutelage.training.config": ("Config",),
    "tutelage.training.processes": ("use_processes",),
    "tutelage.training.presets.maze": ("MazeSetup",),
    "tutelage.training.presets.racing": ("RacingSetup",),
    "tutelage.training.run": ("Run",),
    "tutelage.training.train": ("resume", "train"),
    "tutelage.types": ("Design", "Discrete", "Domain", "Env", "InputError", "Step", "TestLevel"),
}
"""The public names, by the module that defines them; the imports above tell type checkers the same."""

__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'tutelage' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
