"""Seven methods, each a record: what differs between them is data, and one `step` runs them all (paper, Figure 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tutelage.curriculum import scores, utilities
from tutelage.curriculum.curator import Curator
from tutelage.curriculum.generators import Generator, Teacher, Uniform
from tutelage.curriculum.scores import Need, needs_of
from tutelage.types import InputError


@dataclass(frozen=True)
class Method:
    """A dual curriculum: a generator that proposes levels, and maybe a curator for each student that replays them."""

    name: str = "custom"
    """What tables and figures call it."""
    generator: Generator = Uniform()
    """Where new levels come from."""
    students: int = 1
    """2: a protagonist and an antagonist."""
    curator: Curator | None = None
    """How levels are replayed; each student has a buffer of its own."""
    train_on_new: bool = True
    """Whether students also learn from new levels (paper: not in PLR⊥ and REPAIRED, nor in ACCEL)."""
    discounted_returns: bool = False
    """Discount the returns in R_max and in the regret between students by the students' gamma, as the paper defines V
    (released code: no)."""
    edits: int = 0
    """Edits of each replayed level; the result is scored and offered to the curator (ACCEL; its released code: 5)."""

    def __post_init__(self) -> None:
        if not self.name.isprintable() or not self.name.strip() or "/" in self.name or self.name.startswith("."):
            raise InputError(
                f"A method's name goes into tables and paths: a few letters without '/', not {self.name!r}."
            )
        if self.students not in (1, 2):
            raise InputError(f"There are one or two students, not {self.students}.")
        utility = self.generator.utility if isinstance(self.generator, Teacher) else None
        score_needs = needs_of(self.curator.score) if self.curator else frozenset()
        if self.students == 1 and Need.BOTH_STUDENTS in needs_of(utility) | score_needs:
            raise InputError("Regret between two students needs students=2.")
        if Need.BOTH_STUDENTS in score_needs and (self.replays or self.edits):
            raise InputError(
                "This score compares two students, but a replayed or edited level is played by one only: choose "
                "another score, or replay_rate=0 and no edits."
            )
        if self.curator is None and not self.train_on_new:
            raise InputError("Without a curator nothing is replayed: train_on_new=False would never train at all.")
        if self.curator is None and self.edits:
            raise InputError("Edits start from replayed levels: ACCEL needs a curator.")
        if self.edits < 0:
            raise InputError(f"edits is at least 0, not {self.edits}.")
        if self.generator.levels_per_env < 1:
            raise InputError(f"levels_per_env is at least 1, not {self.generator.levels_per_env}.")
        if self.generator.levels_per_env > 1 and self.curator:
            raise InputError("A score belongs to one level: with a curator, levels_per_env must be 1.")

    @property
    def replay_rate(self) -> float:
        """The share of iterations that replay levels; 0 without a curator."""
        return self.curator.replay_rate if self.curator else 0.0

    @property
    def replays(self) -> bool:
        """Whether levels are ever replayed."""
        return self.replay_rate > 0

    def rollouts(self, replay: bool) -> int:
        """Rollouts of the protagonist in an iteration: 2 if edited levels are played as well."""
        return 2 if replay and self.edits else 1

    @property
    def mean_rollouts(self) -> float:
        """The mean of `rollouts` over new and replay iterations."""
        return (1 - self.replay_rate) * self.rollouts(False) + self.replay_rate * self.rollouts(True)


DR = Method("dr", Uniform(levels_per_env=32))
"""Domain randomization: fresh random levels all the time."""

MINIMAX = Method("minimax", Teacher(utilities.adversarial))
"""A teacher that minimizes the student's return."""

PAIRED = Method("paired", Teacher(utilities.regret), students=2)
"""A teacher that maximizes regret, the antagonist's lead over the protagonist (Dennis et al., 2020)."""

PLR = Method("plr", curator=Curator())
"""Prioritized level replay (Jiang, Grefenstette and Rocktäschel, 2021)."""

PLR_PERP = replace(PLR, name="plr-perp", train_on_new=False)
"""Robust PLR, PLR⊥: PLR without gradients from new levels."""

REPAIRED = replace(PAIRED, name="repaired", curator=Curator(), train_on_new=False)
"""Replay-enhanced PAIRED."""

ACCEL = replace(PLR_PERP, name="accel", curator=Curator(replay_rate=0.8, score=scores.positive_value_loss), edits=5)
"""Evolves the curator's levels by small edits (Parker-Holder et al., 2022)."""

METHODS = {method.name: method for method in (DR, MINIMAX, PAIRED, PLR, PLR_PERP, REPAIRED, ACCEL)}
"""All methods by name."""
