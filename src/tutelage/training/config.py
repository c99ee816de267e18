"""What a run is told: plain numbers and names, in a frozen dataclass that is the command line, a file and a record.

A `Setup` says what is practised and by which networks; a `Config` adds a method, how to learn, how long, and what to
keep. `Config.curriculum()` turns it into something that runs. All that cannot work is refused there, in a sentence.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from tyro.conf import Positional, arg

from tutelage.curriculum import scores
from tutelage.curriculum.curator import Curator
from tutelage.curriculum.curriculum import Curriculum
from tutelage.curriculum.methods import METHODS, Method
from tutelage.curriculum.step import Parts
from tutelage.learning.network import Network
from tutelage.learning.ppo import PPO
from tutelage.types import Domain, InputError, Json, TestLevel

MethodName = Literal["dr", "minimax", "paired", "plr", "plr-perp", "repaired", "accel"]

PresetName = Literal["paper", "released", "laptop", "tiny"]

ScoreName = Literal[
    "max-mc",
    "max-mc-start",
    "positive-value-loss",
    "l1-value-loss",
    "paired-regret",
    "true-regret",
    "learnability",
]

SCORES: Mapping[str, scores.Score] = {
    name: getattr(scores, name.replace("-", "_")) for name in typing.get_args(ScoreName)
}
"""By the names the command line uses."""


class Setup(Protocol):
    """A domain and the networks that learn it: a frozen dataclass, whose fields become options of the command line."""

    name: ClassVar[str]

    def domain(self) -> Domain:
        """What is practised."""
        ...

    def student(self, domain: Domain) -> Network:
        """The students' network."""
        ...

    def teacher(self, domain: Domain) -> Network | None:
        """The network of a generator that learns; None if there is no such generator for this domain."""
        ...

    @classmethod
    def preset(cls, name: PresetName, method: MethodName) -> Config[Any]:
        """A complete configuration that works."""
        ...


S = TypeVar("S", bound=Setup)


@dataclass(frozen=True)
class Replay:
    """The curator. A method without one leaves all of these alone."""

    score: ScoreName | None = None
    """How levels are scored (paper: max-mc; in CarRacing positive-value-loss, but max-mc-start for REPAIRED)."""
    capacity: int | None = None
    """K, how many levels the buffer holds (paper: 4000 in mazes, 8000 in CarRacing)."""
    replay_rate: float | None = None
    """The probability that an iteration replays levels instead of trying new ones (paper: 0.5; ACCEL 0.8)."""
    min_fill: float | None = None
    """The share of the buffer that must be filled before anything is replayed (released code: 0.5)."""
    prioritization: Literal["rank", "proportional"] | None = None
    """Replay by a score's rank or in proportion to it (paper: rank in mazes, proportional in CarRacing)."""
    temperature: float | None = None
    """β: near zero only the highest score counts, above one scores matter little (paper: 0.3; CarRacing 1.0)."""
    staleness: float | None = None
    """ρ: the weight of how long ago a level was last scored (paper: 0.3; CarRacing 0.7)."""
    replace_equals: bool | None = None
    """A new level also replaces one of the same score (paper: no; released code: yes)."""

    def curator(self, method: str) -> Curator | None:
        """The method's curator with these changes."""
        base, changes = METHODS[method].curator, _given(self)
        if base is None:
            if changes:
                having = ", ".join(name for name, other in METHODS.items() if other.curator)
                raise InputError(
                    f"{method} has no curator, so {_option(next(iter(changes)))} means nothing: leave it out, or "
                    f"choose a method that replays levels: {having}."
                )
            return None
        if changes.get("min_fill", 0) > 1:
            raise InputError(
                f"min_fill is a share of the buffer, at most 1; {changes['min_fill']} would wait for more levels than "
                f"the buffer can hold and never replay one."
            )
        if "score" in changes:
            changes["score"] = SCORES[changes["score"]]
        return replace(base, **changes)


@dataclass(frozen=True)
class Evaluation:
    """Zero-shot evaluation while training, and at its end."""

    suite: str = ""
    """Which benchmark of the domain; the empty string evaluates nothing."""
    test_levels: tuple[str, ...] = ()
    """Which of its levels; none named are all of them."""
    evaluate_every: int = 0
    """After how many iterations to evaluate; 0: only at the end."""
    episodes: int = 10
    """Episodes on each test level while training (paper: 10)."""
    final_episodes: int | None = None
    """Episodes on each at the end, if not as many (paper: 100)."""
    greedy: bool = False
    """Take the likeliest action instead of drawing one (paper: draws)."""

    @property
    def last_episodes(self) -> int:
        """Episodes on each test level at the end."""
        return self.episodes if self.final_episodes is None else self.final_episodes


@dataclass(frozen=True)
class Storage:
    """What stays on disk."""

    checkpoint_every: int = 50
    """After how many iterations to save all that is needed to go on."""
    keep: int = 2
    """How many of the newest checkpoints to keep."""
    archive_every: int = 0
    """After how many of `archive_unit` to keep a checkpoint for good; 0: never."""
    archive_unit: Literal["iterations", "updates"] = "iterations"
    """Count iterations or gradient updates (the paper compares methods at equal numbers of both)."""
    snapshot_every: int = 0
    """After how many iterations to write down what the curriculum looks like; 0: only at the end."""
    snapshot_levels: int = 64
    """How many levels such a snapshot shows: the highest scores, their ancestors, and a sample of the rest."""


@dataclass(frozen=True)
class Config(Generic[S]):
    """A training run."""

    method: Positional[MethodName]
    """How levels are chosen."""
    setup: Annotated[S, arg(name="")]
    total_steps: int
    """Environment steps of the protagonist after which to stop (paper: 250 million; in CarRacing 5 million)."""
    total_updates: int | None = None
    """Stop earlier, after this many gradient updates of the protagonist."""
    seed: int = 0
    """All randomness comes from this number."""
    num_envs: int = 32
    """Levels played side by side (paper: 32 in mazes, 16 in CarRacing)."""
    num_steps: int = 256
    """Steps of a rollout (paper: 256 in mazes, 125 in CarRacing)."""
    anneal_lr: bool = False
    """Let the learning rates fall linearly to zero over the run (paper: no)."""
    train_on_new: bool | None = None
    """Whether students learn from new levels, too (paper: not in PLR⊥, REPAIRED and ACCEL)."""
    edits: int | None = None
    """Edits that make a child of a replayed level (ACCEL; its released code: 5)."""
    queue: int | None = None
    """New levels a worker gets for one rollout, each following an ended episode; 1 is repeated (DR only)."""
    devices: int = 0
    """Devices that share the levels; 0: as many as there are. Sums are rounded differently for each number."""
    student: Annotated[PPO, arg(name="")] = PPO()
    teacher: PPO = PPO()
    curator: Annotated[Replay, arg(name="")] = Replay()
    evaluation: Annotated[Evaluation, arg(name="")] = Evaluation()
    storage: Annotated[Storage, arg(name="")] = Storage()

    def record(self) -> Method:
        """The method with this configuration's changes."""
        if self.method not in METHODS:
            raise InputError(f"There is no method {self.method!r}; choose one of {', '.join(METHODS)}.")
        changes = {name: x for name in ("train_on_new", "edits", "queue") if (x := getattr(self, name)) is not None}
        method = replace(METHODS[self.method], curator=self.curator.curator(self.method), **changes)
        if not method.train_on_new and not method.replays:
            raise InputError(
                f"{self.method} learns from replayed levels only, and with a replay rate of 0 there are none: raise "
                "replay_rate, or let it train on new levels."
            )
        return method

    def curriculum(self) -> Curriculum:
        """All of it put together, ready to run."""
        self.check()
        method, domain = self.record(), self.setup.domain()
        student, teacher = self.setup.student(domain), None
        student_ppo, teacher_ppo = self.student, self.teacher
        if self.anneal_lr:
            student_ppo = replace(student_ppo, anneal_updates=self._expected_updates(method, student_ppo))
            teacher_ppo = replace(teacher_ppo, anneal_updates=self._expected_updates(method, teacher_ppo, teacher=True))
        if method.generator == "teacher":
            teacher = self.setup.teacher(domain)
            if teacher is None:
                raise InputError(f"{self.method} needs a teacher, and {domain.name} has no network for one.")
        parts = Parts(
            domain, student, student_ppo, teacher, teacher_ppo, num_envs=self.num_envs, num_steps=self.num_steps
        )
        curriculum = Curriculum(method, parts, self.devices or None)
        share = self.num_envs // curriculum.mesh.size
        _check_minibatches("num_minibatches", student_ppo, student, share, self.num_steps)
        if teacher is not None:
            _check_minibatches("teacher.num_minibatches", teacher_ppo, teacher, share, domain.design.editor.horizon)
        self.test_levels(domain)
        return curriculum

    def check(self) -> None:
        """Refuse numbers that mean nothing."""
        least = {
            "total_steps": (self.total_steps, 1),
            "num_envs": (self.num_envs, 1),
            "num_steps": (self.num_steps, 1),
            "episodes": (self.evaluation.episodes, 1),
            "final_episodes": (self.evaluation.last_episodes, 1),
            "checkpoint_every": (self.storage.checkpoint_every, 1),
            "keep": (self.storage.keep, 1),
            "evaluate_every": (self.evaluation.evaluate_every, 0),
            "archive_every": (self.storage.archive_every, 0),
            "snapshot_every": (self.storage.snapshot_every, 0),
            "snapshot_levels": (self.storage.snapshot_levels, 1),
            "devices": (self.devices, 0),
        }
        for name, (value, limit) in least.items():
            if value < limit:
                raise InputError(f"{name} must be at least {limit}, not {value}.")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"seed must be at least 0 and below 2³², where seeds begin to repeat, not {self.seed}.")
        if self.total_updates is not None and self.total_updates < 1:
            raise InputError(f"total_updates must be at least 1, not {self.total_updates}.")
        if self.anneal_lr and (self.student.anneal_updates or self.teacher.anneal_updates):
            raise InputError(
                "anneal_lr lets learning rates fall over the whole run, anneal_updates over some updates: choose one."
            )

    def test_levels(self, domain: Domain) -> tuple[TestLevel, ...]:
        """The benchmark to evaluate on; empty if there is to be none."""
        suite, names = self.evaluation.suite, self.evaluation.test_levels
        if not suite:
            return ()
        if suite not in domain.suites:
            raise InputError(f"{domain.name} has no suite {suite!r}; it has: {', '.join(domain.suites) or 'none'}.")
        levels = {level.name: level for level in domain.suites[suite]}
        if unknown := [name for name in names if name not in levels]:
            raise InputError(f"The suite {suite} has no level {unknown[0]!r}; it has: {', '.join(levels)}.")
        return tuple(levels[name] for name in names) if names else tuple(levels.values())

    def to_json(self) -> dict[str, Json]:
        """As plain data."""
        return {"domain": self.setup.name} | dataclasses.asdict(self)

    def learning(self) -> dict[str, Json]:
        """What decides the course of learning, and must be the same to go on from a checkpoint: by dotted name."""
        passing = (
            {"total_steps", "total_updates", "evaluation", "storage"}
            if not self.anneal_lr
            else {"evaluation", "storage"}
        )
        return flat({name: value for name, value in self.to_json().items() if name not in passing})

    @classmethod
    def from_json(cls, value: Mapping[str, Json], setup: type[S]) -> Config[S]:
        """The inverse of `to_json`.

        Raises:
            InputError: if a field is unknown, missing or of another type.
        """
        if value.get("domain") != setup.name:
            raise InputError(f"This configuration is for the domain {value.get('domain')!r}, not for {setup.name!r}.")
        rest = {name: x for name, x in value.items() if name != "domain"}
        if not isinstance(rest.get("setup"), Mapping):
            raise InputError("A configuration needs 'setup', the options of its domain.")
        return _parsed(cls, rest | {"setup": _parsed(setup, rest["setup"], "setup.")}, "")

    def _expected_updates(self, method: Method, ppo: PPO, teacher: bool = False) -> int:
        """How many gradient updates the run will make, as far as one can know before."""
        learns = 1.0 if method.train_on_new else method.replay_rate  # the share of iterations
        iterations = self.total_steps / (self.num_envs * self.num_steps * method.mean_rollouts)
        if self.total_updates is not None:
            iterations = min(
                iterations, self.total_updates / (learns * self.student.epochs * self.student.num_minibatches)
            )
        share = 1 - method.replay_rate if teacher else learns
        return max(1, math.ceil(iterations * share * ppo.epochs * ppo.num_minibatches))


def differences(one: Mapping[str, Json], other: Mapping[str, Json]) -> list[str]:
    """What differs between two flat configurations, a phrase each."""
    absent = "absent"
    return [
        f"{name}: {one.get(name, absent)} and {other.get(name, absent)}"
        for name in sorted(one.keys() | other.keys())
        if one.get(name, absent) != other.get(name, absent)
    ]


def flat(value: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    """Nested plain data by dotted names; tuples as lists, as JSON would have them."""
    out: dict[str, Json] = {}
    for name, x in value.items():
        if isinstance(x, Mapping):
            out |= flat(x, f"{prefix}{name}.")
        else:
            out[f"{prefix}{name}"] = list(x) if isinstance(x, tuple) else x
    return out


def _check_minibatches(name: str, ppo: PPO, network: Network, share: int, num_steps: int) -> None:
    units, what = (share, "sequences") if network.recurrent else (share * num_steps, "steps")
    if units % ppo.num_minibatches:
        raise InputError(
            f"{name} = {ppo.num_minibatches} does not divide the {units} {what} that each device has of a rollout; "
            f"choose a divisor of {units}."
        )


def _given(options: Any) -> dict[str, Any]:
    """The fields that are not None."""
    return {f.name: x for f in fields(options) if (x := getattr(options, f.name)) is not None}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _parsed(kind: type, value: Mapping[str, Json], prefix: str) -> Any:
    """A dataclass from plain data, field by field."""
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in fields(kind)}
    for name in value:
        if name not in known:
            raise InputError(f"There is no option {prefix}{name}; known here are: {', '.join(known)}.")
    out = {}
    for name, f in known.items():
        if name in value:
            out[name] = _value(hints[name], value[name], f"{prefix}{name}")
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise InputError(f"The option {prefix}{name} is missing.")
    return kind(**out)


def _value(hint: Any, value: Json, name: str) -> Any:
    if isinstance(hint, TypeVar) or dataclasses.is_dataclass(value):
        return value  # the setup, which was read before
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise InputError(f"{name} must be a group of options, not {value!r}.")
        return _parsed(hint, value, f"{name}.")  # type: ignore[arg-type]
    origin, choices = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        return _value(next(choice for choice in choices if choice is not type(None)), value, name)
    if origin is Literal:
        if value not in choices:
            raise InputError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}.")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} must be a list, not {value!r}.")
        return tuple(_value(choices[0], x, name) for x in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise InputError(f"{name} must be of type {hint.__name__}, not {value!r}.")
    return value
