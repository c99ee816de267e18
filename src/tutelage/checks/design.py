"""Does a design keep its contract? Levels are drawn, built, edited, measured, shown and written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tutelage.checks.calls import (
    called,
    check_picture,
    check_pure,
    compiled,
    differing,
    is_same,
    is_scalar,
    require,
    retyped,
    traced,
    type_of,
)
from tutelage.checks.env import check_env, check_types
from tutelage.types import Design, InputError, Key, Level, supports

LEVELS = 64
"""How many levels are drawn, and built: among this many, even a coarse design makes different ones."""

EDITS = 16
"""How often each level is mutated, one edit after another."""


def check_design(design: Design, *, key: Key | None = None) -> None:
    """Check a design alone: `sample`, and each optional member that it has."""
    key = jax.random.key(0) if key is None else key
    _check_members(design)
    level = traced("design.sample", design.sample, key)
    _check_types(design, level, key)
    check_pure(partial(_first_edit, design), key)
    levels = compiled(jax.vmap(design.sample))(jax.random.split(key, LEVELS))
    _check_variety(levels, "design.sample", "let it draw from its key")
    _check_valid(design, levels, "design.sample")
    for i in range(2):
        _check_shown(design, jax.tree.map(lambda x, i=i: x[i], levels), level)
    if supports(design, "mutate"):
        _check_mutate(design, levels, key)
    if supports(design, "editor"):
        _check_editor(design, key)


def _check_members(design: Design) -> None:
    name = type(design).__name__
    require(
        isinstance(design, Design),
        f"`design` is of type {name}; let {name} inherit from Design in `tutelage.types`, which has defaults for all "
        "members but `sample`.",
    )
    require(
        type(design).sample is not Design.sample,
        f"`design` has no `sample`; define it in {name} as Design in `tutelage.types` describes it.",
    )
    require(
        supports(design, "editor") == supports(design, "build"),
        "`design` has one of `editor` and `build`; define both for methods with a teacher, or none.",
    )


def _check_types(design: Design, level: Level, key: Key) -> None:
    """`valid` and `describe` give scalars; `mutate` and `build` make levels of the type that `sample` makes."""
    valid = traced("design.valid", design.valid, level)
    require(type_of(valid) == "bool[]", f"`design.valid` gives {type_of(valid)}; let it give a single bool[].")
    described = traced("design.describe", design.describe, level)
    require(
        isinstance(described, Mapping) and all(isinstance(name, str) for name in described),
        f"`design.describe` gives {type(described).__name__}; let it give a dict of scalars by name.",
    )
    for name, value in described.items():
        require(
            is_scalar(value, np.generic) and not jnp.issubdtype(value.dtype, jnp.complexfloating),
            f"`design.describe` gives {type_of(value)} for {name!r}; let every metric be a single real number.",
        )
    made = {}
    if supports(design, "mutate"):
        made["design.mutate"] = traced("design.mutate", design.mutate, key, level)
    if supports(design, "editor"):
        check_types(design.editor, lambda _: (), "design.editor")
        state, _ = jax.eval_shape(lambda: design.editor.reset(key, design.editor.load(())))
        made["design.build"] = traced("design.build", design.build, key, state)
    for name, other in made.items():
        if change := retyped(level, other):
            raise InputError(
                f"A level that `{name}` gives is not of the type that `design.sample` gives: {change}; make them alike."
            )


def _first_edit(design: Design, key: Key) -> dict[str, Any]:
    """What each method gives, by name, for a level and its first edit."""
    draw_key, edit_key = jax.random.split(key)
    level = called("design.sample", design.sample, draw_key)
    edited = (
        {"design.mutate": called("design.mutate", design.mutate, edit_key, level)} if supports(design, "mutate") else {}
    )
    return {
        "design.sample": level,
        "design.valid": called("design.valid", design.valid, level),
        "design.describe": called("design.describe", design.describe, level),
    } | edited


def _check_variety(levels: Level, name: str, what_to_do: str) -> None:
    first = jax.tree.map(lambda x: jnp.broadcast_to(x[:1], x.shape), levels)
    require(
        jax.tree.leaves(levels) and not is_same(levels, first),
        f"`{name}` made {LEVELS} equal levels in a row; {what_to_do}.",
    )


def _check_valid(design: Design, levels: Level, name: str) -> None:
    require(
        compiled(jax.vmap(design.valid))(levels).all(),
        f"`{name}` made a level that `design.valid` refuses; make only valid levels, or let `valid` accept them.",
    )


def _check_shown(design: Design, level: Level, like: Level) -> None:
    """One level described, drawn, written to JSON and read back."""
    for name, value in design.describe(level).items():
        require(
            np.isfinite(value),
            f"`design.describe` gives {value} for {name!r}; let every metric be finite, because means are taken.",
        )
    if supports(design, "image"):
        check_picture("design.image", called("design.image", design.image, level))
    text = called("design.to_json", lambda: json.dumps(design.to_json(level)))
    back = called("design.from_json", lambda: design.from_json(json.loads(text)))
    if change := retyped(like, jax.eval_shape(lambda: back)):
        raise InputError(
            f"A level that comes back from JSON is not of the type that `design.sample` gives: {change}; let "
            "`design.from_json` undo `design.to_json`."
        )
    if leaf := differing(level, back, exact=True):
        raise InputError(
            f"A level that comes back from JSON differs in its {leaf}; let `design.from_json` undo `design.to_json`."
        )


def _check_mutate(design: Design, levels: Level, key: Key) -> None:
    def edit(levels: Level, key: Key) -> tuple[Level, Level]:
        edited = jax.vmap(design.mutate)(jax.random.split(key, LEVELS), levels)
        return edited, edited

    _, edited = compiled(partial(lax.scan, edit))(levels, jax.random.split(key, EDITS))
    _check_valid(design, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), edited), "design.mutate")
    before = jax.tree.map(lambda x: jnp.broadcast_to(x, (EDITS, *x.shape)), levels)
    require(
        not is_same(edited, before),
        f"`design.mutate` changed no level in {EDITS} edits of each; let it make a small random edit.",
    )


def _check_editor(design: Design, key: Key) -> None:
    played = check_env(design.editor, lambda _: (), name="design.editor", key=key, episodes=LEVELS)
    require(
        not played.done[:, :-1].any(),
        f"An episode of `design.editor` ended before `design.editor.horizon` = {design.editor.horizon} steps; let all "
        "last exactly as long, because levels are built from the state after the last step.",
    )
    levels = compiled(jax.vmap(design.build))(jax.random.split(key, LEVELS), played.end)
    _check_valid(design, levels, "design.build")
    _check_variety(levels, "design.build", "let the editor's actions decide what is built")
