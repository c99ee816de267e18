"""Does a high score mean much regret? The curator's scores against the true regret, where an oracle knows it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tutelage.analysis import plots
from tutelage.analysis.report.blocks import Block, Plot, Section, Table, number
from tutelage.analysis.report.example import Example, Snapshot
from tutelage.analysis.statistics import rank_correlation


def calibration(examples: Sequence[Example]) -> Section:
    """Scatter plots of the last snapshots, and the rank correlation of all of them."""
    blocks: list[Block] = []
    for example in examples:
        found = [(snapshot, points(snapshot)) for snapshot in example.snapshots]
        found = [(snapshot, pairs) for snapshot, pairs in found if len(pairs) > 1]
        if not found:
            continue
        last, _ = found[-1]
        figure = plots.score_against_regret(last["entries"], example.title)
        blocks.append(Plot.of(figure, f"{example.title}: score against true regret, a point for each level"))
        rows = [
            [f"{s['iteration']:,}", f"{s['steps']:,}", str(len(pairs)), number(rank_correlation(*pairs.T))]
            for s, pairs in found
        ]
        head = ["iteration", "steps", "levels", "rank correlation"]
        blocks.append(Table(head, rows, f"{example.title}: the rank correlation in every snapshot", folded=True))
    about = (
        "True regret is the optimal return less the student's. The curator does not see it: its score is an estimate, "
        "made when a level was last played. A rank correlation of 1 would mean that it puts all levels into the right "
        "order. Snapshots hold the highest scores and a sample of the others, so high scores are seen more often than "
        "they occur."
    )
    return Section("calibration", "Scores and true regret", about, blocks)


def points(snapshot: Snapshot) -> np.ndarray:
    """f64[n, 2]: score and true regret of the levels of which both are known."""
    needed = ("score", "return", "optimal_return")
    known = [[e[name] for name in needed] for e in snapshot["entries"] if all(e.get(n) is not None for n in needed)]
    score, value, best = np.array(known, np.float64).reshape(-1, 3).T
    return np.stack([score, best - value], axis=1)
