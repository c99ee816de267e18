"""The contracts between a domain and everything that trains on it: Level, Env, Design, Domain, Step and the spaces.

An environment here is an *underspecified POMDP* (paper, section 2): the env holds the rules, and the **level** θ holds
everything that may differ from one task to the next. Levels, scenes, states and observations are pytrees of arrays with
static shapes. All methods are pure functions of one level; callers `vmap`.

Shape glossary, used in every docstring:

    S     students (1, or 2: protagonist and antagonist)
    B     envs: levels played in parallel
    T     steps of a rollout
    K     slots of a curator's buffer
    N     levels in the queue of one env
    A     discrete actions
    H, W  height and width of a picture or a grid
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt8
from numpy.typing import NDArray

Key = jax.Array
"""A typed PRNG key, as made by `jax.random.key`."""

Level = Any
"""What distinguishes one task of a domain from another: a pytree of arrays of static shape."""

Scene = Any
"""What `Env.load` makes of a level: data that every step reads and none changes."""

State = Any
"""What changes from step to step."""

Obs = Any
"""What the agent sees: a pytree of arrays."""

Action = Any
"""One action: an integer for `Discrete`, a float vector for `Box`."""

Json = Any
"""What `json.dumps` takes."""


Measure = Callable[[Any, Scene, State], Any]
"""(env, scene, state) → a number, measured before each step of an evaluation."""


class InputError(ValueError):
    """A user's input cannot be used. The message says what is wrong and what to do; no traceback is needed."""


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
    """The result of one environment step, without the next state."""

    obs: Obs
    """The observation after the step. At the end of an episode it is the last one, never the next one's first."""
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    """The task is over; nothing more can be earned."""
    truncated: Bool[Array, ""]
    """The time limit cut the episode short."""


@runtime_checkable
class Env(Protocol):
    """The rules: a family of POMDPs, one for each level. Usually a frozen dataclass that inherits from this class.

    There is no auto-reset: a rollout decides what follows an ended episode.
    """

    # Properties of this class would be the defaults of a dataclass that declares fields of the same names.
    if TYPE_CHECKING:

        @property
        def actions(self) -> Space:
            """What `step` takes."""

        @property
        def horizon(self) -> int:
            """No episode is longer than this many steps."""

    def load(self, level: Level) -> Scene:
        """Expand a level once into what every step reads. The default is the level itself.

        A rollout calls it outside its loop, so that its result (a padded grid, a texture) is neither computed nor
        copied in each step.
        """
        return level

    def reset(self, key: Key, scene: Scene) -> tuple[State, Obs]:
        """Begin an episode."""
        ...

    def step(self, key: Key, scene: Scene, state: State, action: Action) -> tuple[State, Step]:
        """Take one action."""
        ...


class Design:
    """Θ, the space of levels. A design inherits from this class and defines `sample`; all else is optional.

    | member                 | needed by                                         | without it                |
    |------------------------|---------------------------------------------------|---------------------------|
    | `sample`               | all methods                                       |                           |
    | `editor`, `build`      | methods with a teacher: Minimax, PAIRED, REPAIRED | these methods are refused |
    | `mutate`               | methods with edits: ACCEL                         | these methods are refused |
    | `image`                | pictures of levels                                | there are none            |
    | `describe`             | complexity metrics                                | there are none            |
    | `valid`                | checks of levels from files                       | every level is valid      |
    | `to_json`, `from_json` | levels in files                                   | arrays as nested lists    |
    """

    def sample(self, key: Key) -> Level:
        """Draw a level by domain randomization."""
        raise NotImplementedError(f"{type(self).__name__} does not define `sample`.")

    # Without a default: `supports` says whether a design has them.
    if TYPE_CHECKING:

        @property
        def editor(self) -> Env:
            """The teacher's MDP. Its level is (), and every episode lasts exactly `editor.horizon` steps."""

        def build(self, key: Key, state: State) -> Level:
            """Turn the editor's last state into a level."""

        def mutate(self, key: Key, level: Level) -> Level:
            """Make one small edit."""

        def image(self, level: Level) -> UInt8[Array, "H W 3"]:
            """A picture of a level."""

    def valid(self, level: Level) -> Bool[Array, ""]:
        """Whether this is a level at all. It need not be solvable."""
        return jnp.array(True)

    def describe(self, level: Level) -> dict[str, Array]:
        """Complexity metrics, a scalar each. `LEVEL_METRICS` and names that begin with `solved_` are taken."""
        return {}

    def to_json(self, level: Level) -> Json:
        """A level as plain data. The default is a list of the pytree's arrays, each as a list."""
        return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(level)]

    def from_json(self, value: Json) -> Level:
        """The inverse of `to_json`."""
        shapes, tree = jax.tree.flatten(jax.eval_shape(self.sample, jax.random.key(0)))
        if not isinstance(value, list) or len(value) != len(shapes):
            raise InputError(f"A level of this domain is a list of {len(shapes)} arrays; got {value!r:.80}.")
        return jax.tree.unflatten(tree, [_array(leaf, shape) for leaf, shape in zip(value, shapes, strict=True)])


def _array(value: Json, like: jax.ShapeDtypeStruct) -> NDArray[Any]:
    """Nested lists as an array of the given shape and dtype, or an `InputError` if they cannot be one."""
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(value)
            array = found.astype(like.dtype)
            exact = bool(np.all(array == found)) or np.issubdtype(like.dtype, np.inexact)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"The arrays of a level are numbers in lists of equal lengths: {error}.") from None
    if found.shape != like.shape:
        raise InputError(f"An array of this level should have shape {like.shape}, not {found.shape}.")
    if found.dtype.kind not in "biuf" or not exact:
        raise InputError(f"An array of this level should hold numbers of type {like.dtype}; got {value!r:.80}.")
    return array


LEVEL_METRICS = frozenset({"return", "length", "solved", "action_complexity", "true_regret", "score", "distinct"})
"""The metrics of levels that do not come from `Design.describe`; so do those that begin with `solved_`."""


def check_described(names: Iterable[str]) -> None:
    """Refuse names that `Design.describe` may not use."""
    if taken := sorted(name for name in names if name in LEVEL_METRICS or name.startswith("solved_")):
        raise InputError(f"Rename {taken} in design.describe: students' own metrics have these names.")


Member = Literal["editor", "build", "mutate", "image"]
"""An optional member of a design that has no default."""


def supports(design: Design, *members: Member) -> bool:
    """Whether a design has all of these optional members."""
    return all(getattr(design, member, None) is not None for member in members)


def require_support(design: Design, *members: Member, purpose: str) -> None:
    """Raise an `InputError` unless a design has all of these; `purpose` is the subject of the sentence, say "ACCEL"."""
    lacking = [f"`{member}`" for member in members if not supports(design, member)]
    if lacking:
        raise InputError(
            f"{purpose} needs a design with {' and '.join(lacking)}, which {type(design).__name__} lacks; define "
            "what is missing as `tutelage.types.Design` describes it."
        )


@dataclass(frozen=True)
class TestLevel:
    """One entry of a zero-shot suite: a fixed level, or a family from which every episode draws a new one."""

    __test__: ClassVar[bool] = False  # pytest should not take it for a test

    name: str
    env: Env
    draw: Callable[[Key], Level]


EPISODE_COLUMNS = frozenset(
    {
        *("variant", "method", "policy", "seed", "iteration", "steps", "updates", "suite", "level", "episode"),
        *("episodes", "greedy", "solved", "solved_low", "solved_high", "return", "return_error", "length", "optimal"),
        *("regret", "regret_worst_10", "regret_worst_1", "regret_worst_01", "crc32"),
    }
)
"""The columns of tables of evaluations and episodes that are not measures."""


@dataclass(frozen=True)
class Domain:
    """An env, its levels, and what is known about them: everything that the library needs to train on it."""

    name: str
    env: Env
    design: Design
    suites: Mapping[str, tuple[TestLevel, ...]] = field(default_factory=dict)
    """Zero-shot test levels by suite."""
    optimal_return: Callable[[Any, Level], Float[Array, ""]] | None = None
    """An oracle (env, level) → the best return of any policy, where that is known. The env is the domain's own or a
    test level's, which may have another time limit."""
    solved_above: float | None = None
    """An episode counts as solved if its return is greater than this; None if episodes are never solved."""
    frame: Callable[[Any, Scene, State], UInt8[Array, "H W 3"]] | None = None
    """(env, scene, state) → one frame of a video. Without it, videos show the level only."""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    """How a policy behaves, by name: evaluations report each one's mean over the steps of an episode."""

    def __post_init__(self) -> None:
        if taken := sorted(self.measures.keys() & EPISODE_COLUMNS):
            raise InputError(f"Rename {taken} in the measures of {self.name}: tables have columns of these names.")
