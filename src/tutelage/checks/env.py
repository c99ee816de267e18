"""Does an environment keep its contract? E episodes are played side by side, T = horizon steps each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tutelage.checks.agreement import check_agreement
from tutelage.checks.calls import called, compiled, or_default, require, traced
from tutelage.checks.trees import is_finite, is_same, leaf_at, retyped, type_of
from tutelage.types import Action, Discrete, Env, InputError, Key, Level, Space, State, Step

Draw = Callable[[Key], Level]

_DEFAULTS = {"load", "to_json", "from_json"}
"""What a contract does itself unless a class of one's own does it better. Its other methods are only declared."""


def check_env(env: Env, draw_level: Draw, *, name: str = "env", key: Key | None = None, episodes: int = 8) -> None:
    """Check an environment alone, on levels drawn by `draw_level`; messages call it `name`."""
    play_checked(env, draw_level, name, or_default(key), episodes)


class Played(NamedTuple):
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


def play_checked(env: Env, draw: Draw, name: str, key: Key, episodes: int) -> Played:
    """Check everything about an environment. Returns the episodes that were played for it."""
    check_methods(env, Env, name)
    check_statics(env, name)
    check_types(env, draw, name)
    check_agreement(partial(_first_steps, env, draw, name), jax.random.split(key))
    played = compiled(jax.vmap(partial(play, env, draw)))(jax.random.split(key, episodes))
    _check_finite(played, name)
    _check_ends(played, env.horizon, name)
    _check_no_restart(played, name)
    return played


def check_methods(thing: Any, contract: type, name: str) -> None:
    """Check that a thing has all that its contract declares."""
    for method in (member for member in vars(contract) if not member.startswith("_")):
        declared = inspect.getattr_static(contract, method)
        missing = object()
        found = inspect.getattr_static(thing, method, missing)
        if found is missing or (found is declared and method not in _DEFAULTS):
            raise InputError(
                f"`{name}` has no `{method}`; define it in {type(thing).__name__} as {contract.__name__} in "
                "`tutelage.types` describes it."
            )


def check_statics(env: Env, name: str) -> None:
    """Check the action space and the horizon."""
    actions, horizon = env.actions, env.horizon
    if not isinstance(actions, Space) or (isinstance(actions, Discrete) and actions.n < 1):
        raise InputError(
            f"`{name}.actions` is {actions!r}; make it a Discrete of at least one action, or a Box with bounds."
        )
    if not isinstance(horizon, int) or horizon < 1:
        raise InputError(
            f"`{name}.horizon` is {horizon!r}; make it an int of at least 1, the most steps of an episode."
        )


def check_types(env: Env, draw: Draw, name: str) -> Any:
    """Check that a scan could carry everything from step to step. Returns the observation's type."""
    key = jax.random.key(0)
    level = traced("draw_level", draw, key)
    scene = traced(f"{name}.load", env.load, level)
    begun = traced(f"{name}.reset", env.reset, key, scene)
    require(
        isinstance(begun, tuple) and len(begun) == 2,
        f"`{name}.reset` gives {type(begun).__name__}; let it give the pair (state, obs).",
    )
    state, obs = begun
    stepped = traced(f"{name}.step", env.step, key, scene, state, jax.eval_shape(partial(_act, env.actions), key))
    require(
        isinstance(stepped, tuple) and len(stepped) == 2 and isinstance(stepped[1], Step),
        f"`{name}.step` does not give the pair (state, Step); let it give the next state and a `tutelage.types.Step`.",
    )
    for what, before, after in (("state", state, stepped[0]), ("observation", obs, stepped[1].obs)):
        if change := retyped(before, after):
            raise InputError(
                f"The {what} that `{name}.step` gives is not of the type that `{name}.reset` gives: {change}; make "
                "both alike, for instance with `jnp.int32(...)` or `.astype`."
            )
    for part, dtype in (("reward", jnp.float32), ("terminated", jnp.bool_), ("truncated", jnp.bool_)):
        value = getattr(stepped[1], part)
        require(
            getattr(value, "shape", None) == () and value.dtype == dtype,
            f"`{name}.step` gives a `{part}` of type {type_of(value)}; let it be a scalar {np.dtype(dtype).name}[].",
        )
    return obs


def _first_steps(env: Env, draw: Draw, name: str, key: Key) -> dict[str, Any]:
    """What each method gives, by name, in the first two steps of an episode."""
    draw_key, reset_key, *step_keys = jax.random.split(key, 4)
    level = called("draw_level", draw, draw_key)
    scene = called(f"{name}.load", env.load, level)
    state, obs = called(f"{name}.reset", env.reset, reset_key, scene)
    given = {"draw_level": level, f"{name}.load": scene, f"{name}.reset": (state, obs), f"{name}.step": []}
    for step_key in step_keys:
        action = _act(env.actions, step_key)
        state, step = called(f"{name}.step", env.step, step_key, scene, state, action)
        given[f"{name}.step"].append((state, step))
    return given


def play(env: Env, draw: Draw, key: Key) -> Played:
    """One episode of random actions, for `horizon` steps even if it ends before."""
    draw_key, reset_key, step_key = jax.random.split(key, 3)
    level = draw(draw_key)
    scene = env.load(level)
    begun, _ = env.reset(reset_key, scene)

    def over_step(state: State, key: Key) -> tuple[State, tuple[Any, ...]]:
        act_key, env_key = jax.random.split(key)
        state, step = env.step(env_key, scene, state, _act(env.actions, act_key))
        finite = jax.tree.map(is_finite, step.obs)
        return state, (step.reward, step.terminated, step.truncated, finite, is_same(state, begun))

    # only scalars are kept of each step, because observations can be large and episodes long
    end, kept = lax.scan(over_step, begun, jax.random.split(step_key, env.horizon))
    reward, terminated, truncated, finite, as_begun = kept
    return Played(level, reward, terminated, truncated, finite, as_begun, end)


def _act(space: Space, key: Key) -> Action:
    """A random action. Half of a Box's components are at one of their bounds, which a policy does reach."""
    if isinstance(space, Discrete):
        return jax.random.randint(key, (), 0, space.n, jnp.int32)
    low, high = jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32)
    inside_key, which_key = jax.random.split(key)
    inside = jax.random.uniform(inside_key, low.shape, jnp.float32, low, high)
    which = jax.random.randint(which_key, low.shape, 0, 4)
    return jnp.where(which == 0, low, jnp.where(which == 1, high, inside))


def _check_finite(played: Played, name: str) -> None:
    alive = played.alive
    require(
        bool(np.isfinite(played.reward)[alive].all()),
        f"`{name}.step` gave a reward that is infinite or not a number; let every reward be finite for every action "
        "of the declared space, its bounds too.",
    )
    for path, finite in jax.tree_util.tree_leaves_with_path(played.finite):
        require(
            bool(np.asarray(finite)[alive].all()),
            f"`{name}.step` gave an observation whose {leaf_at(path)} is infinite or not a number; let it be finite "
            "for every action of the declared space, its bounds too.",
        )


def _check_ends(played: Played, horizon: int, name: str) -> None:
    done, last = played.done, played.done & played.alive
    require(
        bool(done.any(axis=1).all()),
        f"An episode of `{name}` had not ended after `{name}.horizon` = {horizon} steps; let `step` say truncated when "
        "the limit of time is reached, or raise the horizon.",
    )
    require(
        horizon == 1 or not done.all(),
        f"Every step of `{name}` said that the episode was over, though `{name}.horizon` is {horizon}; let "
        "`terminated` and `truncated` be false until it is.",
    )
    both = np.asarray(played.terminated & played.truncated)
    require(
        not both[last].all(),
        f"Every episode of `{name}` ended both terminated and truncated; say terminated if nothing more can be earned, "
        "and truncated only if a limit of time cut the episode short.",
    )


def _check_no_restart(played: Played, name: str) -> None:
    """Where resets are random an auto-reset cannot be told from the rules, and goes unnoticed."""
    last, back = played.done & played.alive, np.asarray(played.as_begun)
    returns_at_end = last[:, 1:] & back[:, 1:] & ~back[:, :-1]
    require(
        not returns_at_end.any(),
        f"With the last step of an episode `{name}.step` went back to the state that it began with; leave out the "
        "auto-reset and give the last state and observation, because a rollout resets by itself.",
    )
