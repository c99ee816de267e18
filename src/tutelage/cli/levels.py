"""`tutelage levels`: the test levels of a domain, as a table and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from PIL import Image

from tutelage.analysis.results import grouped
from tutelage.analysis.tables import Table, number, show
from tutelage.cli.options import check_file, prepare, seed_key
from tutelage.evaluation.images import png, sheet
from tutelage.training.presets import setup_named
from tutelage.types import Domain, InputError, Key, TestLevel

SIDE = 315
"""Pixels of a picture's longer side, at most."""

Row = tuple[Mapping[str, str], Any]
"""A line of the table by column, and a picture, if the domain draws its levels."""


@dataclass(frozen=True)
class Levels:
    """List a domain's test levels, and draw them on one sheet."""

    domain: str = "maze"
    """maze, racing, or the setup class of an environment of your own, as module:Class."""
    out: Path | None = None
    """The picture to write; by default DOMAIN.png in this directory."""
    seed: int = 0
    """Which of the random levels to draw."""

    def run(self) -> None:
        prepare()
        key = seed_key(self.seed)
        setup: Any = setup_named(self.domain)
        out = self.out or Path(f"{setup.name}.png")
        check_file(out, "--out", ".png")
        rows = list((_tracks if setup.name == "racing" else _levels)(setup.preset("laptop", "dr").setup.domain(), key))
        if not rows:
            raise InputError(f"{setup.name} has no test levels.")
        columns = [*rows[0][0]]
        show(Table(columns, [[line[name] for name in columns] for line, _ in rows]))
        drawn = [(_thumbnail(picture), line["level"]) for line, picture in rows if picture is not None]
        if drawn:
            png(out, sheet(*zip(*drawn, strict=True)))
            print(f"\nA picture of each is in {out}.")


def _levels(domain: Domain, key: Key) -> Iterator[Row]:
    """The test levels of any domain, with the metrics of its design."""
    describe, image = jax.jit(domain.design.describe), getattr(domain.design, "image", None)
    for about, entry, level in _drawn(domain, key):
        measured = {name.replace("_", " "): number(x.item()) for name, x in describe(level).items()}
        yield about | measured | {"time limit": str(entry.env.horizon)}, image and jax.jit(image)(level)


def _tracks(domain: Domain, key: Key) -> Iterator[Row]:
    from tutelage.domains.racing import RacingEnv, track
    from tutelage.domains.racing.image import birds_eye

    @jax.jit
    def inspect(line: Any) -> tuple[jax.Array, jax.Array]:
        return track.steps(line).sum(), abs(track.curvature(line)).max()

    for about, entry, level in _drawn(domain, key):
        line = track.road(level)
        length, curvature = inspect(line)
        measured = {"tiles": str(line.n), "length": f"{length:.0f} m", "tightest bend": f"{1 / curvature:.0f} m"}
        picture = birds_eye(line, extent=float(np.abs(line.points).max()) + 2 * track.HALF_WIDTH)
        assert isinstance(entry.env, RacingEnv)
        yield about | measured | {"time limit": f"{entry.env.frames} frames"}, picture


def _drawn(domain: Domain, key: Key) -> Iterator[tuple[dict[str, str], TestLevel, Any]]:
    """A level of each entry, with its name and the suites that have it: one row for equal rules of the same name."""
    entries = ((suite, entry) for suite, tests in domain.suites.items() for entry in tests)
    for index, same in enumerate(grouped(entries, lambda each: (each[1].name, each[1].env)).values()):
        entry = same[0][1]
        about = {"level": entry.name, "suites": ", ".join(suite for suite, _ in same)}
        yield about, entry, jax.jit(entry.draw)(jax.random.fold_in(key, index))


def _thumbnail(picture: Any) -> np.ndarray[Any, Any]:
    image = Image.fromarray(np.asarray(picture))
    image.thumbnail((SIDE, SIDE))
    return np.asarray(image)
