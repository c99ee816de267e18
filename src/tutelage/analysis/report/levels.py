"""Sections that show levels: those on top now, those that were on top before, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tutelage.analysis.report.ancestry import lineages
from tutelage.analysis.report.blocks import Block, Row, Section, number
from tutelage.analysis.report.example import Entry, Example, Snapshot

NOW = 14
"""Levels of the last snapshot."""

MOMENTS, BEST = 7, 7
"""Snapshots of the curriculum, and levels of each."""

LINEAGES, ANCESTORS = 5, 9
"""Lineages, and levels of each."""


def now(examples: Sequence[Example]) -> Section:
    """The highest-scoring levels, or what a generator proposes where nothing is kept."""
    blocks: list[Block] = []
    for example in examples:
        if example.snapshots:
            last = example.snapshots[-1]
            tiles = [example.tile(entry, _details(entry)) for entry in last["entries"][:NOW]]
            blocks += [*example.heading, Row(*_moment(last), tiles, wraps=True)]
    about = (
        "The highest-scoring levels of the curator's buffer, or fresh proposals of a generator where there is no "
        "curator. The return is the student's / the best possible, where an oracle knows that."
    )
    return Section("levels", "Levels now", about, blocks)


def through_training(examples: Sequence[Example]) -> Section:
    """The first few levels of several moments."""
    blocks: list[Block] = []
    for example in examples:
        if len(example.snapshots) > 1:
            blocks += example.heading
        for snapshot in _spread(example.snapshots):
            tiles = [example.tile(entry, _brief(entry)) for entry in snapshot["entries"][:BEST]]
            blocks.append(Row(*_moment(snapshot), tiles))
    about = "What was on top at several moments of training, evenly spread from the first look to the last."
    return Section("curriculum", "The curriculum at a glance", about, blocks)


def ancestry(examples: Sequence[Example]) -> Section:
    """The edits that led to the highest scores."""
    blocks: list[Block] = []
    for example in examples:
        chains = lineages(example.snapshots, LINEAGES, NOW)
        if chains:
            blocks += example.heading
        for chain in chains:
            newest = chain[-1]
            tiles = [example.tile(entry, _generation(entry)) for entry in _ends(chain)]
            blocks.append(Row(f"Level {newest['name']}", _descent(chain), tiles, joined=True))
    about = (
        "How levels with high scores came about: each was edited from the one before it. Scores are the last that a "
        "snapshot knows. Each family is shown once before any is shown again."
    )
    return Section("ancestry", "Ancestry", about, blocks)


def _moment(snapshot: Snapshot) -> tuple[str, str]:
    title = f"Iteration {snapshot['iteration']:,}"
    steps = f"{snapshot['steps']:,} steps, {snapshot['updates']:,} updates"
    if snapshot["source"] == "generator":
        return title, f"{steps}: fresh proposals"
    return title, f"{steps}: {snapshot['size']:,} of {snapshot['capacity']:,} places filled"


def _details(entry: Entry) -> list[str]:
    return [
        *_brief(entry),
        *(f"{name.replace('_', ' ')} {number(value)}" for name, value in entry["about"].items()),
        *([f"generation {entry['generation']}"] if entry["generation"] else []),
    ]


def _brief(entry: Entry) -> list[str]:
    """What the curator thinks of it, and how the student fares."""
    best = entry.get("optimal_return")
    fares = f"return {number(entry['return'])}" + (f" / {number(best)}" if best is not None else "")
    return [fares] if entry["score"] is None else [f"score {number(entry['score'])}", fares]


def _generation(entry: Entry) -> list[str]:
    return [f"generation {entry['generation']}", f"score {number(entry['score'])}"]


def _descent(chain: Sequence[Entry]) -> str:
    hidden = len(chain) - len(_ends(chain))
    parts = [f"generation {chain[-1]['generation']}"]
    if hidden:
        parts.append(f"{hidden} between the first and the second picture are not shown")
    if chain[0]["parent"] >= 0:
        parts.append(f"the parent of level {chain[0]['name']} was gone before a snapshot saw it")
    return "; ".join(parts)


def _ends(chain: Sequence[Entry]) -> list[Entry]:
    """The eldest, and the last few."""
    return [*chain] if len(chain) <= ANCESTORS else [chain[0], *chain[1 - ANCESTORS :]]


def _spread(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Some of them, the first and the last included; none if there is but one, which is shown elsewhere."""
    if len(snapshots) < 2:
        return []
    places = np.linspace(0, len(snapshots) - 1, min(MOMENTS, len(snapshots)))
    return [snapshots[place] for place in places.round().astype(int)]
