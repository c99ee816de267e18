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

from tutelage.checks.agreement import check_agreement
from tutelage.checks.calls import called, compiled, or_default, require, traced
from tutelage.checks.env import check_methods, play_checked
from tutelage.checks.trees import differing, is_same, retyped, type_of
from tutelage.types import Design, Env, InputError, Key, Level

LEVELS = 64
"""How many levels are drawn, and built: some designs are coarse, and should not seem to make only one."""

EDITS = 16
"""How often each level is mutated, one edit upon the other."""


def check_design(design: Design, *, key: Key | None = None) -> None:
    """Check a design alone, its editor too."""
    key = or_default(key)
    check_methods(design, Design, "design")
    level = traced("design.sample", design.sample, key)
    _check_judgements(design, level)
    _check_level_types(design, level, key)
    check_agreement(partial(_first_edit, design), jax.random.split(key))
    levels = compiled(jax.vmap(design.sample))(jax.random.split(key, LEVELS))
    _check_variety(levels, "design.sample", "let it draw from its key")
    _check_valid(design, levels, "design.sample")
    for i in range(2):
        one = jax.tree.map(lambda x, i=i: x[i], levels)
        _check_described(design, one)
        _check_image(design, one)
        _check_json(design, one, level)
    _check_mutate(design, levels, key)
    _check_editor(design, key)


def _check_judgements(design: Design, level: Level) -> None:
    """`valid` and `describe` give scalars."""
    valid = traced("design.valid", design.valid, level)
    require(type_of(valid) == "bool[]", f"`design.valid` gives {type_of(valid)}; let it give a single bool[].")
    described = traced("design.describe", design.describe, level)
    require(
        isinstance(described, Mapping) and all(isinstance(name, str) for name in described),
        f"`design.describe` gives {type(described).__name__}; let it give a dict of scalars by name.",
    )
    for name, value in described.items():
        require(
            getattr(value, "shape", None) == () and not jnp.issubdtype(value.dtype, jnp.complexfloating),
            f"`design.describe` gives {type_of(value)} for {name!r}; let every measure be a single real number.",
        )


def _check_level_types(design: Design, level: Level, key: Key) -> None:
    """`mutate` and `build` make levels of the same type as `sample`."""
    check_methods(design.editor, Env, "design.editor")
    state, _ = traced("design.editor.reset", lambda: design.editor.reset(key, design.editor.load(())))
    for name, made in (
        ("design.mutate", traced("design.mutate", design.mutate, key, level)),
        ("design.build", traced("design.build", design.build, key, state)),
    ):
        if change := retyped(level, made):
            raise InputError(
                f"A level that `{name}` gives is not of the type that `design.sample` gives: {change}; keep to it."
            )


def _first_edit(design: Design, key: Key) -> dict[str, Any]:
    """What each method gives, by name, for a level and its first edit."""
    draw_key, edit_key = jax.random.split(key)
    level = called("design.sample", design.sample, draw_key)
    return {
        "design.sample": level,
        "design.mutate": called("design.mutate", design.mutate, edit_key, level),
        "design.valid": called("design.valid", design.valid, level),
        "design.describe": called("design.describe", design.describe, level),
    }


def _check_variety(levels: Level, name: str, what_to_do: str) -> None:
    first = jax.tree.map(lambda x: jnp.broadcast_to(x[:1], x.shape), levels)
    require(
        bool(jax.tree.leaves(levels)) and not is_same(levels, first),
        f"`{name}` made {LEVELS} equal levels in a row; {what_to_do}.",
    )


def _check_valid(design: Design, levels: Level, name: str) -> None:
    require(
        bool(compiled(jax.vmap(design.valid))(levels).all()),
        f"`{name}` made a level that `design.valid` refuses; make only valid levels, or let `valid` accept them.",
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
    editor = design.editor
    played = play_checked(editor, lambda _: (), "design.editor", key, LEVELS)
    require(
        not played.done[:, :-1].any(),
        f"An episode of `design.editor` ended before `design.editor.horizon` = {editor.horizon} steps; let every one "
        "last exactly as long, because levels are built from the state after its last step.",
    )
    levels = compiled(jax.vmap(design.build))(jax.random.split(key, LEVELS), played.end)
    _check_valid(design, levels, "design.build")
    _check_variety(levels, "design.build", "let the editor's actions decide what is built")


def _check_described(design: Design, level: Level) -> None:
    for name, value in design.describe(level).items():
        require(
            bool(np.isfinite(value)),
            f"`design.describe` gives {value} for {name!r}; let every measure be finite, for means are taken.",
        )


def _check_image(design: Design, level: Level) -> None:
    picture = called("design.image", design.image, level)
    require(
        picture is not None and np.ndim(picture) == 3 and np.shape(picture)[2] == 3 and picture.dtype == np.uint8,
        f"`design.image` gives {type_of(picture)}; let it give a picture uint8[H, W, 3].",
    )


def _check_json(design: Design, level: Level, like: Level) -> None:
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
