"""Where levels come from (ACCEL): from the highest scores back through the parents that they were edited from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Entry = dict[str, Any]
"""One level of a snapshot."""


def lineages(snapshots: Sequence[dict[str, Any]], count: int) -> list[list[Entry]]:
    """Up to `count` chains that lead to the highest scores of the last snapshot, the eldest first in each.

    A parent may have left the buffer: all snapshots are asked for it, and a chain ends where none knows more. A brother,
    or a child of what is shown, has nearly the same ancestors and is left out.
    """
    if not snapshots:
        return []
    known = {entry["name"]: entry for snapshot in snapshots for entry in snapshot["entries"]}
    chains: list[list[Entry]] = []
    shown: set[int] = set()
    for entry in snapshots[-1]["entries"]:
        if len(chains) == count:
            break
        if entry["name"] in shown or entry["parent"] in shown or entry["parent"] not in known:
            continue
        chain = _lineage(entry, known)
        shown |= {ancestor["name"] for ancestor in chain}
        chains.append(chain)
    return chains


def _lineage(entry: Entry, known: dict[int, Entry]) -> list[Entry]:
    chain = {entry["name"]: entry}
    while (parent := known.get(entry["parent"])) and parent["name"] not in chain:  # a damaged file could have a ring
        entry = chain[parent["name"]] = parent
    return [*chain.values()][::-1]
