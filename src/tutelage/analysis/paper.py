"""The paper's figures and tables from runs of any length, with its published numbers beside them.

Each exhibit says how long its runs were, how many seeds they had and whether their setting was the paper's. What the
runs cannot show is listed with the reason. Figures 2 and 7 are drawings; all others of the paper are here.

The numbers in `published/` are those of Tables 2 and 3 of M. Jiang, M. Dennis, J. Parker-Holder, J. Foerster,
E. Grefenstette, T. Rocktäschel, "Replay-Guided Adversarial Environment Design", NeurIPS 2021. For mazes they are solved
rates, although the paper calls them returns.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import resources
from itertools import product
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure

from tutelage.analysis import plots, style
from tutelage.analysis.compare import (
    ALL,
    CONTRAST,
    Comparison,
    compare,
    contrast,
    contrast_cells,
    regret_contests,
    regret_rows,
    regret_tables,
)
from tutelage.analysis.plots import Center, Panel
from tutelage.analysis.report.page import Block, Plot, Section, render
from tutelage.analysis.results import CLOCKS, Clock, EvaluationTable, History, Results, RunResults, display, grouped
from tutelage.analysis.statistics import holm, mean, standard_error
from tutelage.analysis.tables import Table, latex, markdown, plus_minus, probability
from tutelage.curriculum.methods import METHODS, Method
from tutelage.domains.racing.suite import circuits
from tutelage.evaluation.evaluate import is_fixed
from tutelage.files import csv_text, write_atomically
from tutelage.training.presets import SETUPS
from tutelage.training.run import Run
from tutelage.training.serialization import flat
from tutelage.types import InputError

CITATION = "Jiang et al., Replay-Guided Adversarial Environment Design, NeurIPS 2021"

TRACKS = ("Italy", "Singapore", "Germany")
"""The F1 circuits on which the paper chose its hyperparameters."""

DOTTED = "; new levels dotted, where others are replayed"
"""The end of the title of curves of complexity."""

SUITES = {"maze": ("paper", "maze"), "racing": ("f1", "f1-released")}
"""Suites with the paper's test levels by domain; the first that runs were evaluated on is used."""

PUBLISHED = {"maze": "mazes_25_blocks", "racing": "f1"}
"""The paper's numbers for them, in `published/`."""

COMPLEXITY: Mapping[str, Sequence[str]] = {
    "maze": ("shortest_path", "blocks", "action_complexity", "solved_shortest_path"),
    "racing": ("track_length", "mean_curvature", "max_curvature", "overlap"),
}


class Claim(NamedTuple):
    """One method is better than another on test levels after equally many steps or updates."""

    better: str
    worse: str
    at: Clock = "steps"


CLAIMS = {
    "maze": (
        Claim("plr-perp", "dr", "updates"),
        Claim("plr-perp", "plr", "updates"),
        Claim("repaired", "paired"),
        Claim("plr", "paired"),
        Claim("plr-perp", "paired"),
        Claim("dr", "minimax"),
        Claim("paired", "minimax"),
    ),
    "racing": (
        *(Claim("plr-perp", other) for other in ("dr", "paired", "repaired", "plr")),
        Claim("repaired", "paired"),
        Claim("dr", "repaired"),
    ),
}
"""The paper's claims by domain, about means over test levels."""

_FREE = ("seed", "devices", "evaluation.", "storage.", "method.name")
"""Options that do not decide the course of learning."""

MINIMAX_REGRET = ("plr-perp", "repaired")
"""Methods that minimize the worst-case regret in equilibrium (Corollary 2)."""


@dataclass(frozen=True)
class Exhibit:
    """One figure or table of the paper."""

    paper: str
    """Which figure or table of the paper it is."""
    title: str
    name: str
    """The stem of its file names."""
    setting: str = ""
    """What it was made from."""
    draw: Callable[..., Figure] | None = None
    """Draws the figure in a given `width`."""
    tables: Sequence[Table] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    """Its numbers; by default those of the first table."""

    def write(self, out: Path) -> Section:
        """Write its files, and return its section of the page."""
        label, blocks, files = f"{self.paper}: {self.title}", list[Block](self.tables), dict[str, str | bytes]()
        if self.draw:
            wide = self.draw()
            files |= {"svg": (picture := plots.svg(wide)), "png": plots.png(wide)}
            blocks = [Plot(picture, plots.svg(self.draw(width=style.NARROW)), label), *blocks]
        if rows := self.rows or [row for table in self.tables[:1] for row in table.records()]:
            files["csv"] = csv_text(rows, [*dict.fromkeys(column for row in rows for column in row)])
        if self.tables:
            files["md"] = "\n".join([self.setting, "", *map(markdown, self.tables)])
            files["tex"] = "\n".join([f"% {self.setting}", *map(latex, self.tables)])
        for suffix, content in files.items():
            write_atomically(out / f"{self.name}.{suffix}", content)
        return Section(self.name, label, self.setting, blocks)


@dataclass(frozen=True)
class Paper:
    """The exhibits that could be made, and those that could not."""

    exhibits: Sequence[Exhibit]
    missing: Sequence[tuple[str, str, str]]
    """Figure or table of the paper, what it shows, and why it could not be made."""

    def overview(self) -> Table:
        """A row for each figure and table of the paper."""
        made = [[each.paper, each.title, each.name] for each in self.exhibits]
        return Table(["paper", "what it shows", "files, or why not"], [*made, *map(list, self.missing)], words=True)

    def write(self, out: str | Path) -> Path:
        """Write all files, and one page that shows them all. Returns the path of the page."""
        about = f"Published numbers: {CITATION}."
        sections = [Section("overview", "Overview", about, [self.overview()])]
        sections += [exhibit.write(Path(out)) for exhibit in self.exhibits]
        page = Path(out) / "paper.html"
        write_atomically(page, render("The paper's figures and tables", CITATION, sections))
        return page


def paper(runs: Sequence[Run | RunResults], center: Center = "median") -> Paper:
    """All figures and tables of the paper that these runs can show; with none, the tables that need none.

    Args:
        runs: of either domain, or of both; see `results.find_results`.
        center: how bars and curves summarize several runs.
    """
    results = [run if isinstance(run, RunResults) else RunResults(run) for run in runs]
    exhibits: list[Exhibit] = []
    others = dict.fromkeys(run.run.config.setup.name for run in results if run.run.config.setup.name not in _EXHIBITS)
    reason = f"The paper's domains are {' and '.join(_EXHIBITS)}: compare runs of others with tutelage compare."
    missing = [("–", f"All of {domain}", reason) for domain in others]
    for domain, parts in _EXHIBITS.items():
        own = [run for run in results if run.run.config.setup.name == domain]
        if not own:
            names = ", ".join(dict.fromkeys(blank.paper for blank, build in parts if build is not _setting))
            reason = f"There are no runs: tutelage train METHOD --domain {domain} --preset paper --seeds 10."
            missing.append((names, f"All of {domain}", reason))
            continue
        source = _Source(Results(own), center)
        for blank, build in parts:
            try:
                exhibits.append(build(blank, source))
            except InputError as error:
                missing.append((blank.paper, blank.title, str(error)))
    return Paper([*exhibits, *(build() for build in TABLES.values())], missing)


@dataclass(frozen=True)
class _Source:
    """The runs of one domain."""

    results: Results
    center: Center

    def evaluations(self, *suites: str) -> EvaluationTable:
        """The evaluations on the first of these suites, or of the paper's, that any run was evaluated on."""
        suites = suites or SUITES[self.results.domain]
        tested = {row["suite"] for run in self.results.runs for row in run.tested}
        for suite in suites:
            if suite in tested:
                return self.results.evaluation_table(suite, partly=True)
        raise InputError(f"No run was evaluated on the suite {suites[0]}: tutelage eval RUNS --suite {suites[0]}.")

    def setting(self, comparison: Comparison | None = None) -> str:
        """How long the runs were, how many there are, and whether their setting is the paper's."""
        if comparison is None:
            lengths = {label: (len(group), _length(group)) for label, group in self.results.groups.items()}
        else:
            lengths = {label: (len(x), comparison.times[label]) for label, x in comparison.values.items()}
        parts = [f"{display(label)}: {_seeds(n)}, {steps:,} steps" for label, (n, steps) in lengths.items()]
        return f"{'; '.join(parts)}. {self.setting_sentence}"

    @cached_property
    def setting_sentence(self) -> str:
        names = {name for each in self.differences.values() for name in each}
        different = f"Not the paper's setting: {len(names)} of its options differ (see Setting)."
        return different if names else "The options are the paper's."

    @cached_property
    def differences(self) -> dict[str, dict[str, tuple[Any, Any]]]:
        """By method: the options that are not the paper's, with its value and theirs."""
        found = {}
        for label, group in self.results.groups.items():
            config = group[0].run.config
            if method := _family(config.method):
                ours, theirs = (flat(each.to_json()) for each in (config, type(config.setup).preset("paper", method)))
                names = sorted(name for name in ours.keys() | theirs.keys() if not name.startswith(_FREE))
                found[label] = {n: (theirs.get(n), ours.get(n)) for n in names if ours.get(n) != theirs.get(n)}
        return found


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count > 1)}"


def _length(group: Sequence[RunResults]) -> int:
    """Environment steps of the longest run."""
    return max(int(run.metrics["steps"][-1]) if run.metrics else 0 for run in group)


def _family(method: Method) -> str | None:
    """Which of the library's methods it is, whatever its name and options."""

    def kind(each: Method) -> tuple[Any, ...]:
        utility = getattr(each.generator, "utility", None)
        return type(each.generator), utility, each.students, each.curator is None, each.train_on_new, each.edits > 0

    return next((name for name, known in METHODS.items() if kind(known) == kind(method)), None)


def _setting(blank: Exhibit, source: _Source) -> Exhibit:
    differences, groups = source.differences, source.results.groups
    rows = []
    for name in sorted({name for each in differences.values() for name in each}):
        paper = {str(each[name][0]) for each in differences.values() if name in each}
        cells = [str(each[name][1]) if name in each else "as the paper" for each in differences.values()]
        rows.append([name, " or ".join(sorted(paper)), *cells])
    if len(differences) == len(groups):
        seeds = [", ".join(str(run.seed) for run in group) for group in groups.values()]
        lengths = [f"{_length(group):,}" for group in groups.values()]
        rows = [["seeds", "10 runs", *seeds], ["steps so far", "", *lengths], *rows]
    table = Table(["option", "paper", *map(display, differences)], rows, words=True)
    return replace(blank, setting=source.setting_sentence, tables=[table])


def _gallery(blank: Exhibit, source: _Source) -> Exhibit:
    pictures: dict[str, list[Any]] = {}
    rows: list[dict[str, Any]] = []
    for label, group in source.results.groups.items():
        run = next((run for run in group if run.snapshots), None)
        design = group[0].run.domain.design
        if run is None or not hasattr(design, "image"):
            continue
        last = run.snapshots[-1]
        levels = last.get("drawn") or [entry["level"] for entry in last["entries"]]
        if "drawn" not in last and last["source"] != "generator":
            # entries of older runs' buffers begin with the highest scores: spread over all of them
            levels = levels[:: max(1, len(levels) // 8)]
        image = jax.jit(design.image)
        drawn = [np.asarray(image(design.from_json(level))) for level in levels[:8]]
        pictures[display(label)] = [x[:: max(1, len(x) // 120), :: max(1, len(x) // 120)] for x in drawn]
        about = {"method": label, "seed": run.seed, "steps": last["steps"]}
        rows += [about | {"number": i, "level": level} for i, level in enumerate(levels[:8])]
    if not pictures:
        raise InputError("No run has a snapshot of its levels, or the domain does not draw them.")
    setting = "Random draws of the levels that a run of each method trains on at its end: replayed by the curator, or "
    setting += f"new from the generator. {source.setting()}"
    return replace(blank, setting=setting, draw=partial(plots.gallery, pictures, blank.title), rows=rows)


def _bars(blank: Exhibit, source: _Source) -> Exhibit:
    comparison = compare(source.evaluations(), ends=True)
    domain = source.results.runs[0].run.domain
    drawn = {level.name for level in domain.suites.get(comparison.evaluations.suite, ()) if not is_fixed(level)}
    names = {level: f"{level}*" for level in drawn}
    note = " An asterisk marks levels that are drawn again for each episode." if drawn else ""
    reference = None
    if comparison.evaluations.domain == "racing":
        value = published("f1")["AttentionAgent"]["Mean"][0]
        reference = f"AttentionAgent, mean of all tracks (published): {value:.0f}", value
    title = f"{comparison.title}; {plots.CENTERS[source.center]}"
    draw = partial(plots.bars, comparison, title, center=source.center, names=names, reference=reference)
    return replace(blank, setting=source.setting(comparison) + note, draw=draw, rows=comparison.rows())


def _maze_curves(blank: Exhibit, source: _Source) -> Exhibit:
    evaluations, panels = source.evaluations(), list[Panel]()
    title = "solved rate on test mazes" if evaluations.metric == "solved" else "return on test mazes"
    for at in CLOCKS:
        panels += plots.level_panels(evaluations, at, {ALL: title})
        panels += _complexity_panels(source, at, COMPLEXITY["maze"][:2])
    return _panels(blank, source, panels, DOTTED)


def _racing_curves(blank: Exhibit, source: _Source) -> Exhibit:
    panels: list[Panel] = []
    suites = {"original": {ALL: "original CarRacing"}, "f1": {track: f"F1 {track}" for track in TRACKS}}
    for suite, titles in suites.items():
        with suppress(InputError):
            evaluations = source.evaluations(suite)
            known = {level: title for level, title in titles.items() if level in (ALL, *evaluations.levels)}
            panels += plots.level_panels(evaluations, "steps", known)
    lacking = "No run was evaluated on original or f1: train with --suite original --more-suites f1."
    return _panels(blank, source, panels, lacking=lacking)


def _complexity_panels(source: _Source, at: Clock, names: Iterable[str]) -> list[Panel]:
    """New and curated levels in one panel: the curator's as lines, new ones dotted beside them."""
    panels = []
    for name in names:
        new, replayed = (plots.metric_curves(source.results, f"{kind}/{name}", at) for kind in ("new", "replayed"))
        lines = {label: replayed.get(label) or curves for label, curves in new.items()}
        beside = {label: curves for label, curves in new.items() if replayed.get(label)}
        if any(lines.values()):
            panels.append(Panel(style.words(name), lines, at, [beside] if beside else []))
    return panels


def _complexity(blank: Exhibit, source: _Source) -> Exhibit:
    panels = _complexity_panels(source, "steps", COMPLEXITY[source.results.domain])
    return _panels(blank, source, panels, DOTTED, lacking="No run has measured its levels.")


def _returns(blank: Exhibit, source: _Source) -> Exhibit:
    names = {
        "new/return": "protagonist, new levels",
        "replayed/return": "protagonist, replayed levels",
        "new/antagonist/return": "antagonist, new levels",
        "teacher/utility": "generator",
    }
    panels = []
    for metric, title in names.items():
        curves = plots.metric_curves(source.results, metric, "steps")
        if any(np.isfinite(y).any() for group in curves.values() for _, y in group):
            panels.append(Panel(f"return of the {title}", curves))
    return _panels(blank, source, panels, lacking="No run has measured returns.")


def _panels(blank: Exhibit, source: _Source, panels: list[Panel], note: str = "", lacking: str = "") -> Exhibit:
    """These panels, or an `InputError` that says what is `lacking`."""
    if not panels:
        raise InputError(lacking)
    panels = [panel for panel in panels if plots.panel_rows([panel])]
    title = f"{plots.CENTERS[source.center]} of runs{note}".capitalize()
    draw = partial(plots.curve_panels, panels, title, center=source.center)
    return replace(blank, setting=source.setting(), draw=draw, rows=plots.panel_rows(panels))


def _levels(blank: Exhibit, source: _Source) -> Exhibit:
    comparison, beside = compare(source.evaluations(), ends=True), published(PUBLISHED[source.results.domain])
    rows = [
        {"suite": "published", "method": method, "level": level, "mean": value, "standard_error": error}
        for method, levels in beside.items()
        for level, (value, error) in levels.items()
    ]
    table = level_table(comparison, beside)
    return replace(blank, setting=source.setting(comparison), tables=[table], rows=[*comparison.rows(), *rows])


def level_table(comparison: Comparison, beside: Mapping[str, Mapping[str, tuple[float, float]]]) -> Table:
    """Mean ± standard error for each level and over all levels, next to the published numbers.

    Bold: within one standard error of the best in the row, among measured and among published numbers.
    """
    measured = {
        display(label): {level: (x.mean, x.standard_error) for level, x in summaries.items()}
        for label, summaries in comparison.summaries.items()
    }
    rounded = 1 if comparison.evaluations.metric == "solved" else 0  # as they were published
    rows, bold = [], set()
    for i, level in enumerate((*comparison.evaluations.levels, ALL)):
        row = [level]
        for columns, digits in ((measured, comparison.digits), (beside, rounded)):
            cells = [x.get(level, x.get("Mean" if level == ALL else level)) for x in columns.values()]
            best, error = max((cell for cell in cells if cell), default=(0.0, 0.0), key=itemgetter(0))
            for cell in cells:
                if cell and cell[0] >= best - np.nan_to_num(error) - 1e-9:
                    bold.add((i, len(row)))
                row.append(plus_minus(*cell, digits) if cell else "–")
        rows.append(row)
    runs = {display(label): _seeds(len(x)) for label, x in comparison.values.items()}
    head = ["mean ± standard error", *(f"{n} ({runs[n]})" for n in measured), *(f"{n} (published)" for n in beside)]
    return Table(head, rows, comparison.title, bold=bold)


def published(table: str) -> dict[str, dict[str, tuple[float, float]]]:
    """The paper's numbers by method and level: the mean and its standard error, NaN where it gives none."""
    text = (resources.files("tutelage.analysis") / "published" / f"{table}.csv").read_text()
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for level, method, value, error in list(csv.reader(text.splitlines()))[1:]:
        name = method.replace("PLR-perp", "PLR⊥").replace("-500M", ", 500M steps")
        found.setdefault(name, {})[level] = float(value), float(error or "nan")
    return found


def _claims(blank: Exhibit, source: _Source) -> Exhibit:
    evaluations = source.evaluations()
    rows: list[dict[str, Any]] = []
    lacking = []
    for claim in CLAIMS[source.results.domain]:
        firsts, seconds = (
            [label for label in evaluations.histories if label.partition(",")[0] == method] for method in claim[:2]
        )
        pairs = [*product(firsts, seconds)]
        if not pairs:
            lacking.append(f"{display(claim.better)} > {display(claim.worse)}")
        for first, second in pairs:
            about = {"claim": f"{display(first)} > {display(second)}", "metric": evaluations.metric, "at": claim.at}
            rows.append(about | contest(evaluations, first, second, claim.at))
            if claim.better in MINIMAX_REGRET:
                for found in regret_contests(source.results, first, second):
                    metric = f"regret, worst 1 %, {found.pop('level')}"
                    rows.append(about | {"metric": metric, "at": "end", "time": None} | found)
    if not rows:
        raise InputError(f"There are no two methods of which the paper claims anything: {'; '.join(lacking)}.")
    for row, p in zip(rows, holm(np.array([row["p"] for row in rows])), strict=True):
        better = (row["difference"] > 0) == (row["metric"] == evaluations.metric)  # regret should be lower
        row["corrected_p"] = float(p)
        row["verdict"] = "not decided" if not p < 0.05 else "holds" if better else "the opposite holds"
    coarse = 0 if evaluations.metric == "return" and source.results.domain == "racing" else 2
    cells = [
        [
            row["claim"],
            row["metric"],
            "the end" if row["time"] is None else f"{row['time']:,} {row['at']}",
            *contrast_cells(row, coarse if row["metric"] == evaluations.metric else 3),
            probability(row["corrected_p"]),
            row["verdict"],
        ]
        for row in rows
    ]
    caption = f"Welch's test of runs' means over the suite {evaluations.suite}, on lines between evaluations"
    if any(row["metric"] != evaluations.metric for row in rows):
        caption += "; and of true regret on the worst levels of the suite robustness, which should be lower"
    setting = source.setting() + (f" Without runs: {'; '.join(lacking)}." if lacking else "")
    head = ["claim of the paper", "metric", "after", *CONTRAST, "p (Holm)", "here"]
    return replace(blank, setting=setting, tables=[Table(head, cells, caption)], rows=rows)


def contest(evaluations: EvaluationTable, first: str, second: str, at: Clock) -> dict[str, Any]:
    """One method against another: means, Welch's test and Hedges' g.

    They are compared at the last point that all runs have reached. If a run has no evaluation until then, all are
    compared at their ends, and the time is None.
    """
    groups = evaluations.histories[first], evaluations.histories[second]
    time = min(int(history.clock(at)[-1]) for group in groups for history in group)
    found = [[history.at(time, at) for history in group] for group in groups]
    ends = any(values is None for group in found for values in group)
    if ends:
        found = [[history.values[-1] for history in group] for group in groups]
    x, y = (np.array([values.mean() for values in group if values is not None]) for group in found)
    return {"time": None if ends else time} | contrast(x, y)


def _minimum(blank: Exhibit, source: _Source) -> Exhibit:
    histories: dict[str, tuple[History, ...]] = {}
    evaluations, counts = source.evaluations(), list[int]()
    for label, group in source.results.groups.items():
        for run in group:
            last = run.last_episodes(evaluations.suite)
            episodes = grouped(last, itemgetter("level"))
            if {*episodes} >= {*evaluations.levels}:
                counts.append(min(map(len, episodes.values())))
                lowest = np.array([[min(row["return"] for row in episodes[level]) for level in evaluations.levels]])
                steps = np.array([run.evaluated(evaluations.suite)[last[0]["iteration"]]])
                updates = np.interp(steps, run.metrics["steps"], run.metrics["updates"]).astype(int)
                history = History(run.directory, steps, updates, np.array(counts[-1:]), lowest)
                histories[label] = (*histories.get(label, ()), history)
    if not histories:
        raise InputError("No run has kept its episodes on F1: tutelage eval RUNS --suite f1.")
    comparison = compare(replace(evaluations, metric="return", histories=histories), ends=True)
    title = f"Minimum return over {min(counts)} episodes on each track; {plots.CENTERS[source.center]}"
    draw = partial(plots.bars, comparison, title, center=source.center)
    return replace(blank, setting=source.setting(comparison), draw=draw, rows=comparison.rows())


def _regret(blank: Exhibit, source: _Source) -> Exhibit:
    rows = [row for row in regret_rows(source.results) if row["suite"] == "robustness"]
    if not rows:
        raise InputError("No run has regrets: tutelage eval RUNS --suite robustness --episodes 10000.")
    return replace(blank, setting=source.setting(), tables=regret_tables(rows, display), rows=rows)


def _walls(blank: Exhibit, source: _Source) -> Exhibit:
    suite = source.evaluations().suite
    names = ("wall_right", "wall_left")
    shares: dict[str, list[Any]] = {}
    for label, group in source.results.groups.items():
        for run in group:
            if episodes := [row for row in run.last_episodes(suite) if all(name in row for name in names)]:
                own = [np.mean([row[name] for row in episodes]) for name in names]
                shares.setdefault(display(label), []).append(own)
    for run in source.results.runs:
        baselines = [x for x in run.tests if x.is_baseline and x.suite == suite and x.measures]
        for policy, found in grouped(baselines, attrgetter("policy")).items():
            shares.setdefault(policy, [np.mean([[x.measures[name] for name in names] for x in found], axis=0)])
    if not shares:
        raise InputError(f"No run has kept its episodes: tutelage eval RUNS --suite {suite} --baselines.")
    rows = list[dict[str, Any]]()
    for policy, values in shares.items():
        x = np.array(values)
        columns = dict(zip(names, map(float, mean(x)), strict=True))
        columns |= {f"{name}_error": float(error) for name, error in zip(names, standard_error(x), strict=True)}
        rows.append({"policy": policy, "runs": len(x), **columns})
    cells = [
        [row["policy"], str(row["runs"]), *(plus_minus(row[name], row[f"{name}_error"], 2) for name in names)]
        for row in rows
    ]
    head = ["", "runs", "wall at the right hand", "wall at the left hand"]
    caption = f"Share of an episode's steps, suite {suite}: a right-hand rule has a wall at the right much more often"
    return replace(blank, setting=source.setting(), tables=[Table(head, cells, caption)], rows=rows)


def hyperparameters() -> Exhibit:
    """The options of the paper's presets, methods as columns."""

    def text(value: Any) -> str:
        return "–" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)

    tables, rows = [], list[dict[str, Any]]()
    for domain, setup in SETUPS.items():
        configs = {name: flat(setup.preset("paper", name).to_json()) for name in METHODS}
        names = dict.fromkeys(name for each in configs.values() for name in each if not name.startswith(_FREE))
        cells = [[name, *(text(each.get(name)) for each in configs.values())] for name in names]
        tables.append(Table(["option", *map(display, configs)], cells, f"{domain}, preset paper", words=True))
        rows += [{"domain": domain} | row for row in tables[-1].records()]
    setting = "Generated from the presets. ACCEL is not in the paper."
    return Exhibit("Table 4", "Hyperparameters", "table-4-hyperparameters", setting, tables=tables, rows=rows)


def f1_circuits() -> Exhibit:
    """The circuits of the F1 benchmark with their real names."""
    cells = [[each.name, each.circuit, f"{each.length:,}", f"{each.frames:,}"] for each in circuits()]
    table = Table(["track", "circuit", "length in the game's meters", "time limit in frames"], cells, words=True)
    return Exhibit("Table 5", "The F1 benchmark", "table-5-circuits", "From the package.", tables=[table])


TABLES: Mapping[str, Callable[[], Exhibit]] = {"hyperparameters": hyperparameters, "circuits": f1_circuits}
"""The tables that need no runs."""

_EXHIBITS: Mapping[str, Sequence[tuple[Exhibit, Callable[[Exhibit, _Source], Exhibit]]]] = {
    "maze": (
        (Exhibit("Figures 5, 15", "Mazes that each method trains on", "maze-levels"), _gallery),
        (Exhibit("Figures 3, 8, 11", "Zero-shot test performance on mazes", "maze-zero-shot"), _bars),
        (Exhibit("Figures 4, 12", "Test performance and complexity over training", "maze-curves"), _maze_curves),
        (Exhibit("Figures 9, 13", "Returns of protagonist, antagonist and generator", "maze-returns"), _returns),
        (Exhibit("Figures 10, 14", "Complexity of levels", "maze-complexity"), _complexity),
        (Exhibit("Table 2", "Test performance on each maze", "maze-table"), _levels),
        (Exhibit("Section 6.1", "Significance of the paper's claims", "maze-claims"), _claims),
        (Exhibit("Section 6.1", "Wall-following", "maze-walls"), _walls),
        (Exhibit("Theorem 1", "True regret on random levels", "maze-regret"), _regret),
        (Exhibit("Setting", "What differs from the paper", "maze-setting"), _setting),
    ),
    "racing": (
        (Exhibit("Figures 1, 18", "Tracks that each method trains on", "racing-levels"), _gallery),
        (Exhibit("Figure 6", "Test returns over training", "racing-curves"), _racing_curves),
        (Exhibit("Figure 6", "Zero-shot test returns on F1", "racing-zero-shot"), _bars),
        (Exhibit("Figure 16", "Returns of protagonist, antagonist and generator", "racing-returns"), _returns),
        (Exhibit("Section 6.2", "Complexity of tracks", "racing-complexity"), _complexity),
        (Exhibit("Figure 17", "Minimum returns on each track", "racing-minimum"), _minimum),
        (Exhibit("Table 3", "Test returns on each F1 track", "racing-table"), _levels),
        (Exhibit("Section 6.2", "Significance of the paper's claims", "racing-claims"), _claims),
        (Exhibit("Setting", "What differs from the paper", "racing-setting"), _setting),
    ),
}
"""By domain, in the order of the page: blank exhibits, and functions that fill them in."""
