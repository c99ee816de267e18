"""The section that shows episodes: the student on test levels, and on the level with the highest score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from tutelage.analysis.report import pictures
from tutelage.analysis.report.blocks import Block, Note, Row, Section, Tile, number
from tutelage.analysis.report.example import Example
from tutelage.evaluation.video import Episode, frames, watch
from tutelage.training.run import POLICY
from tutelage.types import InputError, Level, TestLevel

FILMS = 12
"""In a page, about; each method has as many as the others, and at least two."""

FRAMES, SECONDS = 100, 8
"""Of one video, at most."""

SIZE = 3_000_000
"""Letters that all videos may take of the page."""


def videos(examples: Sequence[Example]) -> Section:
    """A few episodes of each method, on the same test levels."""
    blocks: list[Block] = []
    count = max(2, FILMS // len(examples))
    for example in examples:
        try:
            tiles = list(_tiles(example, count, SIZE // (count * len(examples))))
        except InputError as error:  # a policy that does not fit is no reason to have no page
            blocks += [*example.heading, Note(f"There are no videos. {error}")]
            continue
        if tiles:
            blocks += [*example.heading, Row("", "", tiles, wraps=True, large=True)]
    about = (
        "The student as it is now, one episode on each level, whatever its outcome. Videos of long episodes leave out "
        "moments. After a second of rest they begin anew."
    )
    return Section("episodes", "Episodes", about, blocks)


def _tiles(example: Example, count: int, size: int) -> Iterator[Tile]:
    run, key = example.run, jax.random.key(example.run.config.seed)
    if not (run.directory / POLICY).exists():
        return
    policy = run.policy
    for name, where in list(_places(example, count)):
        episode = watch(run.domain, where, policy, key)
        shown = frames(run.domain, episode, FRAMES)
        if len(shown) > 1:  # a domain need not know how to draw moments
            milliseconds = min(150, 1000 * SECONDS // len(shown))
            video, still = pictures.gif(shown, milliseconds, size), pictures.png(shown[-1])
            words = _outcome(episode)
            yield Tile(video, f"An episode on {name}: {', '.join(words)}", [name, *words], still)


def _places(example: Example, count: int) -> Iterator[tuple[str, TestLevel | Level]]:
    """The level with the highest score, if any has one, and the first test levels."""
    run = example.run
    tests = run.config.test_levels(run.domain)
    best: Any = example.snapshots[-1]["entries"][0] if example.snapshots else None
    if best is not None and best["score"] is not None:
        yield f"level {best['name']}, the highest score", run.domain.design.from_json(best["level"])
        count -= 1
    yield from ((test.name, test) for test in tests[:count])


def _outcome(episode: Episode) -> list[str]:
    ending = [] if episode.solved is None else ["solved" if episode.solved else "not solved"]
    return [*ending, f"return {number(episode.total)}, {episode.length:,} steps"]
