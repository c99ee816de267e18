"""Does a domain keep the contracts of `types`? A checker for people who bring their own environment.

`check_domain` draws, edits and plays a few levels and raises an `InputError` at the first broken promise: one sentence
that names the method and the leaf, and says what to do. Its four parts can be called alone, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.checks.calls import check_picture, compiled, is_scalar, require, retyped, traced, type_of
from tutelage.checks.design import check_design
from tutelage.checks.env import check_env, check_types, play
from tutelage.types import Domain, Env, InputError, Key, Level, TestLevel, supports

__all__ = ["check_design", "check_domain", "check_env", "check_returns", "check_suites"]


def check_domain(domain: Domain, *, key: Key | None = None, episodes: int = 8) -> tuple[str, ...]:
    """Check everything that the library will ask of a domain.

    Args:
        domain: what to check.
        key: the checks draw all that is random from it; by default `jax.random.key(0)`.
        episodes: E, how many levels are played with random actions.

    Returns:
        The methods that the domain serves, by the names that the command line uses: dr, plr and plr-perp in any case,
        minimax, paired and repaired if its design has an editor, accel if it can mutate levels.

    Raises:
        InputError: at the first promise that is not kept.
    """
    check_design(domain.design, key=key)
    check_env(domain.env, domain.design.sample, key=key, episodes=episodes)
    check_suites(domain, key=key)
    check_returns(domain, key=key, episodes=episodes)
    served = ["dr", "plr", "plr-perp"]
    if supports(domain.design, "editor", "build"):
        served += ["minimax", "paired", "repaired"]
    if supports(domain.design, "mutate"):
        served += ["accel"]
    return tuple(served)


def check_suites(domain: Domain, *, key: Key | None = None) -> None:
    """Check that a policy trained in a domain's env can play all its test levels, and that frames can be drawn."""
    key = jax.random.key(0) if key is None else key
    _check_frame(domain, domain.env, domain.design.sample, key)
    for suite, entries in domain.suites.items():
        names = [entry.name for entry in entries]
        for entry in entries:
            what = f"Test level {entry.name!r} of suite {suite!r}"
            require(names.count(entry.name) == 1, f"{what} shares its name with another; give each its own.")
            _check_test_level(domain, entry, what, f"{suite}/{entry.name}.env", key)


def _check_test_level(domain: Domain, entry: TestLevel, what: str, name: str, key: Key) -> None:
    design, env = domain.design, domain.env
    seen = check_types(entry.env, entry.draw, name)
    require(
        entry.env.actions == env.actions,
        f"{what} takes actions {entry.env.actions}, the domain's env {env.actions}; make them the same.",
    )
    if change := retyped(check_types(env, design.sample, "env"), seen):
        raise InputError(f"{what} shows other observations than the domain's env: {change}; make them alike.")
    _check_frame(domain, entry.env, entry.draw, key)
    if domain.optimal_return is not None:
        _check_oracle_type(partial(domain.optimal_return, entry.env), jax.eval_shape(entry.draw, key))
    if retyped(jax.eval_shape(design.sample, key), jax.eval_shape(entry.draw, key)) is None:
        # only levels of the design's own shapes: `valid` need not know others
        require(design.valid(entry.draw(key)), f"{what} draws a level that `design.valid` refuses; draw a valid one.")


def _check_frame(domain: Domain, env: Env, draw: Callable[[Key], Level], key: Key) -> None:
    frame = domain.frame
    if frame is None:
        return

    def first() -> Any:
        scene = env.load(draw(key))
        return frame(env, scene, env.reset(key, scene)[0])

    check_picture("frame", traced("frame", first))


def check_returns(domain: Domain, *, key: Key | None = None, episodes: int = 8) -> None:
    """Check what a domain says of its returns: the best possible, and when an episode counts as solved."""
    threshold, oracle = domain.solved_above, domain.optimal_return
    require(
        threshold is None or (isinstance(threshold, int | float) and math.isfinite(threshold)),
        f"`solved_above` is {threshold!r}; make it a finite number, or None if nothing is ever solved.",
    )
    if oracle is None:
        return
    keys = jax.random.split(jax.random.key(0) if key is None else key, episodes)
    played = compiled(jax.vmap(partial(play, domain.env, domain.design.sample)))(keys)
    _check_oracle_type(partial(oracle, domain.env), jax.tree.map(lambda x: x[0], played.level))
    best = np.asarray(compiled(jax.vmap(partial(oracle, domain.env)))(played.level))
    require(
        np.isfinite(best).all(),
        "`optimal_return` is infinite or not a number for a sampled level; let it be finite, also where nothing can "
        "be earned.",
    )
    got = np.sum(np.asarray(played.reward), axis=1, where=played.alive)
    worst = int(np.argmax(got - best))
    require(
        got[worst] <= best[worst] + 1e-4 * (1 + abs(best[worst])),
        f"Random actions earned {got[worst]:g} on a level whose `optimal_return` is {best[worst]:g}; let it be the "
        "most that any policy could get.",
    )
    require(
        threshold is None or (best > threshold).any(),
        f"`solved_above` is {threshold:g}, but the most that can be earned on any of {episodes} sampled levels is "
        f"{best.max():g}; lower it, or use None if nothing is ever solved.",
    )


def _check_oracle_type(oracle: Callable[[Level], jax.Array], level: Level) -> None:
    value = traced("optimal_return", oracle, level)
    require(is_scalar(value, jnp.floating), f"`optimal_return` gives {type_of(value)}; let it give a single float32[].")
