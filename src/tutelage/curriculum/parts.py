"""What a method is combined with: a domain, networks and how they learn."""

from __future__ import annotations

from dataclasses import dataclass

from tutelage.learning.network import Network
from tutelage.learning.ppo import PPO
from tutelage.types import Domain, InputError


@dataclass(frozen=True)
class Parts:
    """Everything else that a method needs. The defaults are the paper's for mazes."""

    domain: Domain
    student: Network
    ppo: PPO = PPO()
    """How students learn."""
    teacher: Network | None = None
    """The generator's policy, for methods whose generator learns."""
    teacher_ppo: PPO = PPO()
    """How the teacher learns."""
    num_envs: int = 32
    """B: levels played in parallel, one in each env."""
    num_steps: int = 256
    """T: steps of a rollout."""

    def __post_init__(self) -> None:
        if self.num_envs < 1 or self.num_steps < 1:
            raise InputError(f"num_envs and num_steps are at least 1; got {self.num_envs} and {self.num_steps}.")
