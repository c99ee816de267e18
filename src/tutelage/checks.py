"""Does a domain keep the contracts of `types`? A checker for people who bring their own environment.

`check_domain` draws, edits and plays a few levels and raises an `InputError` at the first broken promise: one sentence
that names the method and the leaf, and says what to do. Its four parts can be called alone, too.

Shapes: E episodes side by side, T = horizon steps each.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tutelage.types import (
    Action,
    Design,
    Discrete,
    Domain,
    Env,
    InputError,
    Key,
    Level,
    Space,
    State,
    Step,
    TestLevel,
)

Draw = Callable[[Key], Level]

LEVELS = 64
"""How many levels are drawn, and built: some designs are coarse, and should not seem to make only one."""

EDITS = 16
"""How often each level is mutated, one edit upon the other."""

_SOON = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Everything runs only once or twice here, so ask the compiler for plain code, soon, instead of quick code, late."""

_DEFAULTS = {"load", "to_json", "from_json"}
"""What a contract does itself unless a class of one's own does it better. Its other methods are only declared."""


def check_domain(domain: Domain, *, key: Key | None = None, episodes: int = 8) -> None:
    """Check everything that the library will ask of a domain.

    Args:
        domain: what to check.
        key: all that is drawn in the checks comes from it; by default `jax.random.key(0)`.
        episodes: E, how many levels are played with random actions.

    Raises:
        InputError: at the first promise that is not kept.
    """
    check_design(domain.design, key=key)
    check_env(domain.env, domain.design.sample, key=key, episodes=episodes)
    check_suites(domain, key=key)
    check_returns(domain, key=key, episodes=episodes)


def check_env(env: Env, draw_level: Draw, *, name: str = "env", key: Key | None = None, episodes: int = 8) -> None:
    """Check an environment alone, on levels drawn by `draw_level`; messages call it `name`."""
    _check_env(env, draw_level, name, _or_default(key), episodes)


def check_design(design: Design, *, key: Key | None = None) -> None:
    """Check a design alone, its editor too."""
    key = _or_default(key)
    _check_methods(design, Design, "design")
    level = _traced("design.sample", design.sample, key)
    _check_judgements(design, level)
    _check_level_types(design, level, key)
    _check_agreement(partial(_first_edit, design), jax.random.split(key))
    levels = _compiled(jax.vmap(design.sample))(jax.random.split(key, LEVELS))
    _check_variety(levels, "design.sample", "let it draw from its key")
    _check_valid(design, levels, "design.sample")
    for i in range(2):
        one = jax.tree.map(lambda x, i=i: x[i], levels)
        _check_described(design, one)
        _check_image(design, one)
        _check_json(design, one, level)
    _check_mutate(design, levels, key)
    _check_editor(design, key)


def check_suites(domain: Domain, *, key: Key | None = None) -> None:
    """Check that whoever was trained in a domain's env can play all its test levels."""
    key = _or_default(key)
    for suite, entries in domain.suites.items():
        names = [entry.name for entry in entries]
        for entry in entries:
            what = f"Test level {entry.name!r} of suite {suite!r}"
            _require(names.count(entry.name) == 1, f"{what} shares its name with another; give each its own.")
            _check_test_level(domain, entry, what, f"{suite}/{entry.name}.env", key)


def check_returns(domain: Domain, *, key: Key | None = None, episodes: int = 8) -> None:
    """Check what a domain says of its returns: the best there is, and when an episode counts as solved."""
    threshold, oracle = domain.solved_above, domain.optimal_return
    if threshold is not None:
        _check_threshold(threshold)
    if oracle is None:
        return
    keys = jax.random.split(_or_default(key), episodes)
    played = _compiled(jax.vmap(partial(_play, domain.env, domain.design.sample)))(keys)
    best = _check_oracle(oracle, played)
    if threshold is not None:
        _check_within_reach(threshold, best)


# Environments.


class _Played(NamedTuple):
    """Episodes of random actions; leaves [E, T, ...] unless noted. What follows an episode's end is junk."""

    level: Level  # [E, ...]
    reward: jax.Array  # f32
    terminated: jax.Array  # bool
    truncated: jax.Array  # bool
    finite: Any  # bool for each leaf of the observation
    as_begun: jax.Array  # bool: the state is the one that the episode began with
    end: State  # [E, ...]: after the last step

    @property
    def done(self) -> np.ndarray[Any, Any]:
        """bool[E, T]"""
        return np.asarray(self.terminated | self.truncated)

    @property
    def alive(self) -> np.ndarray[Any, Any]:
        """bool[E, T]: up to and including the episode's last step."""
        return np.cumsum(self.done, axis=1) - self.done == 0


def _check_env(env: Env, draw: Draw, name: str, key: Key, episodes: int) -> _Played:
    _check_methods(env, Env, name)
    _check_statics(env, name)
    _check_types(env, draw, name)
    _check_agreement(partial(_first_steps, env, draw, name), jax.random.split(key))
    played = _compiled(jax.vmap(partial(_play, env, draw)))(jax.random.split(key, episodes))
    _check_finite(played, name)
    _check_ends(played, env.horizon, name)
    _check_no_restart(played, name)
    return played


def _check_methods(thing: Any, contract: type, name: str) -> None:
    for method in (member for member in vars(contract) if not member.startswith("_")):
        declared = inspect.getattr_static(contract, method)
        missing = object()
        found = inspect.getattr_static(thing, method, missing)
        if found is missing or (found is declared and method not in _DEFAULTS):
            raise InputError(
                f"`{name}` has no `{method}`; define it in {type(thing).__name__} as {contract.__name__} in "
                "`tutelage.types` describes it."
            )


def _check_statics(env: Env, name: str) -> None:
    actions, horizon = env.actions, env.horizon
    if not isinstance(actions, Space) or (isinstance(actions, Discrete) and actions.n < 1):
        raise InputError(
            f"`{name}.actions` is {actions!r}; make it a Discrete of at least one action, or a Box with bounds."
        )
    if not isinstance(horizon, int) or horizon < 1:
        raise InputError(
            f"`{name}.horizon` is {horizon!r}; make it an int of at least 1, the most steps of an episode."
        )


def _check_types(env: Env, draw: Draw, name: str) -> Any:
    """Check that a scan could carry everything from step to step. Returns the observation's type."""
    key = jax.random.key(0)
    level = _traced("draw_level", draw, key)
    scene = _traced(f"{name}.load", env.load, level)
    begun = _traced(f"{name}.reset", env.reset, key, scene)
    _require(
        isinstance(begun, tuple) and len(begun) == 2,
        f"`{name}.reset` gives {type(begun).__name__}; let it give the pair (state, obs).",
    )
    state, obs = begun
    stepped = _traced(f"{name}.step", env.step, key, scene, state, jax.eval_shape(partial(_act, env.actions), key))
    _require(
        isinstance(stepped, tuple) and len(stepped) == 2 and isinstance(stepped[1], Step),
        f"`{name}.step` does not give the pair (state, Step); let it give the next state and a `tutelage.types.Step`.",
    )
    for what, before, after in (("state", state, stepped[0]), ("observation", obs, stepped[1].obs)):
        if change := _retyped(before, after):
            raise InputError(
                f"The {what} that `{name}.step` gives is not of the type that `{name}.reset` gives: {change}; make "
                "both alike, for instance with `jnp.int32(...)` or `.astype`."
            )
    for leaf, dtype in (("reward", jnp.float32), ("terminated", jnp.bool_), ("truncated", jnp.bool_)):
        value = getattr(stepped[1], leaf)
        _require(
            getattr(value, "shape", None) == () and value.dtype == dtype,
            f"`{name}.step` gives a `{leaf}` of type {_type(value)}; let it be a scalar {np.dtype(dtype).name}[].",
        )
    return obs


def _first_steps(env: Env, draw: Draw, name: str, key: Key) -> dict[str, Any]:
    """What each method gives, by name, in the first two steps of an episode."""
    draw_key, reset_key, *step_keys = jax.random.split(key, 4)
    level = _called("draw_level", draw, draw_key)
    scene = _called(f"{name}.load", env.load, level)
    state, obs = _called(f"{name}.reset", env.reset, reset_key, scene)
    given = {"draw_level": level, f"{name}.load": scene, f"{name}.reset": (state, obs), f"{name}.step": []}
    for step_key in step_keys:
        action = _act(env.actions, step_key)
        state, step = _called(f"{name}.step", env.step, step_key, scene, state, action)
        given[f"{name}.step"].append((state, step))
    return given


def _play(env: Env, draw: Draw, key: Key) -> _Played:
    """One episode of random actions, for `horizon` steps even if it ends before."""
    draw_key, reset_key, step_key = jax.random.split(key, 3)
    level = draw(draw_key)
    scene = env.load(level)
    begun, _ = env.reset(reset_key, scene)

    def over_step(state: State, key: Key) -> tuple[State, tuple[Any, ...]]:
        act_key, env_key = jax.random.split(key)
        state, step = env.step(env_key, scene, state, _act(env.actions, act_key))
        finite = jax.tree.map(_is_finite, step.obs)
        return state, (step.reward, step.terminated, step.truncated, finite, _is_same(state, begun))

    # only scalars are kept of each step, because observations can be large and episodes long
    end, kept = lax.scan(over_step, begun, jax.random.split(step_key, env.horizon))
    reward, terminated, truncated, finite, as_begun = kept
    return _Played(level, reward, terminated, truncated, finite, as_begun, end)


def _act(space: Space, key: Key) -> Action:
    """A random action. Half of a Box's components are at one of their bounds, which a policy does reach."""
    if isinstance(space, Discrete):
        return jax.random.randint(key, (), 0, space.n, jnp.int32)
    low, high = jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32)
    inside_key, which_key = jax.random.split(key)
    inside = jax.random.uniform(inside_key, low.shape, jnp.float32, low, high)
    which = jax.random.randint(which_key, low.shape, 0, 4)
    return jnp.where(which == 0, low, jnp.where(which == 1, high, inside))


def _check_finite(played: _Played, name: str) -> None:
    alive = played.alive
    _require(
        bool(np.isfinite(played.reward)[alive].all()),
        f"`{name}.step` gave a reward that is infinite or not a number; let every reward be finite for every action "
        "of the declared space, its bounds too.",
    )
    for path, finite in jax.tree_util.tree_leaves_with_path(played.finite):
        _require(
            bool(np.asarray(finite)[alive].all()),
            f"`{name}.step` gave an observation whose {_leaf(path)} is infinite or not a number; let it be finite for "
            "every action of the declared space, its bounds too.",
        )


def _check_ends(played: _Played, horizon: int, name: str) -> None:
    done, last = played.done, played.done & played.alive
    _require(
        bool(done.any(axis=1).all()),
        f"An episode of `{name}` had not ended after `{name}.horizon` = {horizon} steps; let `step` say truncated when "
        "the limit of time is reached, or raise the horizon.",
    )
    _require(
        horizon == 1 or not done[:, 0].all(),
        f"Every episode of `{name}` ended with its first step, though `{name}.horizon` is {horizon}; let `terminated` "
        "and `truncated` be false until the episode is over.",
    )
    both = np.asarray(played.terminated & played.truncated)
    _require(
        not both[last].all(),
        f"Every episode of `{name}` ended both terminated and truncated; say terminated if nothing more can be earned, "
        "and truncated only if a limit of time cut the episode short.",
    )


def _check_no_restart(played: _Played, name: str) -> None:
    """Where resets are random an auto-reset cannot be told from the rules, and goes unnoticed."""
    last, back = played.done & played.alive, np.asarray(played.as_begun)
    returns_at_end = last[:, 1:] & back[:, 1:] & ~back[:, :-1]
    _require(
        not returns_at_end.any(),
        f"With the last step of an episode `{name}.step` went back to the state that it began with; leave out the "
        "auto-reset and give the last state and observation, because a rollout resets by itself.",
    )


# Designs.


def _check_judgements(design: Design, level: Level) -> None:
    """`valid` and `describe` give scalars."""
    valid = _traced("design.valid", design.valid, level)
    _require(_type(valid) == "bool[]", f"`design.valid` gives {_type(valid)}; let it give a single bool[].")
    described = _traced("design.describe", design.describe, level)
    _require(
        isinstance(described, Mapping) and all(isinstance(name, str) for name in described),
        f"`design.describe` gives {type(described).__name__}; let it give a dict of scalars by name.",
    )
    for name, value in described.items():
        _require(
            getattr(value, "shape", None) == () and not jnp.issubdtype(value.dtype, jnp.complexfloating),
            f"`design.describe` gives {_type(value)} for {name!r}; let every measure be a single real number.",
        )


def _check_level_types(design: Design, level: Level, key: Key) -> None:
    """`mutate` and `build` make levels of the same type as `sample`."""
    _check_methods(design.editor, Env, "design.editor")
    state, _ = _traced("design.editor.reset", lambda: design.editor.reset(key, design.editor.load(())))
    for name, made in (
        ("design.mutate", _traced("design.mutate", design.mutate, key, level)),
        ("design.build", _traced("design.build", design.build, key, state)),
    ):
        if change := _retyped(level, made):
            raise InputError(
                f"A level that `{name}` gives is not of the type that `design.sample` gives: {change}; keep to it."
            )


def _first_edit(design: Design, key: Key) -> dict[str, Any]:
    """What each method gives, by name, for a level and its first edit."""
    draw_key, edit_key = jax.random.split(key)
    level = _called("design.sample", design.sample, draw_key)
    return {
        "design.sample": level,
        "design.mutate": _called("design.mutate", design.mutate, edit_key, level),
        "design.valid": _called("design.valid", design.valid, level),
        "design.describe": _called("design.describe", design.describe, level),
    }


def _check_variety(levels: Level, name: str, what_to_do: str) -> None:
    first = jax.tree.map(lambda x: jnp.broadcast_to(x[:1], x.shape), levels)
    _require(
        bool(jax.tree.leaves(levels)) and not _is_same(levels, first),
        f"`{name}` made {LEVELS} equal levels in a row; {what_to_do}.",
    )


def _check_valid(design: Design, levels: Level, name: str) -> None:
    _require(
        bool(_compiled(jax.vmap(design.valid))(levels).all()),
        f"`{name}` made a level that `design.valid` refuses; make only valid levels, or let `valid` accept them.",
    )


def _check_mutate(design: Design, levels: Level, key: Key) -> None:
    def edit(levels: Level, key: Key) -> tuple[Level, Level]:
        edited = jax.vmap(design.mutate)(jax.random.split(key, LEVELS), levels)
        return edited, edited

    _, edited = _compiled(partial(lax.scan, edit))(levels, jax.random.split(key, EDITS))
    _check_valid(design, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), edited), "design.mutate")
    before = jax.tree.map(lambda x: jnp.broadcast_to(x, (EDITS, *x.shape)), levels)
    _require(
        not _is_same(edited, before),
        f"`design.mutate` changed no level in {EDITS} edits of each; let it make a small random edit.",
    )


def _check_editor(design: Design, key: Key) -> None:
    editor = design.editor
    played = _check_env(editor, lambda _: (), "design.editor", key, LEVELS)
    _require(
        not played.done[:, :-1].any(),
        f"An episode of `design.editor` ended before `design.editor.horizon` = {editor.horizon} steps; let every one "
        "last exactly as long, because levels are built from the state after its last step.",
    )
    levels = _compiled(jax.vmap(design.build))(jax.random.split(key, LEVELS), played.end)
    _check_valid(design, levels, "design.build")
    _check_variety(levels, "design.build", "let the editor's actions decide what is built")


def _check_described(design: Design, level: Level) -> None:
    for name, value in design.describe(level).items():
        _require(
            bool(np.isfinite(value)),
            f"`design.describe` gives {value} for {name!r}; let every measure be finite, for means are taken.",
        )


def _check_image(design: Design, level: Level) -> None:
    picture = _called("design.image", design.image, level)
    _require(
        picture is not None and np.ndim(picture) == 3 and np.shape(picture)[2] == 3 and picture.dtype == np.uint8,
        f"`design.image` gives {_type(picture)}; let it give a picture uint8[H, W, 3].",
    )


def _check_json(design: Design, level: Level, like: Level) -> None:
    text = _called("design.to_json", lambda: json.dumps(design.to_json(level)))
    back = _called("design.from_json", lambda: design.from_json(json.loads(text)))
    if change := _retyped(like, jax.eval_shape(lambda: back)):
        raise InputError(
            f"A level that comes back from JSON is not of the type that `design.sample` gives: {change}; let "
            "`design.from_json` undo `design.to_json`."
        )
    if leaf := _differing(level, back, exact=True):
        raise InputError(
            f"A level that comes back from JSON differs in its {leaf}; let `design.from_json` undo `design.to_json`."
        )


# What a domain says of its environment and its design together.


def _check_test_level(domain: Domain, entry: TestLevel, what: str, name: str, key: Key) -> None:
    design, env = domain.design, domain.env
    _check_methods(entry.env, Env, name)
    _check_statics(entry.env, name)
    seen = _check_types(entry.env, entry.draw, name)
    _require(
        entry.env.actions == env.actions,
        f"{what} takes actions {entry.env.actions}, the domain's env {env.actions}; make them the same.",
    )
    if change := _retyped(_check_types(env, design.sample, "env"), seen):
        raise InputError(f"{what} shows other observations than the domain's env: {change}; make them alike.")
    if _retyped(jax.eval_shape(design.sample, key), jax.eval_shape(entry.draw, key)) is None:
        # only levels of the design's own shapes: `valid` need not know others
        _require(
            bool(design.valid(entry.draw(key))), f"{what} draws a level that `design.valid` refuses; draw a valid one."
        )


def _check_oracle(oracle: Callable[[Level], jax.Array], played: _Played) -> np.ndarray[Any, Any]:
    """f32[E]: the best return on each of the levels played."""
    value = _traced("optimal_return", oracle, jax.tree.map(lambda x: x[0], played.level))
    _require(
        getattr(value, "shape", None) == () and jnp.issubdtype(value.dtype, jnp.floating),
        f"`optimal_return` gives {_type(value)}; let it give a single float32[].",
    )
    best = np.asarray(_compiled(jax.vmap(oracle))(played.level))
    _require(
        bool(np.isfinite(best).all()),
        "`optimal_return` is infinite or not a number for a sampled level; let it be finite, also where nothing can "
        "be earned.",
    )
    got = np.sum(np.asarray(played.reward), axis=1, where=played.alive)
    worst = int(np.argmax(got - best))
    _require(
        bool(got[worst] <= best[worst] + 1e-4 * (1 + abs(best[worst]))),
        f"Random actions earned {got[worst]:g} on a level whose `optimal_return` is {best[worst]:g}; let it be the "
        "most that any policy could get.",
    )
    return best


def _check_threshold(threshold: float) -> None:
    _require(
        isinstance(threshold, int | float) and math.isfinite(threshold),
        f"`solved_above` is {threshold!r}; make it a finite number, or None if nothing is ever solved.",
    )


def _check_within_reach(threshold: float, best: np.ndarray[Any, Any]) -> None:
    _require(
        bool((best > threshold).any()),
        f"`solved_above` is {threshold:g}, but the most that can be earned on any of {len(best)} sampled levels is "
        f"{best.max():g}; lower it, or use None if nothing is ever solved.",
    )


# Tools of all checks.


def _check_agreement(f: Callable[[Key], dict[str, Any]], keys: Key) -> None:
    """Check that what `f` finds, by method, is the same when called again, inside `jit`, and inside `vmap`."""
    plain = [f(key) for key in keys]
    _compare(
        plain[0],
        f(keys[0]),
        "gave two different results for the same arguments, in its {leaf}; draw all that is random from its key with "
        "`jax.random`, and keep nothing outside the state",
        exact=True,
    )
    compiled = _compiled(f)  # once, for the first key: what Python decides then must do for the second, too
    for key, expected in zip(keys, plain, strict=True):
        _compare(
            expected,
            compiled(key),
            "gives another result inside `jax.jit`, in its {leaf}; use jax.numpy for what depends on its arguments, "
            "because Python and NumPy run only once, when it is traced",
        )
    together = _compiled(jax.vmap(f))(keys)
    for i, expected in enumerate(plain):
        _compare(
            expected,
            jax.tree.map(lambda x, i=i: x[i], together),
            "gives another result inside `jax.vmap`, in its {leaf}; write it for one level, with operations that batch",
        )


def _compare(expected: dict[str, Any], got: dict[str, Any], complaint: str, *, exact: bool = False) -> None:
    for method, result in expected.items():
        if leaf := _differing(result, got[method], exact=exact):
            raise InputError(f"`{method}` {complaint.format(leaf=leaf)}.")


def _differing(a: Any, b: Any, *, exact: bool = False) -> str | None:
    """The first leaf in which two trees of one structure differ.

    Unless `exact`, floats may differ by rounding, which may tip a few elements of a large array, like pixels, too.
    """
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True):
        x, y = _plain(x), _plain(y)
        same = (x == y) | ((x != x) & (y != y))
        if not exact and np.issubdtype(x.dtype, np.inexact):
            same |= np.isclose(x, y, rtol=1e-3, atol=1e-3)
        if not same.all() and (exact or same.mean() < 0.99):
            return _leaf(path)
    return None


def _plain(x: Any) -> np.ndarray[Any, Any]:
    """An array in NumPy, which knows no PRNG keys."""
    is_key = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)


def _is_same(a: Any, b: Any) -> jax.Array:
    """bool[]: whether all leaves are equal. An empty tree is never the same: there is nothing to tell it by."""
    if not jax.tree.leaves(a):
        return jnp.bool_(False)
    return jnp.stack(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.all(x == y), a, b))).all()


def _is_finite(x: jax.Array) -> jax.Array:
    """bool[]"""
    return jnp.isfinite(x).all() if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.bool_(True)


def _retyped(before: Any, after: Any) -> str | None:
    """In words, the first leaf whose type is not the same in two trees of `jax.eval_shape`."""
    old, new = (
        {_leaf(path): _type(x) for path, x in jax.tree_util.tree_leaves_with_path(tree)} for tree in (before, after)
    )
    for leaf in old | new:
        if leaf not in new:
            return f"it lacks the {leaf}"
        if leaf not in old:
            return f"it has a {leaf} too many"
        if old[leaf] != new[leaf]:
            return f"its {leaf} is {new[leaf]} instead of {old[leaf]}"
    structures: list[Any] = [jax.tree.structure(tree) for tree in (before, after)]
    if structures[0] != structures[1]:
        return f"it is a {type(after).__name__} instead of a {type(before).__name__}, or holds one"
    return None


def _type(x: Any) -> str:
    """An array's dtype and shape, such as int32[2]."""
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return type(x).__name__
    weak = "weakly typed " if getattr(x, "weak_type", False) else ""
    return f"{weak}{x.dtype}[{', '.join(map(str, x.shape))}]"


def _leaf(path: Sequence[Any]) -> str:
    return f"leaf `{jax.tree_util.keystr(tuple(path))}`" if path else "only leaf"


def _traced(name: str, f: Callable[..., Any], *args: Any) -> Any:
    """The type of what `f` gives, without computing anything."""
    return _called(name, partial(jax.eval_shape, f), *args)


def _called(name: str, f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*args)
    except Exception as error:
        raise InputError(f"`{name}` {_explained(error)}") from error


def _explained(error: Exception) -> str:
    match error:
        case jax.errors.ConcretizationTypeError() | jax.errors.TracerIntegerConversionError():
            return (
                "lets Python decide on an array's value, which is not known when it is traced; use `jnp.where`, "
                "`lax.cond` or `lax.scan`."
            )
        case jax.errors.TracerArrayConversionError():
            return "hands a traced array to NumPy; use jax.numpy instead."
        case jax.errors.NonConcreteBooleanIndexError():
            return (
                "makes an array whose shape depends on values; use `jnp.where` with three arguments to keep it static."
            )
        case jax.errors.UnexpectedTracerError():
            return "uses an array that an earlier call left behind; keep all that lasts in the state."
        case _:
            first_line = (str(error).splitlines() or [""])[0]
            return f"failed with {type(error).__name__}: {first_line}"


def _compiled(f: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(f, compiler_options=_SOON)


def _require(kept: bool, otherwise: str) -> None:
    if not kept:
        raise InputError(otherwise)


def _or_default(key: Key | None) -> Key:
    return jax.random.key(0) if key is None else key
