"""Sections of tables and figures: overview, tests, training, complexity, calibration, configuration."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any

import jax
import numpy as np

from tutelage.analysis import plots, style
from tutelage.analysis.compare import compare, regret_rows, regret_tables
from tutelage.analysis.policy_results import BASELINES, PolicyResult, policy_tables
from tutelage.analysis.report.page import Block, Columns, Heading, Note, Plot, Section
from tutelage.analysis.results import Results, RunResults, Snapshot, display, grouped
from tutelage.analysis.statistics import Correlation, rank_correlation, wilson
from tutelage.analysis.tables import Table, interval, number
from tutelage.training.progress import duration
from tutelage.training.run import CONFIG, PROGRESS, Progress, Run
from tutelage.training.serialization import flat
from tutelage.types import InputError, Json

FIRST = ("solved", "return", "length", "true_regret", "score", "loss", "policy_loss", "value_loss", "entropy")
"""Metrics that come first, if they were measured; all others follow in the order of their names."""

KINDS = ("new", "replayed", "edited")
"""Of levels, in the order in which a curriculum meets them."""

NOT_SHOWN = (*PROGRESS, "replay", "finite")
"""Columns that are not measurements."""

PERCENTILE = re.compile(r"_p\d+$")


def overview(results: Results) -> Section:
    """A row for each run: its progress, and its results on test levels."""
    cells = [{"run": results.titles[run.directory]} | _progress(run) | _tested(run) for run in results.runs]
    head = [*dict.fromkeys(name for each in cells for name in each)]
    table = Table(head, [[each.get(name, "–") for name in head] for each in cells])
    return Section("overview", "At a glance", "", [table])


def tests(results: Results) -> Section:
    """The evaluations by `tutelage eval`, with baselines; then those made during training, for each suite."""
    blocks: list[Block] = [*_evaluated(results)]
    if len(results.runs) > 1:
        blocks += regret_tables(regret_rows(results), display)
    for suite in results.suites:
        blocks.append(Heading(f"During training, suite {suite}"))
        try:
            blocks += _suite(results, suite)
        except InputError as error:  # runs that cannot be compared can still be shown
            blocks.append(Note(f"There is no comparison on the suite {suite}. {error}"))
    about = "On levels that no student was trained on."
    if results.runs[0].run.domain.solved_above is not None:
        about += " Brackets hold Wilson's 95 % intervals: that of a single run covers other episodes, not other seeds."
    return Section("tests", "Zero-shot tests", about, blocks)


def training(results: Results) -> Section:
    """All metrics except complexity: of the levels, the student's updates, the buffer, the teacher, the antagonist."""
    titles = {"levels": "On the levels it trains on", "": "Learning", "buffer": "The curator's buffer"}
    shown, _ = _measured(results)
    groups: dict[str, list[str]] = {"levels": [], "": []} | grouped(shown, _group)
    blocks = _plots(results, ((titles.get(key, f"The {key}"), names) for key, names in groups.items()))
    about = (
        "Means over the runs of a method, with their standard error as a band. The generator proposes new levels, the "
        "curator chooses replayed levels, and edited levels are children of replayed ones."
    )
    return Section("training", "While training", about, blocks)


def complexity(results: Results) -> Section:
    """The measurements of levels, of solved levels, and of the actions that solved them."""
    _, names = _measured(results)
    groups = [(f"Of {kind} levels", [name for name in names if name.startswith(f"{kind}/")]) for kind in KINDS]
    about = "How a curriculum changes its levels: means over the levels that were played"
    about += "." if results.runs[0].run.domain.solved_above is None else ", and over those that were solved."
    return Section("complexity", "Complexity of the levels", about, _plots(results, groups))


def calibration(examples: Mapping[str, Sequence[Snapshot]]) -> Section:
    """Scores against true regret in the last snapshot of each example, and their rank correlation in all snapshots."""
    blocks: list[Block] = []
    for title, snapshots in examples.items():
        found = [(snapshot, plots.scores_and_regrets(snapshot["entries"])) for snapshot in snapshots]
        found = [(snapshot, pairs) for snapshot, pairs in found if len(pairs) > 1]
        if not found:
            continue
        correlations = [rank_correlation(*pairs.T) for _, pairs in found]
        last, pairs = found[-1]
        label = f"{title}: score against true regret, a point for each level"
        blocks += [
            Plot.of(plots.score_against_regret, label, last["entries"], title),
            Note(explained(correlations[-1], len(pairs))),
        ]
        rows = [
            [f"{s['iteration']:,}", f"{s['steps']:,}", str(len(pairs)), number(correlation.rho)]
            for (s, pairs), correlation in zip(found, correlations, strict=True)
        ]
        head = ["iteration", "steps", "levels", "rank correlation"]
        blocks.append(Table(head, rows, f"{title}: the rank correlation in every snapshot", collapsed=True))
    about = (
        "True regret is the optimal return minus the student's. The curator does not see it: its score is an estimate, "
        "made when a level was last played. A rank correlation of 1 would mean that it puts all levels into the right "
        "order. Snapshots hold the highest scores and a sample of the others, so high scores are more frequent here "
        "than in the buffer."
    )
    return Section("calibration", "Scores and true regret", about, blocks)


def explained(correlation: Correlation, levels: int) -> str:
    """What a rank correlation between score and true regret means."""
    rho, p = correlation
    if math.isnan(rho):
        return f"All {levels} levels have the same score or the same regret, so there is no rank correlation."
    value = f"The rank correlation is {rho:.2f} over {levels} levels"
    if levels < 10:
        return f"{value}, which are too few to judge the score by."
    if p >= 0.05:
        return (
            f"{value}: chance alone gives one as far from 0 in {p:.0%} of cases, so there is no evidence that the "
            "curator's order is the order of true regret. Scores age while the student learns, and the levels shown "
            "were chosen for their high scores, among which differences are small."
        )
    if rho < 0:
        return f"{value}: levels with a high score tend to have a low true regret, so the score misleads the curator."
    strength = "weakly" if rho < 0.3 else "moderately" if rho < 0.6 else "strongly"
    return f"{value}: the curator's order agrees {strength} with the order of true regret."


def configuration(results: Results) -> Section:
    """What all runs have in common, where methods differ, and the versions of what they ran with."""
    options = {label: flat(group[0].run.config.to_json()) for label, group in results.groups.items()}
    names = dict.fromkeys(name for each in options.values() for name in each if name != "seed")
    differing = [name for name in names if len({_text(each.get(name)) for each in options.values()}) > 1]
    blocks: list[Block] = []
    if differing:
        seeds = ["seeds", *(", ".join(str(run.seed) for run in group) for group in results.groups.values())]
        rows = [[name, *(_text(each.get(name)) for each in options.values())] for name in differing]
        blocks.append(Table(["option", *map(display, options)], [seeds, *rows], "Differences", words=True))
        blocks.append(Heading("In common"))
    first = next(iter(options.values()))
    parts = grouped((name for name in names if name not in differing), lambda name: name.rpartition(".")[0])
    tables = []
    for part, own in parts.items():
        rows = [[name.rpartition(".")[2].replace("_", " "), _text(first.get(name))] for name in own]
        tables.append(Table((), rows, part or "run", words=True))
    blocks.append(Columns(tables))
    versions = dict.fromkeys(_versions(run.run) for run in results.runs)
    blocks.append(Note("Ran with " + "; and with ".join(versions) + "."))
    run = results.runs[0].run
    about = f"Train again with: {run.command('train', '--config', str(run.directory / CONFIG))}"
    return Section("configuration", "Configuration", about, blocks)


def _progress(run: RunResults) -> dict[str, str]:
    names = ("iterations", "steps", "of planned", "updates", "time", "steps/s")
    if not run.metrics:
        return dict(zip(names, ("0", "0", "0%", "0", "–", "–"), strict=True))
    last = Progress(*(int(run.metrics[name][-1]) for name in PROGRESS))
    counts = f"{last.iteration:,}", f"{last.steps:,}", f"{last.share(run.run.config):.0%}", f"{last.updates:,}"
    speed = (duration(run.seconds), number(last.steps / run.seconds)) if run.seconds else ("–", "–")
    return dict(zip(names, (*counts, *speed), strict=True))


def _tested(run: RunResults) -> dict[str, str]:
    """The mean over each suite's levels, by what was measured: at its last evaluation in training, and by eval."""
    found: list[tuple[str, Sequence[Mapping[str, Any]]]] = []
    for own in grouped(run.evaluations, itemgetter("suite")).values():
        found.append(("in training", [row for row in own if row["iteration"] == own[-1]["iteration"]]))
    for tests in grouped(run.own_tests, attrgetter("suite")).values():
        found.append(("by eval", [result.row() for result in tests]))
    means = {}
    for source, rows in found:
        suite, episodes = rows[0]["suite"], rows[0]["episodes"]
        where = f"suite {suite}, {episodes} episodes a level, {source}"
        if any(row["solved"] is None for row in rows):
            means[f"return, {where}"] = number(float(np.mean([row["return"] for row in rows])))
        else:
            rate = float(np.mean([row["solved"] for row in rows]))
            means[f"solved, {where}"] = interval(*wilson(rate, episodes * len(rows)), 2)
    return means


def _evaluated(results: Results) -> Iterable[Block]:
    """The tables of `tutelage eval`: the runs, then untrained, random and optimal, where they were asked for."""
    groups: dict[tuple[Any, ...], dict[str, list[PolicyResult]]] = {}
    for run in results.runs:
        for tested in grouped(run.tests, attrgetter("suite")).values():
            own = [result for result in tested if not result.is_baseline]
            if not own:
                continue
            conditions = own[0].suite, own[0].episodes, own[0].greedy, tuple(result.level for result in own)
            group = groups.setdefault(conditions, {})
            steps = int(run.metrics["steps"][-1]) if run.metrics else None
            since = "" if own[0].steps == steps else f" after {own[0].steps or 0:,} steps"
            group[results.titles[run.directory] + since] = own
            for name, found in grouped((x for x in tested if x.is_baseline), attrgetter("policy")).items():
                group.setdefault(name, found)  # the baselines of the first run that has them
    for (suite, episodes, greedy, _), group in groups.items():
        ordered = sorted(group, key=lambda name: BASELINES.index(name) if name in BASELINES else -1)
        actions = "greedy" if greedy else "sampled"
        yield Heading(f"By tutelage eval, suite {suite}: {episodes} episodes on each level, {actions} actions")
        first, *others = policy_tables([(name, group[name]) for name in ordered])
        yield from (first, *(replace(table, collapsed=True) for table in others))


def _suite(results: Results, suite: str) -> list[Block]:
    evaluations = results.evaluation_table(suite, partly=True)
    steps = compare(evaluations, "steps")
    blocks: list[Block] = [Plot.of(plots.bars, f"Bars: {steps.title}, by test level and method", steps)]
    if any(len(history.steps) > 1 for group in evaluations.histories.values() for history in group):
        label = f"Curves: {evaluations.title} on each test level against environment steps"
        blocks.append(Plot.of(plots.levels_over_time, label, evaluations, title="Over time"))
    by_level, overall, *contests = steps.tables(display)
    blocks.append(by_level)
    if len(steps.values) == 1:
        return blocks if len(next(iter(steps.values.values()))) == 1 else [*blocks, overall]
    comparisons, more = [steps], list[Block](contests)
    try:
        comparisons.append(compare(evaluations, "updates"))
        more.append(comparisons[-1].tables(display)[-1])
    except InputError as error:  # a run may have made fewer updates by its end than another by its first evaluation
        more.append(Note(f"There is no comparison after equal updates. {error}"))
    return [
        *blocks,
        Plot.of(plots.iqm_intervals, "Interquartile means of the methods", *comparisons, title="Interquartile means"),
        overall,
        Plot.of(plots.improvements, "How likely one method beats another", *comparisons, title="Which is better?"),
        *more,
    ]


def _measured(results: Results) -> tuple[list[str], list[str]]:
    """The names of metrics that have a curve: those that do not measure the complexity of levels, and those that do."""
    design = results.runs[0].run.domain.design
    described = jax.eval_shape(lambda key: design.describe(design.sample(key)), jax.random.key(0))

    def is_complexity(name: str) -> bool:
        kind, _, metric = name.partition("/")
        return kind in KINDS and (metric == "action_complexity" or metric.removeprefix("solved_") in described)

    measured = {name for run in results.runs for name, values in run.metrics.items() if np.isfinite(values).any()}
    shown = [name for name in measured if name.rpartition("/")[2] not in NOT_SHOWN and not PERCENTILE.search(name)]
    parts = grouped(sorted(shown, key=_order), is_complexity)
    return parts.get(False, []), parts.get(True, [])


def _order(name: str) -> tuple[int, str, int, str]:
    kind, _, metric = name.rpartition("/")
    place = FIRST.index(metric) if metric in FIRST else len(FIRST)
    return place, metric, KINDS.index(kind) if kind in KINDS else len(KINDS), kind


def _group(name: str) -> str:
    kind, *rest = name.split("/")
    if "antagonist" in (kind, *rest):
        return "antagonist"
    return "levels" if kind in KINDS else kind if rest else ""


def _plots(results: Results, groups: Iterable[tuple[str, Sequence[str]]]) -> list[Block]:
    return [
        Plot.of(plots.training_curves, f"{title}: {words}, against steps", results, names, title=title)
        for title, names in groups
        if (words := "; ".join(map(style.words, names)))
    ]


def _text(value: Json) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value)


def _versions(run: Run) -> str:
    content = json.loads((run.directory / CONFIG).read_text())
    packages = content.get("packages")
    versions = {"tutelage": content.get("tutelage", "–")} | (packages if isinstance(packages, dict) else {})
    return ", ".join(f"{name} {version}" for name, version in versions.items())
