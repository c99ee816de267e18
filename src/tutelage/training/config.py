"""The configuration of a run: a frozen dataclass that defines the command line and is saved with the run.

A `Setup` is a domain and its networks; a `Config` adds a method, how to learn, for how long, and what to store.
`Config.curriculum()` builds what runs, and raises an `InputError` if the configuration cannot work.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Generic, Literal, Protocol, TypeVar

import jax
from tyro.conf import OmitArgPrefixes, arg

from tutelage.curriculum.curriculum import Curriculum
from tutelage.curriculum.methods import Method
from tutelage.curriculum.parts import Parts
from tutelage.learning.network import Network
from tutelage.learning.ppo import PPO
from tutelage.training.serialization import flat, from_plain, names_in, to_plain
from tutelage.types import Domain, InputError, Json, TestLevel

PresetName = Literal["paper", "released", "laptop", "tiny"]


class Setup(Protocol):
    """A domain and the networks that learn it: a frozen dataclass, whose fields become options of the command line."""

    name: ClassVar[str]
    # Optionally also `decisive: ClassVar[tuple[str, ...]]`: fields, all numbers, on which other defaults depend. The
    # command line passes those that it was given to `preset`.

    def domain(self) -> Domain:
        """The domain."""

    def student(self, domain: Domain) -> Network:
        """The students' network."""

    def teacher(self, domain: Domain) -> Network | None:
        """The network of a generator that learns; None if there is none for this domain."""

    @classmethod
    def preset(cls, name: PresetName, method: str) -> Config[Any]:
        """A complete configuration that works, for one of the library's methods."""


S = TypeVar("S", bound=Setup)


@dataclass(frozen=True)
class Evaluation:
    """Zero-shot evaluation during training and at its end."""

    suite: str = ""
    """The suite of test levels; an empty string evaluates nothing."""
    test_levels: tuple[str, ...] = ()
    """Which of its levels; all of them if none is named."""
    more_suites: tuple[str, ...] = ()
    """More suites, on all of whose levels to evaluate as well."""
    evaluate_every: int = 0
    """Iterations between two evaluations; 0: only at the end."""
    episodes: int = 10
    """Episodes on each test level during training (released code: 10)."""
    final_episodes: int | None = None
    """Episodes on each test level at the end, if another number (paper: 100 in mazes, 10 in CarRacing)."""
    greedy: bool = False
    """Take the greedy action instead of sampling one (paper: samples)."""

    @property
    def suites(self) -> tuple[str, ...]:
        """All suites, each once."""
        return tuple(dict.fromkeys(name for name in (self.suite, *self.more_suites) if name))

    @property
    def last_episodes(self) -> int:
        """Episodes on each test level at the end."""
        return self.episodes if self.final_episodes is None else self.final_episodes


@dataclass(frozen=True)
class Storage:
    """What is stored in the run directory."""

    checkpoint_every: int = 50
    """Iterations between two checkpoints."""
    keep: int = 2
    """How many of the newest checkpoints to keep."""
    archive_every: int = 0
    """Number of `archive_unit` between two checkpoints that are kept for good; 0: none."""
    archive_unit: Literal["iterations", "updates"] = "iterations"
    """Count iterations or gradient updates (the paper compares methods at equal numbers of both)."""
    snapshot_every: int = 0
    """Iterations between two snapshots of the curriculum's levels; 0: only at the end."""
    snapshot_levels: int = 64
    """How many levels a snapshot shows: the highest scores, their ancestors, and a sample of the rest."""


@dataclass(frozen=True)
class Config(Generic[S]):
    """A training run."""

    method: Annotated[Method, OmitArgPrefixes]
    setup: Annotated[S, OmitArgPrefixes, arg(name="environment")]
    total_steps: int
    """Environment steps of the protagonist (paper: 250 million; in CarRacing 5 million)."""
    total_updates: int | None = None
    """Stop earlier, after this many gradient updates of the protagonist."""
    seed: int = 0
    """All randomness comes from this number."""
    num_envs: int = 32
    """Levels played in parallel, one in each env (paper: 32 in mazes, 16 in CarRacing)."""
    num_steps: int = 256
    """Steps of a rollout (paper: 256 in mazes, 125 in CarRacing)."""
    anneal_lr: bool = False
    """Decay the learning rates linearly to zero over the run (paper: no)."""
    devices: int = 0
    """Devices that share the levels; 0: all. Rounding depends on this number."""
    ppo: Annotated[PPO, OmitArgPrefixes] = PPO()
    teacher_ppo: PPO = PPO()
    evaluation: Annotated[Evaluation, OmitArgPrefixes] = Evaluation()
    storage: Annotated[Storage, OmitArgPrefixes] = Storage()

    def curriculum(self) -> Curriculum:
        """The curriculum of this configuration, ready to run."""
        self.check()
        domain, learns = self.setup.domain(), self.method.generator.learns
        teacher = self.setup.teacher(domain) if learns else None
        ppo, teacher_ppo = self.ppo, self.teacher_ppo
        if self.anneal_lr:
            new, replayed = self.expected_iterations()
            learning = new + replayed if self.method.train_on_new else replayed
            ppo = replace(ppo, anneal_updates=_updates(ppo, learning))
            teacher_ppo = replace(teacher_ppo, anneal_updates=_updates(teacher_ppo, new))
        if learns and teacher is None:
            raise InputError(f"{self.method.name} needs a teacher, and {domain.name} has no network for one.")
        student = self.setup.student(domain)
        parts = Parts(domain, student, ppo, teacher, teacher_ppo, self.num_envs, self.num_steps)
        for suite in self.evaluation.suites:
            self.test_levels(domain, suite)
        curriculum = Curriculum(self.method, parts, self.devices or _most_devices(parts))
        _check_minibatches(parts, curriculum.mesh.size)
        return curriculum

    def check(self) -> None:
        """Refuse numbers that are out of range."""
        lengths = ("total_steps", "total_updates")
        sizes = ("num_envs", "num_steps", "episodes", "final_episodes", "checkpoint_every", "keep", "snapshot_levels")
        values = vars(self) | vars(self.evaluation) | vars(self.storage)
        for name in (*lengths, *sizes, "evaluate_every", "archive_every", "snapshot_every", "devices"):
            value, least = values[name], 1 if name in lengths + sizes else 0
            if value is not None and value < least:
                raise InputError(f"{name} must be at least {least}, not {value}.")
            if value is not None and value >= 2**31 and name not in lengths:
                raise InputError(f"{name} must be below 2³¹, not {value}.")
        check_seed(self.seed)
        if self.anneal_lr and (self.ppo.anneal_updates or self.teacher_ppo.anneal_updates):
            raise InputError("anneal_lr decays over the whole run, anneal_updates over some updates: choose one.")
        if not self.method.train_on_new and not self.method.replays:
            raise InputError(
                f"{self.method.name} learns from replayed levels only, and with a replay rate of 0 there are none: "
                "raise replay_rate, or let it train on new levels."
            )

    def test_levels(self, domain: Domain, suite: str | None = None) -> tuple[TestLevel, ...]:
        """The test levels to evaluate on, of the main suite or of another; empty if there is no suite."""
        suite = self.evaluation.suite if suite is None else suite
        if not suite:
            return ()
        checked_name(f"suite of {domain.name}", suite, domain.suites)
        levels = {level.name: level for level in domain.suites[suite]}
        names = self.evaluation.test_levels if suite == self.evaluation.suite else ()
        return tuple(levels[checked_name(f"level in the suite {suite}", name, levels)] for name in names or levels)

    def to_json(self) -> dict[str, Json]:
        """The configuration as plain data."""
        return to_plain(self)

    def check_saved(self) -> None:
        """Refuse what could be saved, but not be read again."""
        plain = self.to_json()
        try:
            same = Config.from_json(plain, self.allowing()[1:]).to_json() == plain
        except InputError as error:
            raise InputError(f"A run of this configuration could not be read again: {error}") from None
        if not same:
            raise InputError(
                "A run of this configuration would be another when it is read again. Check the `__post_init__` and the "
                "types of your own dataclasses."
            )

    def names(self) -> list[str]:
        """The functions and classes that it names, as `module:name` where they are a user's own."""
        return names_in(self)

    def allowing(self) -> list[str]:
        """The --allow options that a command needs to import a user's own modules in this configuration."""
        modules = sorted({name.partition(":")[0] for name in self.names() if ":" in name})
        return ["--allow", *modules] if modules else []

    def learning(self) -> dict[str, Json]:
        """The options that affect learning, by dotted name; to continue from a checkpoint they must be the same."""
        free = {"evaluation", "storage"} | (set() if self.anneal_lr else {"total_steps", "total_updates"})
        return flat({name: value for name, value in self.to_json().items() if name not in free})

    @classmethod
    def from_json(cls, value: Mapping[str, Json], allow: Iterable[str] = ()) -> Config[Any]:
        """The inverse of `to_json`. Modules of the user's own that it names must be among those allowed."""
        return from_plain(cls, value, "", allow)

    def expected_iterations(self) -> tuple[float, float]:
        """How many iterations on new and on replayed levels the run is expected to have.

        None replays before the buffer is full enough, which distinct levels fill as fast as possible.
        """
        method, curator = self.method, self.method.curator
        filling = math.ceil(max(1.0, curator.min_fill * curator.capacity) / self.num_envs) if curator else 0
        rollouts = self.total_steps / (self.num_envs * self.num_steps)
        begun = min(filling, rollouts)
        after = (rollouts - begun) / method.mean_rollouts
        if self.total_updates is not None:
            learning = self.total_updates / (self.ppo.epochs * self.ppo.num_minibatches)
            if method.train_on_new:
                begun = min(begun, learning)
                after = min(after, learning - begun)
            else:
                after = min(after, learning / method.replay_rate)
        return begun + after * (1 - method.replay_rate), after * method.replay_rate

    def expected_steps(self) -> int:
        """Environment steps of the run, which ends before `total_steps` if `total_updates` are reached earlier."""
        new, replayed = self.expected_iterations()
        return round(self.num_envs * self.num_steps * (new + replayed * self.method.rollouts(True)))


def _updates(ppo: PPO, iterations: float) -> int:
    """Gradient updates in so many iterations, at least 1."""
    return max(1, math.ceil(iterations * ppo.epochs * ppo.num_minibatches))


def with_curator(method: Method, **changes: Any) -> Method:
    """The method with another curator; one without a curator stays as it is."""
    return replace(method, curator=replace(method.curator, **changes)) if method.curator else method


def checked_name(what: str, name: str, known: Iterable[str]) -> str:
    """The name, if it is one of `known`; otherwise an `InputError` that suggests the nearest."""
    known = list(known)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise InputError(f"There is no {what} {name!r}; choose one of {', '.join(known) or 'none'}.{hint}")
    return name


def check_seed(seed: int) -> None:
    """Refuse seeds that do not fit into 32 bits, of which JAX would use only a part."""
    if not 0 <= seed < 2**32:
        raise InputError(f"A seed is a number from 0 to {2**32 - 1}, not {seed}.")


def _check_minibatches(parts: Parts, devices: int) -> None:
    """Refuse numbers of minibatches that do not divide each device's part of a rollout."""
    learners: list[tuple[str, PPO, Network, int]] = [("num_minibatches", parts.ppo, parts.student, parts.num_steps)]
    if parts.teacher is not None:
        horizon = parts.domain.design.editor.horizon
        learners.append(("teacher_ppo.num_minibatches", parts.teacher_ppo, parts.teacher, horizon))
    for name, ppo, network, length in learners:
        units, what = parts.num_envs // devices, "sequences"
        if not network.recurrent:
            units, what = units * length, "steps"
        if units % ppo.num_minibatches:
            raise InputError(
                f"{name} = {ppo.num_minibatches} does not divide the {units} {what} that each device has of a rollout; "
                f"choose a divisor of {units}."
            )


def _most_devices(parts: Parts) -> int:
    """The most devices that can share envs and minibatches evenly."""
    for devices in range(min(jax.device_count(), parts.num_envs), 1, -1):
        if parts.num_envs % devices == 0 and devices % jax.process_count() == 0:
            with suppress(InputError):
                _check_minibatches(parts, devices)
                return devices
    return 1
