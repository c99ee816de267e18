"""`tutelage levels`: the test levels of a domain, as a table and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tutelage.analysis.tables import Table, number, show
from tutelage.cli.options import check_file, prepare, seed_key
from tutelage.evaluation.images import png, sheet
from tutelage.training.presets import setup_named
from tutelage.types import Domain, InputError, Key, TestLevel

SIDE = 315
"""About how many pixels wide each maze is drawn; the largest are wider, so that their corridors can be seen."""

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
        rows = list({"maze": _mazes, "racing": _tracks}.get(setup.name, _levels)(setup, key))
        if not rows:
            raise InputError(f"{setup.name} has no test levels.")
        columns = [*rows[0][0]]
        show(Table(columns, [[line[name] for name in columns] for line, _ in rows]))
        drawn = [(np.asarray(picture), line["level"]) for line, picture in rows if picture is not None]
        if drawn:
            png(out, sheet(*zip(*drawn, strict=True)))
            print(f"\nA picture of each is in {out}.")


def _levels(setup: Any, key: Key) -> Iterator[Row]:
    """All test levels of any domain, with the metrics of its design."""
    domain: Domain = setup.preset("laptop", "dr").setup.domain()
    image = getattr(domain.design, "image", None)
    for suite, entry, level in _drawn(domain, [*domain.suites], key):
        measured = {name.replace("_", " "): number(x.item()) for name, x in domain.design.describe(level).items()}
        line = {"level": entry.name, "suite": suite} | measured | {"time limit": str(entry.env.horizon)}
        yield line, image and image(level)


def _mazes(setup: Any, key: Key) -> Iterator[Row]:
    from tutelage.domains import maze
    from tutelage.domains.maze.image import draw
    from tutelage.domains.maze.oracle import fewest_actions, shortest_path

    @jax.jit
    def inspect(level: maze.Level) -> tuple[jax.Array, jax.Array, jax.Array]:
        return shortest_path(level), fewest_actions(level), draw(level, max(3, SIDE // level.walls.shape[0]))

    for _, entry, level in _drawn(maze.domain(), ["maze"], key):
        path, actions, picture = inspect(level)
        measured = {"size": level.walls.shape[0], "path": path, "actions": actions, "time limit": entry.env.horizon}
        yield {"level": entry.name} | {name: str(x) for name, x in measured.items()}, picture


def _tracks(setup: Any, key: Key) -> Iterator[Row]:
    from tutelage.domains import racing
    from tutelage.domains.racing import track
    from tutelage.domains.racing.image import birds_eye

    @jax.jit
    def inspect(line: Any) -> tuple[jax.Array, jax.Array]:
        return track.steps(line).sum(), abs(track.curvature(line)).max()

    # the released code's circuits are the same, with other time limits
    for suite, entry, level in _drawn(racing.domain(), ["f1", "bezier", "original"], key):
        line = track.road(level)
        length, curvature = inspect(line)
        assert isinstance(entry.env, racing.RacingEnv)
        about = {"level": entry.name, "suite": suite, "tiles": str(line.n), "length": f"{length:.0f} m"}
        measured = {"tightest bend": f"{1 / curvature:.0f} m", "time limit": f"{entry.env.frames} frames"}
        yield about | measured, birds_eye(line, extent=float(np.abs(line.points).max()) + 2 * track.HALF_WIDTH)


def _drawn(domain: Domain, suites: list[str], key: Key) -> Iterator[tuple[str, TestLevel, Any]]:
    """A level of each entry."""
    entries = [(suite, entry) for suite in suites for entry in domain.suites[suite]]
    for index, (suite, entry) in enumerate(entries):
        yield suite, entry, jax.jit(entry.draw)(jax.random.fold_in(key, index))
