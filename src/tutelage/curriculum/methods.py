"""Seven methods, each a record: what differs between them is data, and one `step` runs them all (paper, Figure 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tutelage.curriculum import scores, utilities
from tutelage.curriculum.curator import Curator
from tutelage.curriculum.utilities import Utility
from tutelage.types import InputError


@dataclass(frozen=True)
class Method:
    """A dual curriculum: a generator that proposes levels, and maybe a curator for each student that replays them."""

    generator: Literal["uniform", "fixed", "teacher"] = "uniform"
    """Draw levels by domain randomisation, draw from a given set, or let a teacher build them."""
    utility: Utility | None = None
    """What a teacher maximises."""
    students: int = 1
    """2: a protagonist and an antagonist."""
    curator: Curator | None = None
    """Each student has a buffer of its own."""
    train_on_new: bool = True
    """False is the paper's ⊥: students learn from replayed levels only, new ones are just scored."""
    edits: int = 0
    """ACCEL: edit each replayed level this many times and offer the child to the curator."""
    queue: int = 1
    """New levels that a worker gets for one rollout: 1 is repeated, of more each follows an ended episode."""

    def __post_init__(self) -> None:
        if self.generator not in ("uniform", "fixed", "teacher"):
            raise InputError(f"generator is 'uniform', 'fixed' or 'teacher', not {self.generator!r}.")
        if (self.generator == "teacher") != (self.utility is not None):
            raise InputError("A teacher needs a utility to maximise, and only a teacher has one.")
        if self.students not in (1, 2):
            raise InputError(f"There are one or two students, not {self.students}.")
        compares = self.utility in (utilities.regret, utilities.mean_regret)
        if self.students == 1 and (compares or (self.curator and self.curator.score is scores.paired_regret)):
            raise InputError("Regret between two students needs students=2.")
        if self.curator is None and not self.train_on_new:
            raise InputError("Without a curator nothing is replayed: train_on_new=False would never train at all.")
        if self.curator is None and self.edits:
            raise InputError("Edits start from replayed levels: ACCEL needs a curator.")
        if self.edits and self.curator and self.curator.score is scores.paired_regret:
            raise InputError("An edited level is played by one student only: with edits, choose another score.")
        if self.edits < 0 or self.queue < 1:
            raise InputError(f"edits is at least 0 and queue at least 1; got {self.edits} and {self.queue}.")
        if self.queue > 1 and (self.curator or self.utility):
            raise InputError("A score or a utility belongs to one level: with a curator or a teacher, queue must be 1.")

    @property
    def replay_rate(self) -> float:
        """The share of iterations that replay levels; 0 without a curator."""
        return self.curator.replay_rate if self.curator else 0.0

    @property
    def replays(self) -> bool:
        """Whether levels are ever replayed."""
        return self.replay_rate > 0

    def rollouts(self, replay: bool) -> int:
        """How many the protagonist plays in an iteration: ACCEL's has a second one, on the edited levels."""
        return 2 if replay and self.edits else 1

    @property
    def mean_rollouts(self) -> float:
        """The same over iterations of both kinds."""
        return (1 - self.replay_rate) * self.rollouts(False) + self.replay_rate * self.rollouts(True)


DR = Method(queue=32)
"""Domain randomisation: fresh random levels all the time."""

MINIMAX = Method(generator="teacher", utility=utilities.adversarial)
"""A teacher that wants the student to fail."""

PAIRED = Method(generator="teacher", utility=utilities.regret, students=2)
"""A teacher that maximises regret, the antagonist's lead over the protagonist (Dennis et al., 2020)."""

PLR = Method(curator=Curator())
"""Prioritised level replay (Jiang et al., 2021)."""

PLR_PERP = replace(PLR, train_on_new=False)
"""Robust PLR, PLR⊥: PLR without gradients from new levels."""

REPAIRED = replace(PAIRED, curator=Curator(), train_on_new=False)
"""Replay-enhanced PAIRED."""

ACCEL = replace(PLR_PERP, curator=Curator(replay_rate=0.8, score=scores.positive_value_loss), edits=5)
"""Evolve the curator's levels by small edits (Parker-Holder et al., 2022)."""

METHODS = {
    "dr": DR,
    "minimax": MINIMAX,
    "paired": PAIRED,
    "plr": PLR,
    "plr-perp": PLR_PERP,
    "repaired": REPAIRED,
    "accel": ACCEL,
}
"""By the names the command line uses."""
