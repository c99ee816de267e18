"""Does a domain say the truth of its environment and its design together? Test levels and returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.checks.calls import compiled, or_default, require, traced
from tutelage.checks.env import Played, check_methods, check_statics, check_types, play
from tutelage.checks.trees import retyped, type_of
from tutelage.types import Domain, Env, InputError, Key, Level, TestLevel


def check_suites(domain: Domain, *, key: Key | None = None) -> None:
    """Check that whoever was trained in a domain's env can play all its test levels, and be watched there."""
    key = or_default(key)
    _check_frame(domain, domain.env, domain.design.sample, key)
    for suite, entries in domain.suites.items():
        names = [entry.name for entry in entries]
        for entry in entries:
            what = f"Test level {entry.name!r} of suite {suite!r}"
            require(names.count(entry.name) == 1, f"{what} shares its name with another; give each its own.")
            _check_test_level(domain, entry, what, f"{suite}/{entry.name}.env", key)


def _check_test_level(domain: Domain, entry: TestLevel, what: str, name: str, key: Key) -> None:
    design, env = domain.design, domain.env
    check_methods(entry.env, Env, name)
    check_statics(entry.env, name)
    seen = check_types(entry.env, entry.draw, name)
    require(
        entry.env.actions == env.actions,
        f"{what} takes actions {entry.env.actions}, the domain's env {env.actions}; make them the same.",
    )
    if change := retyped(check_types(env, design.sample, "env"), seen):
        raise InputError(f"{what} shows other observations than the domain's env: {change}; make them alike.")
    _check_frame(domain, entry.env, entry.draw, key)
    if domain.optimal_return is not None:
        _check_oracles_type(partial(domain.optimal_return, entry.env), jax.eval_shape(entry.draw, key))
    if retyped(jax.eval_shape(design.sample, key), jax.eval_shape(entry.draw, key)) is None:
        # only levels of the design's own shapes: `valid` need not know others
        require(
            bool(design.valid(entry.draw(key))), f"{what} draws a level that `design.valid` refuses; draw a valid one."
        )


def _check_frame(domain: Domain, env: Env, draw: Callable[[Key], Level], key: Key) -> None:
    frame = domain.frame
    if frame is None:
        return

    def first() -> Any:
        scene = env.load(draw(key))
        return frame(env, scene, env.reset(key, scene)[0])

    picture = traced("frame", first)
    require(
        getattr(picture, "dtype", None) == np.uint8 and len(picture.shape) == 3 and picture.shape[2] == 3,
        f"`frame` gives {type_of(picture)}; let it give a picture uint8[H, W, 3].",
    )


def check_returns(domain: Domain, *, key: Key | None = None, episodes: int = 8) -> None:
    """Check what a domain says of its returns: the best there is, and when an episode counts as solved."""
    threshold, oracle = domain.solved_above, domain.optimal_return
    if threshold is not None:
        _check_threshold(threshold)
    if oracle is None:
        return
    keys = jax.random.split(or_default(key), episodes)
    played = compiled(jax.vmap(partial(play, domain.env, domain.design.sample)))(keys)
    best = _check_oracle(partial(oracle, domain.env), played)
    if threshold is not None:
        _check_within_reach(threshold, best)


def _check_oracle(oracle: Callable[[Level], jax.Array], played: Played) -> np.ndarray[Any, Any]:
    """f32[E]: the best return on each of the levels played."""
    _check_oracles_type(oracle, jax.tree.map(lambda x: x[0], played.level))
    best = np.asarray(compiled(jax.vmap(oracle))(played.level))
    require(
        bool(np.isfinite(best).all()),
        "`optimal_return` is infinite or not a number for a sampled level; let it be finite, also where nothing can "
        "be earned.",
    )
    got = np.sum(np.asarray(played.reward), axis=1, where=played.alive)
    worst = int(np.argmax(got - best))
    require(
        bool(got[worst] <= best[worst] + 1e-4 * (1 + abs(best[worst]))),
        f"Random actions earned {got[worst]:g} on a level whose `optimal_return` is {best[worst]:g}; let it be the "
        "most that any policy could get.",
    )
    return best


def _check_oracles_type(oracle: Callable[[Level], jax.Array], level: Level) -> None:
    value = traced("optimal_return", oracle, level)
    require(
        getattr(value, "shape", None) == () and jnp.issubdtype(value.dtype, jnp.floating),
        f"`optimal_return` gives {type_of(value)}; let it give a single float32[].",
    )


def _check_threshold(threshold: float) -> None:
    require(
        isinstance(threshold, int | float) and math.isfinite(threshold),
        f"`solved_above` is {threshold!r}; make it a finite number, or None if nothing is ever solved.",
    )


def _check_within_reach(threshold: float, best: np.ndarray[Any, Any]) -> None:
    require(
        bool((best > threshold).any()),
        f"`solved_above` is {threshold:g}, but the most that can be earned on any of {len(best)} sampled levels is "
        f"{best.max():g}; lower it, or use None if nothing is ever solved.",
    )
