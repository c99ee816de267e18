"""Checks that a domain of your own keeps the contracts of `types`: an `InputError` says what breaks one and what to do.

E episodes of random actions are played in parallel, T = horizon steps each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from tutelage.types import (
    Design,
    Discrete,
    Domain,
    Env,
    InputError,
    Key,
    Level,
    Obs,
    Space,
    State,
    Step,
    check_described,
    supports,
)

__all__ = ["check_design", "check_domain", "check_env", "check_returns", "check_suites"]

LEVELS = 64
"""How many levels are drawn, and built: enough for different ones even of a coarse design."""

EDITS = 16
"""How often each level is mutated, one edit after another."""

Draw = Callable[[Key], Level]


def check_domain(domain: Domain, *, key: Key | None = None, episodes: int = 8) -> tuple[str, ...]:
    """Check everything that the library needs of a domain; its four parts can also be called alone.

    Args:
        domain: what to check.
        key: the checks draw all that is random from it; by default `jax.random.key(0)`.
        episodes: E, how many levels are played with random actions.

    Returns:
        The methods that the domain supports, by their names on the command line: dr, plr and plr-perp in any case,
        minimax, paired and repaired if its design has an editor, accel if it can mutate levels.

    Raises:
        InputError: at the first violation, with the method and the leaf at fault.
    """
    check_design(domain.design, key=key)
    played = check_env(domain.env, domain.design.sample, key=key, episodes=episodes)
    check_suites(domain, key=key)
    check_returns(domain, played=played)
    taught = ("minimax", "paired", "repaired") if supports(domain.design, "editor", "build") else ()
    return ("dr", "plr", "plr-perp", *taught, *(("accel",) if supports(domain.design, "mutate") else ()))


class Played(NamedTuple):
    """Episodes of random actions; leaves [E, T, ...] unless noted. Entries after an episode's end are undefined."""

    level: Level  # [E, ...]
    end: State  # [E, ...]: after the last step
    reward: jax.Array  # f32
    terminated: jax.Array  # bool
    truncated: jax.Array  # bool
    finite: Any  # bool for each leaf of the observation
    as_begun: jax.Array  # bool: the state equals the episode's first

    @property
    def done(self) -> NDArray[Any]:
        """bool[E, T]"""
        return np.asarray(self.terminated | self.truncated)

    @property
    def alive(self) -> NDArray[Any]:
        """bool[E, T]: up to and including the episode's last step."""
        return np.asarray(np.cumsum(self.done, axis=1) - self.done == 0)


def check_env(env: Env, draw_level: Draw, *, name: str = "env", key: Key | None = None, episodes: int = 8) -> Played:
    """Check an env alone, on levels from `draw_level`; messages call it `name`. Returns the episodes it played."""
    key = jax.random.key(0) if key is None else key
    _check_env_types(env, draw_level, name)
    _check_pure(partial(_first_steps, env, draw_level, name), key)
    played = _played(env, draw_level, key, episodes)
    done, alive = played.done, played.alive

    finite = {"a reward that": np.isfinite(played.reward)}
    for path, leaf in jax.tree_util.tree_leaves_with_path(played.finite):
        finite[f"an observation whose {_leaf_at(path)}"] = np.asarray(leaf)
    for what, values in finite.items():
        _require(
            values[alive].all(),
            f"`{name}.step` gave {what} is infinite or not a number; let it be finite for every action of the declared "
            "space, its bounds too.",
        )
    _require(
        done.any(axis=1).all(),
        f"An episode of `{name}` had not ended after `{name}.horizon` = {env.horizon} steps; let `step` say truncated "
        "when the time limit is reached, or raise the horizon.",
    )
    _require(
        env.horizon == 1 or not done.all(),
        f"Every step of `{name}` said that the episode was over, though `{name}.horizon` is {env.horizon}; let "
        "`terminated` and `truncated` be false until it is.",
    )
    last, begun = done & alive, np.asarray(played.as_begun)
    _require(
        not np.asarray(played.terminated & played.truncated)[last].all(),
        f"Every episode of `{name}` ended both terminated and truncated; say terminated if nothing more can be earned, "
        "and truncated only if a time limit cut the episode short.",
    )
    _require(  # where resets are random, an auto-reset cannot be told from the rules and goes unnoticed
        not (last[:, 1:] & begun[:, 1:] & ~begun[:, :-1]).any(),
        f"With the last step of an episode `{name}.step` went back to the state that it began with; leave out the "
        "auto-reset and give the last state and observation, because a rollout resets by itself.",
    )
    return played


def _check_env_types(env: Env, draw: Draw, name: str) -> Obs:
    """Check the members, and that a scan could carry everything from step to step. Returns the observation's type."""
    for member in ("actions", "horizon", "load", "reset", "step"):
        # the contract only declares `reset` and `step`
        own = hasattr(env, member) and getattr(type(env), member, None) not in (Env.reset, Env.step)
        _require(own, f"`{name}` has no `{member}`; define it in {type(env).__name__} as Env in `tutelage.types` says.")
    _require(
        isinstance(env.actions, Space) and not (isinstance(env.actions, Discrete) and env.actions.n < 1),
        f"`{name}.actions` is {env.actions!r}; make it a Discrete of at least one action, or a Box with bounds.",
    )
    _require(
        isinstance(env.horizon, int) and env.horizon > 0,
        f"`{name}.horizon` is {env.horizon!r}; make it an int of at least 1, the most steps of an episode.",
    )
    key = jax.random.key(0)
    scene = _traced(f"{name}.load", env.load, _traced("draw_level", draw, key))
    begun = _traced(f"{name}.reset", env.reset, key, scene)
    is_pair = isinstance(begun, tuple) and len(begun) == 2
    _require(is_pair, f"`{name}.reset` gives {type(begun).__name__}; let it give the pair (state, obs).")
    state, obs = begun
    stepped = _traced(f"{name}.step", env.step, key, scene, state, jax.eval_shape(partial(_act, env.actions), key))
    _require(
        isinstance(stepped, tuple) and len(stepped) == 2 and isinstance(stepped[1], Step),
        f"`{name}.step` does not give the pair (state, Step); let it give the next state and a `tutelage.types.Step`.",
    )
    remedy = "make both alike, for instance with `jnp.int32(...)` or `.astype`"
    for what, before, after in (("state", state, stepped[0]), ("observation", obs, stepped[1].obs)):
        _require_type(f"The {what} that `{name}.step` gives", after, f"`{name}.reset`", before, remedy)
    for part, dtype in (("reward", np.float32), ("terminated", np.bool_), ("truncated", np.bool_)):
        kind = _type_of(value := getattr(stepped[1], part))
        wanted = f"let it be a scalar {np.dtype(dtype).name}[]"
        _require(_is_scalar(value, dtype), f"`{name}.step` gives a `{part}` of type {kind}; {wanted}.")
    return obs


def _first_steps(env: Env, draw: Draw, name: str, key: Key) -> dict[str, Any]:
    """What each method gives, by name, in the first two steps of an episode."""
    draw_key, reset_key, *step_keys = jax.random.split(key, 4)
    level = _called("draw_level", draw, draw_key)
    scene = _called(f"{name}.load", env.load, level)
    state, obs = _called(f"{name}.reset", env.reset, reset_key, scene)
    given = {"draw_level": level, f"{name}.load": scene, f"{name}.reset": (state, obs), f"{name}.step": []}
    for step_key in step_keys:
        state, step = _called(f"{name}.step", env.step, step_key, scene, state, _act(env.actions, step_key))
        given[f"{name}.step"].append((state, step))
    return given


def _played(env: Env, draw: Draw, key: Key, episodes: int) -> Played:
    """Episodes of random actions, for `horizon` steps even if they end before."""

    def play(key: Key) -> Played:
        draw_key, reset_key, step_key = jax.random.split(key, 3)
        level = draw(draw_key)
        scene = env.load(level)
        begun, _ = env.reset(reset_key, scene)

        def over_step(state: State, key: Key) -> tuple[State, tuple[Any, ...]]:
            act_key, env_key = jax.random.split(key)
            state, step = env.step(env_key, scene, state, _act(env.actions, act_key))
            finite = jax.tree.map(
                lambda x: jnp.isfinite(x).all() if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.bool_(True), step.obs
            )
            # only scalars are kept of each step, because observations can be large and episodes long
            return state, (step.reward, step.terminated, step.truncated, finite, _is_same(state, begun))

        end, found = lax.scan(over_step, begun, jax.random.split(step_key, env.horizon))
        return Played(level, end, *found)

    return _compiled(jax.vmap(play))(jax.random.split(key, episodes))


def _act(space: Space, key: Key) -> jax.Array:
    """A random action. Half of a Box's components are at one of their bounds, because policies reach them."""
    if isinstance(space, Discrete):
        return jax.random.randint(key, (), 0, space.n, jnp.int32)
    low, high = jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32)
    inside_key, which_key = jax.random.split(key)
    inside = jax.random.uniform(inside_key, low.shape, jnp.float32, low, high)
    which = jax.random.randint(which_key, low.shape, 0, 4)
    return jnp.where(which == 0, low, jnp.where(which == 1, high, inside))


def check_design(design: Design, *, key: Key | None = None) -> None:
    """Check a design alone: `sample`, and each optional member that it has."""
    key = jax.random.key(0) if key is None else key
    name = type(design).__name__
    _require(
        isinstance(design, Design),
        f"`design` is of type {name}; let {name} inherit from Design in `tutelage.types`, which has defaults for all "
        "members but `sample`.",
    )
    _require(
        type(design).sample is not Design.sample,
        f"`design` has no `sample`; define it in {name} as Design in `tutelage.types` describes it.",
    )
    _require(
        supports(design, "editor") == supports(design, "build"),
        "`design` has one of `editor` and `build`; define both for methods with a teacher, or none.",
    )
    level = _traced("design.sample", design.sample, key)
    _check_design_types(design, level, key)
    _check_pure(partial(_first_edit, design), key)
    levels = _compiled(jax.vmap(design.sample))(jax.random.split(key, LEVELS))
    _check_levels(design, levels, "design.sample", "let it draw from its key")
    for i in range(2):
        _check_shown(design, jax.tree.map(lambda x, i=i: x[i], levels), level)
    if supports(design, "mutate"):
        _check_mutate(design, levels, key)
    if supports(design, "editor"):
        _check_editor(design, key)


def _check_design_types(design: Design, level: Level, key: Key) -> None:
    """`valid` and `describe` give scalars; `mutate` and `build` make levels of the type that `sample` makes."""
    valid = _type_of(_traced("design.valid", design.valid, level))
    _require(valid == "bool[]", f"`design.valid` gives {valid}; let it give a single bool[].")
    described = _traced("design.describe", design.describe, level)
    _require(
        isinstance(described, Mapping) and all(isinstance(name, str) for name in described),
        f"`design.describe` gives {type(described).__name__}; let it give a dict of scalars by name.",
    )
    check_described(described)
    for name, value in described.items():
        _require_number("design.describe", name, value)
    made = {}
    if supports(design, "mutate"):
        made["design.mutate"] = _traced("design.mutate", design.mutate, key, level)
    if supports(design, "editor"):
        _check_env_types(design.editor, lambda _: (), "design.editor")
        state, _ = jax.eval_shape(lambda: design.editor.reset(key, design.editor.load(())))
        made["design.build"] = _traced("design.build", design.build, key, state)
    for name, other in made.items():
        _require_type(f"A level that `{name}` gives", other, "`design.sample`", level, "make them alike")


def _first_edit(design: Design, key: Key) -> dict[str, Any]:
    """What each method gives, by name, for a level and its first edit."""
    draw_key, edit_key = jax.random.split(key)
    level = _called("design.sample", design.sample, draw_key)
    given = {"design.sample": level}
    for name in ("valid", "describe"):
        given[f"design.{name}"] = _called(f"design.{name}", getattr(design, name), level)
    if supports(design, "mutate"):
        given["design.mutate"] = _called("design.mutate", design.mutate, edit_key, level)
    return given


def _check_levels(design: Design, levels: Level, name: str, what_to_do: str) -> None:
    """Levels [LEVELS, ...] that `name` made must be valid, and not all the same."""
    differ = jax.tree.leaves(levels) and not _is_same(levels, jax.tree.map(lambda x: x[:1], levels))
    _require(differ, f"`{name}` made {LEVELS} equal levels in a row; {what_to_do}.")
    _check_valid(design, levels, name)


def _check_valid(design: Design, levels: Level, name: str) -> None:
    _require(
        _compiled(jax.vmap(design.valid))(levels).all(),
        f"`{name}` made a level that `design.valid` refuses; make only valid levels, or let `valid` accept them.",
    )


def _check_shown(design: Design, level: Level, like: Level) -> None:
    """One level described, drawn, written to JSON and read back."""
    for name, value in design.describe(level).items():
        _require_finite("design.describe", name, value)
    if supports(design, "image"):
        _require_picture("design.image", _called("design.image", design.image, level))
    text = _called("design.to_json", lambda: json.dumps(design.to_json(level)))
    back = _called("design.from_json", lambda: design.from_json(json.loads(text)))
    what, remedy = "A level that comes back from JSON", "let `design.from_json` undo `design.to_json`"
    _require_type(what, jax.eval_shape(lambda: back), "`design.sample`", like, remedy)
    leaf = _differing(level, back, exact=True)
    _require(leaf is None, f"{what} differs in its {leaf}; {remedy}.")


def _check_mutate(design: Design, levels: Level, key: Key) -> None:
    def edit(levels: Level, key: Key) -> tuple[Level, Level]:
        edited = jax.vmap(design.mutate)(jax.random.split(key, LEVELS), levels)
        return edited, edited

    _, edited = _compiled(partial(lax.scan, edit))(levels, jax.random.split(key, EDITS))
    _check_valid(design, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), edited), "design.mutate")
    _require(
        not _is_same(edited, levels),
        f"`design.mutate` changed no level in {EDITS} edits of each; let it make a small random edit.",
    )


def _check_editor(design: Design, key: Key) -> None:
    played = check_env(design.editor, lambda _: (), name="design.editor", key=key, episodes=LEVELS)
    _require(
        not played.done[:, :-1].any(),
        f"An episode of `design.editor` ended before `design.editor.horizon` = {design.editor.horizon} steps; let all "
        "last exactly as long, because levels are built from the state after the last step.",
    )
    levels = _compiled(jax.vmap(design.build))(jax.random.split(key, LEVELS), played.end)
    _check_levels(design, levels, "design.build", "let the editor's actions decide what is built")


def check_suites(domain: Domain, *, key: Key | None = None) -> None:
    """Check that a policy trained in a domain's env can play all its test levels, and that it can be watched there."""
    key = jax.random.key(0) if key is None else key
    design, env = domain.design, domain.env
    obs, level = _check_env_types(env, design.sample, "env"), jax.eval_shape(design.sample, key)
    _check_watched(domain, env, design.sample, key)
    for suite, entries in domain.suites.items():
        names = [entry.name for entry in entries]
        for entry in entries:
            what = f"Test level {entry.name!r} of suite {suite!r}"
            _require(names.count(entry.name) == 1, f"{what} shares its name with another; give each its own.")
            seen = _check_env_types(entry.env, entry.draw, f"{suite}/{entry.name}.env")
            _require(
                entry.env.actions == env.actions,
                f"{what} takes actions {entry.env.actions}, the domain's env {env.actions}; make them the same.",
            )
            change = _retyped(obs, seen)
            _require(not change, f"{what} shows other observations than the domain's env: {change}; make them alike.")
            _check_watched(domain, entry.env, entry.draw, key)
            drawn = jax.eval_shape(entry.draw, key)
            _check_oracle_type(domain, entry.env, drawn)
            # `valid` need not support levels of other shapes than the design's own
            valid = _retyped(level, drawn) or design.valid(entry.draw(key))
            _require(valid, f"{what} draws a level that `design.valid` refuses; draw a valid one.")


def _check_watched(domain: Domain, env: Env, draw: Draw, key: Key) -> None:
    """Check the frame and the measures of an episode's first state."""

    def first(what: Callable[..., Any]) -> Any:
        scene = env.load(draw(key))
        return what(env, scene, env.reset(key, scene)[0])

    if domain.frame:
        _require_picture("frame", _traced("frame", partial(first, domain.frame)))
    for name, measure in domain.measures.items():
        _require_number("measures", name, _traced(f"measures[{name!r}]", partial(first, measure)))
        if env is domain.env:
            _require_finite("measures", name, _compiled(partial(first, measure))())


def check_returns(domain: Domain, *, key: Key | None = None, episodes: int = 8, played: Played | None = None) -> None:
    """Check a domain's `optimal_return` and `solved_above`, on episodes that `check_env` returned or on new ones."""
    if played is None:
        key = jax.random.key(0) if key is None else key
        played = _played(domain.env, domain.design.sample, key, episodes)
    threshold, oracle = domain.solved_above, domain.optimal_return
    _require(
        threshold is None or (isinstance(threshold, int | float) and math.isfinite(threshold)),
        f"`solved_above` is {threshold!r}; make it a finite number, or None if nothing is ever solved.",
    )
    if oracle is None:
        return
    _check_oracle_type(domain, domain.env, jax.tree.map(lambda x: x[0], played.level))
    best = np.asarray(_compiled(jax.vmap(partial(oracle, domain.env)))(played.level))
    _require(
        np.isfinite(best).all(),
        "`optimal_return` is infinite or not a number for a sampled level; let it be finite, also where nothing can "
        "be earned.",
    )
    earned = np.sum(np.asarray(played.reward), axis=1, where=played.alive)
    worst = int(np.argmax(earned - best))
    got, most = earned[worst], best[worst]
    _require(
        got <= most + 1e-4 * (1 + abs(most)),
        f"Random actions earned {got:g} on a level whose `optimal_return` is {most:g}; let it be the most possible.",
    )
    _require(
        threshold is None or (best > threshold).any(),
        f"`solved_above` is {threshold:g}, but the most that can be earned on any of {len(best)} sampled levels is "
        f"{best.max():g}; lower it, or use None if nothing is ever solved.",
    )


def _check_oracle_type(domain: Domain, env: Env, level: Level) -> None:
    if domain.optimal_return is not None:
        value = _traced("optimal_return", partial(domain.optimal_return, env), level)
        _require(
            _is_scalar(value, jnp.floating),
            f"`optimal_return` gives {_type_of(value)}; let it give a single float32[].",
        )


def _require(kept: Any, otherwise: str) -> None:
    if not kept:
        raise InputError(otherwise)


def _require_type(what: str, found: Any, origin: str, like: Any, remedy: str) -> None:
    """`found` must have the leaves of `like`, which comes from `origin`."""
    if change := _retyped(like, found):
        raise InputError(f"{what} is not of the type that {origin} gives: {change}; {remedy}.")


def _require_number(origin: str, name: str, x: Any) -> None:
    _require(
        _is_scalar(x, np.generic) and not jnp.issubdtype(x.dtype, jnp.complexfloating),
        f"`{origin}` gives {_type_of(x)} for {name!r}; let each be a single real number.",
    )


def _require_finite(origin: str, name: str, x: Any) -> None:
    _require(np.isfinite(x), f"`{origin}` gives {x} for {name!r}; let each be finite, because means are taken.")


def _require_picture(name: str, x: Any) -> None:
    _require(
        getattr(x, "dtype", None) == np.uint8 and x.ndim == 3 and x.shape[2] == 3,
        f"`{name}` gives {_type_of(x)}; let it give a picture uint8[H, W, 3].",
    )


def _called(name: str, f: Callable[..., Any], *args: Any) -> Any:
    """What `f` returns; if it fails, an `InputError` about `name`."""
    try:
        return f(*args)
    except Exception as error:
        raise InputError(f"`{name}` {_explained(error)}") from error


def _traced(name: str, f: Callable[..., Any], *args: Any) -> Any:
    """The type of what `f` gives, without computing anything."""
    return _called(name, partial(jax.eval_shape, f), *args)


def _compiled(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` inside `jit`. Each program runs only once or twice here, so compile time matters more than run time."""
    return jax.jit(f, compiler_options={"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False})


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
            return "makes an array whose shape depends on values; use `jnp.where` with three arguments."
        case jax.errors.UnexpectedTracerError():
            return "uses an array that an earlier call left behind; keep everything that lasts in the state."
        case _:
            first_line, _, _ = str(error).partition("\n")
            return f"failed with {type(error).__name__}: {first_line}"


def _check_pure(f: Callable[[Key], dict[str, Any]], key: Key) -> None:
    """Check that `f`, which gives results by method, gives the same again, inside `jit`, and inside `vmap`."""
    keys = jax.random.split(key)
    plain = [f(key) for key in keys]
    impure = (
        "gave two different results for the same arguments, in its {leaf}; draw everything random from its key with "
        "`jax.random`, and keep nothing outside the state"
    )
    untraced = (
        "gives another result inside `jax.jit`, in its {leaf}; use jax.numpy for what depends on its arguments, "
        "because Python and NumPy run only once, when it is traced"
    )
    unbatched = (
        "gives another result inside `jax.vmap`, in its {leaf}; write it for one level, with operations that batch"
    )
    _compare(plain[0], f(keys[0]), impure, exact=True)
    batched = _compiled(jax.vmap(f))(keys)
    for i, expected in enumerate(plain):
        got = jax.tree.map(lambda x, i=i: x[i], batched)
        if _differing(expected, got):
            # compiled only now, to tell `jit` from `vmap`: compiling takes most of the time of all checks
            _compare(expected, _compiled(f)(keys[i]), untraced)
            _compare(expected, got, unbatched)


def _compare(expected: dict[str, Any], got: dict[str, Any], complaint: str, *, exact: bool = False) -> None:
    for method, result in expected.items():
        if leaf := _differing(result, got[method], exact=exact):
            raise InputError(f"`{method}` {complaint.format(leaf=leaf)}.")


def _retyped(before: Any, after: Any) -> str | None:
    """In words, the first leaf whose type is not the same in two trees of `jax.eval_shape`."""
    old, new = (
        {_leaf_at(path): _type_of(x) for path, x in jax.tree_util.tree_leaves_with_path(tree)}
        for tree in (before, after)
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


def _differing(a: Any, b: Any, *, exact: bool = False) -> str | None:
    """The first leaf in which two trees of one structure differ.

    Unless `exact`, floats may differ by rounding, and rounding may change 1 % of the elements of an array, like pixels.
    """
    for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True):
        x, y = _numpy(x), _numpy(y)
        same = (x == y) | ((x != x) & (y != y))
        if not exact and np.issubdtype(x.dtype, np.inexact):
            same |= np.isclose(x, y, rtol=1e-3, atol=1e-3)
        if not same.all() and (exact or same.mean() < 0.99):
            return _leaf_at(path)
    return None


def _numpy(x: Any) -> NDArray[Any]:
    is_key = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)


def _is_same(a: Any, b: Any) -> jax.Array:
    """bool[]: whether all leaves, broadcast, are equal; false for empty trees, which cannot be told apart."""
    same = [jnp.all(x == y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)]
    return jnp.stack(same).all() if same else jnp.array(False)


def _type_of(x: Any) -> str:
    """An array's dtype and shape, such as int32[2]."""
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return type(x).__name__
    weak = "weakly typed " if getattr(x, "weak_type", False) else ""
    return f"{weak}{x.dtype}[{', '.join(map(str, x.shape))}]"


def _is_scalar(x: Any, kind: Any) -> bool:
    """Whether this is one number of a kind, such as `jnp.floating`."""
    return getattr(x, "shape", None) == () and jnp.issubdtype(x.dtype, kind)


def _leaf_at(path: Sequence[Any]) -> str:
    return f"leaf `{jax.tree_util.keystr(tuple(path))}`" if path else "only leaf"
