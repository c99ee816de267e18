"""Sections of curves: how training went, and how complex the levels were."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import jax
import numpy as np

from tutelage.analysis import plots
from tutelage.analysis.report.blocks import Block, Plot, Section
from tutelage.training.run import PROGRESS, Run
from tutelage.types import Domain

FIRST = ("solved", "return", "length", "true_regret", "score", "loss", "policy_loss", "value_loss", "entropy")
"""What comes first, if it was measured; all else follows in the order of its name."""

KINDS = ("new", "replayed", "edited")
"""Of levels, in the order in which a curriculum comes by them."""

UNTOLD = (*PROGRESS, "replay", "finite")
"""Columns that are no measurements, or that would not be there to see were they of interest."""

PERCENTILE = re.compile(r"_p\d+$")


def training(runs: Sequence[Run], domain: Domain) -> Section:
    """All metrics but complexity: on the levels, of the learner, of the buffer, of the generator, of the antagonist."""
    known = complexities(domain)
    rest = [name for name in _measured(runs) if not _is_complexity(name, known)]
    titles = {"": "Learning", "levels": "On the levels it practises", "antagonist": "The antagonist"}
    groups: dict[str, list[str]] = {key: [] for key in ("levels", "")}
    for name in rest:
        groups.setdefault(_group(name), []).append(name)
    blocks = _plots(runs, ((titles.get(key, f"The {key}"), names) for key, names in groups.items()))
    about = (
        "Means over the runs of a method, with their standard error as a band. New levels are proposed by the "
        "generator, replayed ones chosen by the curator, and edited ones are children of those."
    )
    return Section("training", "While training", about, blocks)


def complexity(runs: Sequence[Run], domain: Domain) -> Section:
    """What the design says of levels, how complex those are that were solved, and how the student solves them."""
    known = complexities(domain)
    names = [name for name in _measured(runs) if _is_complexity(name, known)]
    own = [(kind, [name for name in names if name.startswith(f"{kind}/")]) for kind in KINDS]
    groups = [(f"Of {kind} levels", some) for kind, some in own]
    about = "A curriculum shows in its levels: measures of those that were played"
    about += "." if domain.solved_above is None else ", and of those that were solved."
    return Section("complexity", "Complexity of the levels", about, _plots(runs, groups))


def complexities(domain: Domain) -> set[str]:
    """What the domain's design measures of a level."""
    design = domain.design
    return {*jax.eval_shape(lambda key: design.describe(design.sample(key)), jax.random.key(0))}


def _is_complexity(name: str, known: set[str]) -> bool:
    kind, _, measure = name.partition("/")
    return kind in KINDS and (measure == "action_complexity" or measure.removeprefix("solved_") in known)


def _measured(runs: Sequence[Run]) -> list[str]:
    """Metrics of which any run has a number."""
    logs = [run.metrics() for run in runs]
    names = {name for log in logs for name, values in log.items() if np.isfinite(values).any()}
    names = {name for name in names if not PERCENTILE.search(name)}  # which are drawn with what they are of
    return sorted((name for name in names if name.rpartition("/")[2] not in UNTOLD), key=_order)


def _order(name: str) -> tuple[int, str, int, str]:
    kind, _, measure = name.rpartition("/")
    place = FIRST.index(measure) if measure in FIRST else len(FIRST)
    return place, measure, KINDS.index(kind) if kind in KINDS else len(KINDS), kind


def _group(name: str) -> str:
    kind, slash, _ = name.partition("/")
    if "antagonist" in name.split("/"):
        return "antagonist"
    return "levels" if kind in KINDS else kind if slash else ""


def _plots(runs: Sequence[Run], groups: Iterable[tuple[str, Sequence[str]]]) -> list[Block]:
    return [
        Plot.of(plots.training_curves(runs, names, title=title), f"{title}: {', '.join(names)} against steps")
        for title, names in groups
        if names
    ]
