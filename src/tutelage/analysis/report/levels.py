"""Sections of pictures: the levels of a curriculum, their ancestry, and videos of episodes."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np
from PIL import Image

from tutelage.analysis.report.page import Block, Heading, Note, Row, Section, Tile
from tutelage.analysis.results import ID, Entry, RunResults, Snapshot
from tutelage.analysis.tables import number
from tutelage.evaluation.video import frames, watch
from tutelage.training.run import POLICY
from tutelage.types import InputError, TestLevel

NOW = 14
"""Levels of the last snapshot."""

MOMENTS, BEST = 7, 7
"""Snapshots of the curriculum, and levels of each."""

LINEAGES, ANCESTORS = 5, 9
"""Lineages, and levels of each."""

VIDEOS = 12
"""About how many a page has; each method has as many as the others, and at least two."""

FRAMES, SECONDS = 100, 8
"""Of one video, at most."""

SIZE = 3_000_000
"""Characters of the page that all videos may take."""

SIDE, VIDEO_SIDE = 240, 300
"""Pixels of a picture's height. It is shown half as large, which suits screens of double density."""

PLAIN = Image.Dither.NONE
"""Drawings have few colors: they need no dithering, and with a palette they are a third the size."""


class Example:
    """The run whose levels are shown for all seeds of its method. Each level is drawn once."""

    def __init__(self, results: RunResults, title: str) -> None:
        self.results, self.title = results, title
        self._pictures: dict[str, str] = {}

    @property
    def snapshots(self) -> Sequence[Snapshot]:
        """In order of time; none if the domain does not draw its levels."""
        return self.results.snapshots if self._image else []

    def tile(self, entry: Entry, lines: Sequence[str]) -> Tile:
        """The picture of a level, with lines below it."""
        level = repr(entry["level"])
        if level not in self._pictures:
            self._pictures[level] = png(self._image(self.results.run.domain.design.from_json(entry["level"])))
        about = [f"{name} {value}" for name, value in entry["about"].items()]
        return Tile(self._pictures[level], ", ".join([f"level {entry[ID]}", *about]), lines)

    @cached_property
    def _image(self) -> Any:
        image = getattr(self.results.run.domain.design, "image", None)
        return image and jax.jit(image)


def now(examples: Sequence[Example]) -> Section:
    """The highest-scoring levels, or proposals of the generator where there is no buffer."""

    def rows(example: Example) -> Iterator[Block]:
        for last in example.snapshots[-1:]:
            tiles = [example.tile(entry, _details(entry)) for entry in last["entries"][:NOW]]
            yield Row(*_moment(last), tiles, wraps=True)

    about = (
        "The highest-scoring levels of the curator's buffer, or new proposals of the generator where there is no "
        "curator. The return is the student's / the optimal one, where the domain has an oracle."
    )
    return Section("levels", "Levels now", about, _headed(examples, rows))


def through_training(examples: Sequence[Example]) -> Section:
    """The highest-scoring levels of several snapshots."""

    def rows(example: Example) -> Iterator[Block]:
        count = len(example.snapshots)
        if count < 2:  # a single one is shown above
            return
        for place in np.linspace(0, count - 1, min(MOMENTS, count)).round().astype(int):
            snapshot = example.snapshots[place]
            yield Row(*_moment(snapshot), [example.tile(entry, _brief(entry)) for entry in snapshot["entries"][:BEST]])

    about = "The highest-scoring levels at several times of training, evenly spread from the first to the last."
    return Section("curriculum", "The curriculum over time", about, _headed(examples, rows))


def ancestry(examples: Sequence[Example]) -> Section:
    """The edits that led to the levels with the highest scores."""

    def rows(example: Example) -> Iterator[Block]:
        for chain in lineages(example.snapshots, LINEAGES, NOW):
            lines = [[f"generation {x['generation']}", f"score {number(x['score'])}"] for x in _ends(chain)]
            tiles = [*map(example.tile, _ends(chain), lines)]
            yield Row(f"Level {chain[-1][ID]}", _descent(chain), tiles, joined=True)

    about = (
        "The origin of levels with high scores: each was edited from the one before it. Scores are the latest in any "
        "snapshot. Each family is shown once before any is shown again."
    )
    return Section("ancestry", "Ancestry", about, _headed(examples, rows))


def videos(examples: Sequence[Example]) -> Section:
    """Videos of a few episodes of each method, on the same test levels."""
    count = max(2, VIDEOS // len(examples))

    def rows(example: Example) -> Iterator[Block]:
        run = example.results.run
        if run.domain.frame is None or not (run.directory / POLICY).exists():
            return
        try:
            shown, note = chosen_tests(run.config.test_levels(run.domain), _rates(example.results), count - 1)
            tiles = list(_videos(example, shown, SIZE // (count * len(examples))))
        except InputError as error:  # a policy that does not fit is no reason to have no page
            tiles, note = [], f"There are no videos. {error}"
        if tiles:
            yield Row("", "", tiles, wraps=True, large=True)
        if note:
            yield Note(note)

    about = (
        "The student as it is now, one episode on each level, solved or not. Videos of long episodes skip some "
        "frames. Each repeats after a pause of one second."
    )
    return Section("episodes", "Episodes", about, _headed(examples, rows))


def _headed(examples: Sequence[Example], rows: Callable[[Example], Iterable[Block]]) -> list[Block]:
    """The rows of each example that has any, below its title if there are several."""
    blocks: list[Block] = []
    for example in examples:
        if found := [*rows(example)]:
            blocks += [*([Heading(example.title)] if len(examples) > 1 else []), *found]
    return blocks


def chosen_tests(tests: Sequence[TestLevel], rates: Mapping[str, float], count: int) -> tuple[list[TestLevel], str]:
    """Up to `count` test levels in their order, half of them with the best results; and a sentence on the others."""
    if len(tests) <= count:
        return [*tests], ""
    ranked = sorted(range(len(tests)), key=lambda i: -rates.get(tests[i].name, 0.0))
    best, worst = ranked[: (count + 1) // 2], ranked[len(tests) - count // 2 :]
    shown = sorted({*best, *worst})
    left_out = ", ".join(tests[i].name for i in range(len(tests)) if i not in shown)
    how = f"the {len(best)} with the best results and the {len(worst)} with the worst" if rates else "some"
    note = f"Shown are {len(shown)} of {len(tests)} test levels, {how}. Left out: {left_out}."
    return [tests[i] for i in shown], note


def lineages(snapshots: Sequence[Snapshot], count: int, among: int) -> list[list[Entry]]:
    """Up to `count` chains that lead to the `among` highest scores of the last snapshot, the eldest first in each.

    A parent may have left the buffer: all snapshots are searched for it, and a chain begins with the first level found.
    The highest score of each family comes first. Other branches follow, except siblings and children of levels that
    are shown, since their ancestors are nearly the same.
    """
    if not snapshots:
        return []
    known = {entry[ID]: entry for snapshot in snapshots for entry in snapshot["entries"]}

    def lineage(entry: Entry) -> list[Entry]:
        chain = {entry[ID]: entry}
        while (parent := known.get(entry["parent"])) and parent[ID] not in chain:  # a damaged file could have a ring
            entry = chain[parent[ID]] = parent
        return [*chain.values()][::-1]

    chains = [chain for chain in map(lineage, snapshots[-1]["entries"][:among]) if len(chain) > 1]
    families: dict[int, list[Entry]] = {}
    for chain in chains:
        families.setdefault(chain[0][ID], chain)
    chosen: list[list[Entry]] = []
    shown: set[int] = set()
    for chain in [*families.values(), *chains]:
        *_, parent, newest = chain
        if len(chosen) < count and shown.isdisjoint((parent[ID], newest[ID])):
            chosen.append(chain)
            shown |= {entry[ID] for entry in chain}
    return chosen


def png(picture: Any) -> str:
    """A picture u8[H, W, 3] as a data URI."""
    return _uri(_small(picture, SIDE).quantize(64, dither=PLAIN), "PNG", optimize=True)


def gif(pictures: Sequence[Any], milliseconds: int, size: int) -> str:
    """A video of pictures u8[H, W, 3] as a data URI, which loops. The last frame stays for a second.

    A video longer than `size` characters loses every second frame until it fits or only a few are left.
    """
    images = [_small(picture, VIDEO_SIDE) for picture in pictures]
    colors = np.concatenate([np.asarray(image) for image in images[:: 1 + len(images) // 8]], axis=1)
    palette = Image.fromarray(colors).quantize(255, dither=PLAIN)
    images = [image.quantize(palette=palette, dither=PLAIN) for image in images]
    while True:
        first, *rest = images
        durations = [milliseconds] * len(rest) + [1000]
        uri = _uri(first, "GIF", save_all=True, append_images=rest, duration=durations, loop=0)
        if len(uri) <= size or len(images) < 8:
            return uri
        images = [*images[:-1:2], images[-1]]
        milliseconds *= 2


def _moment(snapshot: Snapshot) -> tuple[str, str]:
    title = f"Iteration {snapshot['iteration']:,}"
    filled = f"{snapshot['size']:,} of {snapshot['capacity']:,} slots filled"
    what = "new proposals" if snapshot["source"] == "generator" else filled
    return title, f"{snapshot['steps']:,} steps, {snapshot['updates']:,} updates: {what}"


def _details(entry: Entry) -> list[str]:
    about = [f"{name.replace('_', ' ')} {number(value)}" for name, value in entry["about"].items()]
    return [*_brief(entry), *about, *([f"generation {entry['generation']}"] if entry["generation"] else [])]


def _brief(entry: Entry) -> list[str]:
    """The curator's score, and the student's return."""
    best = entry.get("optimal_return")
    value = f"return {number(entry['return'])}" + (f" / {number(best)}" if best is not None else "")
    return [value] if entry["score"] is None else [f"score {number(entry['score'])}", value]


def _descent(chain: Sequence[Entry]) -> str:
    parts = [f"generation {chain[-1]['generation']}"]
    if hidden := len(chain) - len(_ends(chain)):
        parts.append(f"{hidden} between the first and the second picture are not shown")
    if chain[0]["parent"] >= 0:
        parts.append(f"the parent of level {chain[0][ID]} is in no snapshot")
    return "; ".join(parts)


def _ends(chain: Sequence[Entry]) -> list[Entry]:
    """The eldest, and the last few."""
    return [*chain] if len(chain) <= ANCESTORS else [chain[0], *chain[1 - ANCESTORS :]]


def _rates(results: RunResults) -> dict[str, float]:
    """How well the student does on each test level: by `tutelage eval`, or else at the last evaluation in training."""
    suite, rows = results.run.config.evaluation.suite, results.evaluations
    last = [row for row in rows if row["iteration"] == rows[-1]["iteration"]]
    found = {row["level"]: row["return"] if row["solved"] is None else row["solved"] for row in last}
    own = [result for result in results.own_tests if result.suite == suite]
    return found | {result.level: result.value if result.solved is None else result.solved for result in own}


def _videos(example: Example, tests: Sequence[TestLevel], size: int) -> Iterator[Tile]:
    """Of the level with the highest score, if any has one, and of test levels."""
    run, key = example.results.run, jax.random.key(example.results.seed)
    levels: list[tuple[str, Any]] = [(test.name, test) for test in tests]
    best = example.snapshots[-1]["entries"][0] if example.snapshots else None
    if best is not None and best["score"] is not None:
        level = run.domain.design.from_json(best["level"])
        levels = [(f"level {best[ID]}, the highest score", level), *levels]
    for name, level in levels:
        episode = watch(run.domain, level, run.policy, key)
        shown = frames(run.domain, episode, FRAMES)
        milliseconds = min(150, 1000 * SECONDS // len(shown))
        words = [] if episode.solved is None else ["solved" if episode.solved else "not solved"]
        words += [f"return {number(episode.total)}, {episode.length:,} steps"]
        video, still = gif(shown, milliseconds, size), png(shown[-1])
        yield Tile(video, f"An episode on {name}: {', '.join(words)}", [name, *words], still)


def _small(picture: Any, side: int) -> Image.Image:
    image = Image.fromarray(np.asarray(picture))
    image.thumbnail((2 * side, side), Image.Resampling.LANCZOS)
    return image


def _uri(image: Image.Image, form: str, **options: Any) -> str:
    content = io.BytesIO()
    image.save(content, form, **options)
    return f"data:image/{form.lower()};base64,{b64encode(content.getvalue()).decode()}"
