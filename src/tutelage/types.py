"""The contracts between the four rooms: Level, Env, Design, Domain, Step and the spaces.

An environment here is an *underspecified POMDP* (paper, section 2): the rules are the environment, everything that
may differ from one task to the next is the **level** θ. Levels, scenes, states and observations are pytrees of
arrays with static shapes. All methods are pure functions of one level; callers `vmap`.

Shape glossary, used in every docstring:

    S     students (1, or 2: protagonist and antagonist)
    B     levels played side by side, one worker each
    T     steps of a rollout
    K     slots of a curator's buffer
    N     levels in the queue of one worker
    A     discrete actions
    H, W  height and width of a picture or a grid
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

Key = jax.Array
"""A typed PRNG key, as made by `jax.random.key`."""

Level = Any
"""Everything that sets one task apart from another of the same domain: a pytree of arrays of static shape."""

Scene = Any
"""What `Env.load` makes of a level: all that steps read and none changes."""

State = Any
"""What changes from step to step."""

Obs = Any
"""What the agent sees: a pytree of arrays."""

Action = Any
"""One action: an integer for `Discrete`, a float vector for `Box`."""

Json = Any
"""What `json.dumps` takes."""


class InputError(ValueError):
    """Something a user gave cannot be used. The message says what is wrong and what to do; no traceback is needed."""


@dataclass(frozen=True)
class Discrete:
    """The actions 0, 1, …, n − 1."""

    n: int


@dataclass(frozen=True)
class Box:
    """Real vectors between `low` and `high`, one pair of bounds for each component."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high) or not all(a < b for a, b in zip(self.low, self.high, strict=True)):
            raise InputError(f"Box needs as many lows as highs, each low below its high; got {self.low}, {self.high}.")


Space = Discrete | Box


class Step(NamedTuple):
    """What one environment step gives back, beside the next state."""

    obs: Obs
    """The observation after the step, also when the episode has ended: its last, never the next one's first."""
    reward: jax.Array  # f32[]
    terminated: jax.Array  # bool[]: the task is over; nothing more can be earned
    truncated: jax.Array  # bool[]: a limit of time cut the episode short


@runtime_checkable
class Env(Protocol):
    """The rules: a family of POMDPs, one for each level. Usually a frozen dataclass whose fields are the statics.

    There is no auto-reset: a rollout decides what follows an ended episode.
    """

    @property
    def actions(self) -> Space:
        """What `step` takes."""
        ...

    @property
    def horizon(self) -> int:
        """No episode is longer than this many steps."""
        ...

    def load(self, level: Level) -> Scene:
        """Expand a level once into what every step reads. The default is the level itself.

        A rollout calls it outside its loop, so that what it makes (a padded grid, a texture) is neither computed
        nor copied in each step.
        """
        return level

    def reset(self, key: Key, scene: Scene) -> tuple[State, Obs]:
        """Begin an episode."""
        ...

    def step(self, key: Key, scene: Scene, state: State, action: Action) -> tuple[State, Step]:
        """Take one action."""
        ...


@runtime_checkable
class Design(Protocol):
    """Θ, the space of levels: everything that makes, changes, measures or shows one."""

    @property
    def editor(self) -> Env:
        """The teacher's MDP. Its level is the empty tuple, and every episode lasts exactly `editor.horizon` steps."""
        ...

    def sample(self, key: Key) -> Level:
        """Draw a level by domain randomisation."""
        ...

    def build(self, key: Key, state: State) -> Level:
        """The level that the editor's last state describes."""
        ...

    def mutate(self, key: Key, level: Level) -> Level:
        """Make one small edit (ACCEL)."""
        ...

    def valid(self, level: Level) -> jax.Array:
        """bool[]: whether this is a level at all. It need not be solvable."""
        ...

    def describe(self, level: Level) -> dict[str, jax.Array]:
        """Measures of complexity, a scalar each."""
        ...

    def image(self, level: Level) -> jax.Array:
        """u8[H, W, 3]: a picture for people."""
        ...

    def to_json(self, level: Level) -> Json:
        """A level as plain data. The default writes the pytree's arrays as lists, in order."""
        return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(level)]

    def from_json(self, value: Json) -> Level:
        """The inverse of `to_json`."""
        like = jax.eval_shape(self.sample, jax.random.key(0))
        shapes, tree = jax.tree.flatten(like)
        if not isinstance(value, list) or len(value) != len(shapes):
            raise InputError(f"A level of this domain is a list of {len(shapes)} arrays; got {value!r:.80}.")
        try:
            leaves = [np.asarray(leaf, shape.dtype) for leaf, shape in zip(value, shapes, strict=True)]
        except (TypeError, ValueError) as error:
            raise InputError(f"The arrays of a level are numbers in lists of equal lengths: {error}.") from None
        for leaf, shape in zip(leaves, shapes, strict=True):
            if leaf.shape != shape.shape:
                raise InputError(f"An array of this level should have shape {shape.shape}, not {leaf.shape}.")
        return jax.tree.unflatten(tree, leaves)


@dataclass(frozen=True)
class TestLevel:
    """One entry of a zero-shot benchmark: a fixed level, or a family from which every episode draws anew."""

    __test__: ClassVar[bool] = False  # pytest should not take it for a test

    name: str
    env: Env
    draw: Callable[[Key], Level]


@dataclass(frozen=True)
class Domain:
    """All that the library needs to know of something to practise on."""

    name: str
    env: Env
    design: Design
    suites: Mapping[str, tuple[TestLevel, ...]]
    """Zero-shot benchmarks by name."""
    optimal_return: Callable[[Any, Level], jax.Array] | None = None
    """An oracle (env, level) → f32[]: the best return that any policy could get, where that is known. The env is the
    domain's own or a test level's, which may have another limit of time."""
    solved_above: float | None = None
    """An episode counts as solved if its return is greater than this; None where nothing is ever solved."""
    frame: Callable[[Any, Scene, State], jax.Array] | None = None
    """(env, scene, state) → u8[H, W, 3]: a moment of an episode for people; without it, films show the level only."""
