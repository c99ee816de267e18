"""Where levels come from (ACCEL): from the highest scores back through the parents that they were edited from."""

from __future__ import annotations

from collections.abc import Sequence

from tutelage.analysis.report.example import Entry, Snapshot


def lineages(snapshots: Sequence[Snapshot], count: int, among: int) -> list[list[Entry]]:
    """Up to `count` chains that lead to the `among` highest scores of the last snapshot, the eldest first in each.

    A parent may have left the buffer: all snapshots are asked for it, and a chain begins where none knows more.
    Families come first, each with its highest score; then other branches of these, but no brothers and children of
    what is shown, whose ancestors are nearly the same.
    """
    if not snapshots:
        return []
    known = {entry["name"]: entry for snapshot in snapshots for entry in snapshot["entries"]}
    chains = [_lineage(entry, known) for entry in snapshots[-1]["entries"][:among]]
    chains = [chain for chain in chains if len(chain) > 1]
    families: dict[int, list[Entry]] = {}
    for chain in chains:
        families.setdefault(chain[0]["name"], chain)
    chosen: list[list[Entry]] = []
    shown: set[int] = set()
    for chain in [*families.values(), *chains]:
        *_, parent, newest = chain
        if len(chosen) < count and shown.isdisjoint((parent["name"], newest["name"])):
            chosen.append(chain)
            shown |= {entry["name"] for entry in chain}
    return chosen


def _lineage(entry: Entry, known: dict[int, Entry]) -> list[Entry]:
    chain = {entry["name"]: entry}
    while (parent := known.get(entry["parent"])) and parent["name"] not in chain:  # a damaged file could have a ring
        entry = chain[parent["name"]] = parent
    return [*chain.values()][::-1]
