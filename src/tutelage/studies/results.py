"""A study's results as small tidy files, which can be kept when the run directories are gone.

evaluations.csv    a row for each run, evaluation and test level
episodes.csv       a row for each episode of a run's last evaluation, and of `tutelage eval` with at most 1,000 episodes
training.csv       a row for each run and evaluation: metrics, averaged since the evaluation before
runs.csv           a row for each run: how far it came, how long it took, and the options it was started with
eval.csv           what `tutelage eval` found: a row for each run and test level
configs.json       the configuration of each variant
levels.json        levels that each variant trained on at its end

`tutelage compare` and `tutelage paper` read these files as they read runs.

Writing them again replaces the rows of runs that have advanced, and keeps those of runs without a directory here. So
a study can be run in several parts and on several machines. Rows of a variant whose options have changed are left out.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.analysis.policy_results import COLUMNS
from tutelage.analysis.results import CONFIGS, EVAL, LEVELS, RUNS, TRAINING, WHO, RunResults, Snapshot
from tutelage.files import csv_text, read_csv, read_json, write_atomically
from tutelage.studies.study import RunId, StudyRun
from tutelage.training.run import EPISODE_COLUMNS, EPISODES, EVALUATION_COLUMNS, EVALUATIONS, PROGRESS, Row
from tutelage.training.run_writer import say
from tutelage.types import InputError, Json

MOST_EPISODES = 1000
"""The most episodes on one level that have a row each."""

COLUMNS_OF = {
    EVALUATIONS: EVALUATION_COLUMNS,
    EPISODES: EPISODE_COLUMNS,
    TRAINING: PROGRESS,
    RUNS: (*PROGRESS, "finished", "seconds", "devices"),
    EVAL: COLUMNS.values(),
}
"""Columns of each table after `WHO`; columns that only some runs have follow."""

Table = dict[RunId, list[Row]]
"""The rows of each run."""


def collect(runs: Sequence[StudyRun], out: str | Path) -> list[Path]:
    """Write the files of all runs that have begun, and return their paths. Rows of runs that are not here are kept."""
    out = Path(out)
    changed = _changed(out, runs)
    tables = {name: _read(out / name, changed) for name in COLUMNS_OF}
    about: dict[str, dict[str, Json]] = {
        name: read_json(out / name) if (out / name).exists() else {} for name in (CONFIGS, LEVELS)
    }
    for content in about.values():
        for variant in content.keys() - {variant for variant, _ in tables[RUNS]}:
            del content[variant]
    for each in runs:
        if each.begun:
            results = RunResults(each.load())
            found = _rows(each, results)
            before = tables[RUNS].get(each.id)
            if before is None or int(before[0]["steps"]) <= found[RUNS][0]["steps"]:
                for name, rows in found.items():
                    tables[name][each.id] = rows
                about[CONFIGS][each.variant] = results.run.config.to_json()
                if results.snapshots:
                    about[LEVELS][each.variant] = [_sample(results.snapshots[-1])]
    if not tables[RUNS]:
        raise InputError("None of the study's runs has begun: run the study first.")
    if changed:
        say(f"The options of {len(changed)} runs in {out} have changed since: their old rows are left out.")
    order = [*dict.fromkeys([each.id for each in runs] + [*tables[RUNS]])]
    for name, table in tables.items():
        rows = [row for key in order for row in table.get(key, ())]
        columns = [*WHO, *COLUMNS_OF[name]]
        columns += sorted({column for row in rows for column in row} - {*columns})
        write_atomically(out / name, csv_text(rows, columns))
    for name, content in about.items():
        write_atomically(out / name, json.dumps(content, indent=1) + "\n")
    return [out / name for name in (*tables, *about)]


def _changed(results: Path, runs: Sequence[StudyRun]) -> set[RunId]:
    """Runs in the tables whose variant had other options than it has now."""
    options = {each.variant: shlex.join(each.options) for each in runs}
    recorded = {run: row.get("options") for run, [*_, row] in _read(results / RUNS).items()}
    return {run for run, words in recorded.items() if words and words != options.get(run[0], words)}


def _read(path: Path, without: Collection[RunId] = ()) -> Table:
    """The rows of one of the tables by run; empty if there is none."""
    table: Table = {}
    try:
        for row in read_csv(path):
            if (run := (row["variant"], int(row["seed"]))) not in without:
                table.setdefault(run, []).append(row)
    except (KeyError, ValueError):
        raise InputError(f"{path} is no table of a study's results: give --results another directory.") from None
    return table


def reached_in(results: Path, runs: Sequence[StudyRun]) -> dict[RunId, tuple[int, bool]]:
    """Steps of the runs in the tables in `results`, and whether they are finished; only with the same options."""
    table = _read(results / RUNS, _changed(results, runs))
    return {run: (int(row["steps"]), row["finished"] == "True") for run, [*_, row] in table.items()}


def evaluations(runs: Sequence[StudyRun], results: Path | None = None) -> Table:
    """The evaluations of each run: from its directory, or from the tables in `results` if these have more."""
    table = _read(results / EVALUATIONS, _changed(results, runs)) if results else {}
    for each in runs:
        if each.begun:
            table[each.id] = max(each.load().evaluations(), table.get(each.id, []), key=len)
    return table


def _rows(each: StudyRun, results: RunResults) -> Mapping[str, list[Row]]:
    who = {"variant": each.variant, "method": each.options[0], "seed": each.seed}
    name = f"{each.variant}/seed-{each.seed}"
    # of thousands of episodes, as on random levels, the summary in eval.csv is enough
    suites = dict.fromkeys(row["suite"] for row in results.episodes)
    episodes = [row for suite in suites for row in results.last_episodes(suite)]
    counts = Counter((row["suite"], row["level"]) for row in episodes)
    found: dict[str, Iterable[Mapping[str, Any]]] = {
        EVALUATIONS: results.evaluations,
        EPISODES: [row for row in episodes if counts[row["suite"], row["level"]] <= MOST_EPISODES],
        TRAINING: _averages(results.metrics, sorted({row["iteration"] for row in results.evaluations})),
        RUNS: [_summary(each, results)],
        EVAL: [score.row() | {"policy": name} for score in results.tests if not score.is_baseline],
    }
    return {file: [{**who, **row} for row in rows] for file, rows in found.items()}


def _sample(snapshot: Snapshot) -> Snapshot:
    """The part of a snapshot that figures need: the levels drawn as for training, or else the first few."""
    return {**snapshot, "entries": [] if "drawn" in snapshot else snapshot["entries"][:8]}


def _averages(metrics: dict[str, np.ndarray], iterations: Sequence[int]) -> list[dict[str, Any]]:
    """Each metric's mean over the iterations since the evaluation before, and the progress at the evaluation."""
    if not metrics:
        return []
    rows, before = [], 0
    for iteration in iterations:
        since = (metrics["iteration"] > before) & (metrics["iteration"] <= iteration)
        at = np.flatnonzero(metrics["iteration"] == iteration)
        if at.size:
            means = {  # a metric may be unknown in all of these iterations
                name: f"{np.nanmean(x[since]):.6g}" if np.isfinite(x[since]).any() else None
                for name, x in metrics.items()
            }
            rows.append(means | {name: int(metrics[name][at[0]]) for name in PROGRESS})
        before = iteration
    return rows


def _summary(each: StudyRun, results: RunResults) -> dict[str, Any]:
    last = {name: int(results.metrics[name][-1]) if results.metrics else 0 for name in PROGRESS}
    ran = {"finished": each.progress()[1], "seconds": round(results.seconds, 1)}
    return last | ran | {"devices": results.run.config.devices, "options": shlex.join(each.options)}
