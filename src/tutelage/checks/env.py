"""Does an env keep its contract? E episodes of random actions are played side by side, T = horizon steps each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from tutelage.checks.calls import (
    called,
    check_pure,
    compiled,
    is_same,
    is_scalar,
    leaf_at,
    require,
    retyped,
    traced,
    type_of,
)
from tutelage.types import Action, Discrete, Env, InputError, Key, Level, Obs, Space, State, Step

Draw = Callable[[Key], Level]


class Played(NamedTuple):
    """Episodes of random actions; leaves [E, T, ...] unless noted. What follows an episode's end is junk."""

    level: Level  # [E, ...]
    reward: jax.Array  # f32
    terminated: jax.Array  # bool
    truncated: jax.Array  # bool
    finite: Any  # bool for each leaf of the observation
    as_begun: jax.Array  # bool: the state equals the episode's first
    end: State  # [E, ...]: after the last step

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
    check_types(env, draw_level, name)
    check_pure(partial(_first_steps, env, draw_level, name), key)
    played: Played = compiled(jax.vmap(partial(play, env, draw_level)))(jax.random.split(key, episodes))
    _check_finite(played, name)
    _check_ends(played, env.horizon, name)
    return played


def check_types(env: Env, draw: Draw, name: str) -> Obs:
    """Check the members, and that a scan could carry everything from step to step. Returns the observation's type."""
    for member in ("actions", "horizon", "load", "reset", "step"):
        require(  # the contract only declares `reset` and `step`
            hasattr(env, member) and getattr(type(env), member, None) not in (Env.reset, Env.step),
            f"`{name}` has no `{member}`; define it in {type(env).__name__} as Env in `tutelage.types` describes it.",
        )
    require(
        isinstance(env.actions, Space) and not (isinstance(env.actions, Discrete) and env.actions.n < 1),
        f"`{name}.actions` is {env.actions!r}; make it a Discrete of at least one action, or a Box with bounds.",
    )
    require(
        isinstance(env.horizon, int) and env.horizon > 0,
        f"`{name}.horizon` is {env.horizon!r}; make it an int of at least 1, the most steps of an episode.",
    )
    key = jax.random.key(0)
    scene = traced(f"{name}.load", env.load, traced("draw_level", draw, key))
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
            is_scalar(value, dtype),
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
        state, step = called(f"{name}.step", env.step, step_key, scene, state, _act(env.actions, step_key))
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
        finite = jax.tree.map(
            lambda x: jnp.isfinite(x).all() if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.bool_(True), step.obs
        )
        return state, (step.reward, step.terminated, step.truncated, finite, is_same(state, begun))

    # only scalars are kept of each step, because observations can be large and episodes long
    end, (reward, terminated, truncated, finite, as_begun) = lax.scan(
        over_step, begun, jax.random.split(step_key, env.horizon)
    )
    return Played(level, reward, terminated, truncated, finite, as_begun, end)


def _act(space: Space, key: Key) -> Action:
    """A random action. Half of a Box's components are at one of their bounds, because policies reach them."""
    if isinstance(space, Discrete):
        return jax.random.randint(key, (), 0, space.n, jnp.int32)
    low, high = jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32)
    inside_key, which_key = jax.random.split(key)
    inside = jax.random.uniform(inside_key, low.shape, jnp.float32, low, high)
    which = jax.random.randint(which_key, low.shape, 0, 4)
    return jnp.where(which == 0, low, jnp.where(which == 1, high, inside))


def _check_finite(played: Played, name: str) -> None:
    given = {"a reward that": np.isfinite(played.reward)}
    for path, finite in jax.tree_util.tree_leaves_with_path(played.finite):
        given[f"an observation whose {leaf_at(path)}"] = np.asarray(finite)
    for what, finite in given.items():
        require(
            finite[played.alive].all(),
            f"`{name}.step` gave {what} is infinite or not a number; let it be finite for every action of the declared "
            "space, its bounds too.",
        )


def _check_ends(played: Played, horizon: int, name: str) -> None:
    done, last = played.done, played.done & played.alive
    require(
        done.any(axis=1).all(),
        f"An episode of `{name}` had not ended after `{name}.horizon` = {horizon} steps; let `step` say truncated when "
        "the time limit is reached, or raise the horizon.",
    )
    require(
        horizon == 1 or not done.all(),
        f"Every step of `{name}` said that the episode was over, though `{name}.horizon` is {horizon}; let "
        "`terminated` and `truncated` be false until it is.",
    )
    require(
        not np.asarray(played.terminated & played.truncated)[last].all(),
        f"Every episode of `{name}` ended both terminated and truncated; say terminated if nothing more can be earned, "
        "and truncated only if a time limit cut the episode short.",
    )
    # where resets are random, an auto-reset cannot be told from the rules and goes unnoticed
    back = np.asarray(played.as_begun)
    require(
        not (last[:, 1:] & back[:, 1:] & ~back[:, :-1]).any(),
        f"With the last step of an episode `{name}.step` went back to the state that it began with; leave out the "
        "auto-reset and give the last state and observation, because a rollout resets by itself.",
    )
