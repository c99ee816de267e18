"""The paper's figures and tables from runs of any length, with its published numbers beside them.

Each exhibit says how long its runs were, how many seeds they had and whether their setting was the paper's. What the
runs cannot show is listed with the reason. Figures 2 and 7 are drawings; all others of the paper are here.

The numbers in `published/` are those of Tables 2 and 3 of M. Jiang, M. Dennis, J. Parker-Holder, J. Foerster,
E. Grefenstette, T. Rocktäschel, "Replay-Guided Adversarial Environment Design", NeurIPS 2021. For mazes they are solved
rates, although the paper calls them returns.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure

from tutelage.analysis import plots, style
from tutelage.analysis.compare import (
    ALL,
    Comparison,
    compare,
    contrast,
    regret_contests,
    regret_rows,
    regret_tables,
)
from tutelage.analysis.plots import Center, Panel
from tutelage.analysis.report.page import Block, Plot, Section, render
from tutelage.analysis.results import CLOCKS, Clock, History, Results, RunResults, Study, display
from tutelage.analysis.statistics import Scores, holm, mean, standard_error
from tutelage.analysis.tables import Table, decimal, latex, markdown, plus_minus, probability
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

MINIMAX_REGRET = ("plr-perp", "repaired")
"""Methods that minimize the worst-case regret in equilibrium (Corollary 2)."""


@dataclass(frozen=True)
class Exhibit:
    """One figure or table of the paper."""

    name: str
    """The stem of its file names."""
    paper: str
    """Which figure or table of the paper it is."""
    title: str
    setting: str = ""
    """What it was made from."""
    draw: Callable[..., Figure] | None = None
    """Draws the figure in a given `width`."""
    tables: Sequence[Table] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    """Its numbers; by default those of the first table."""

    def section(self, wide: Figure | None) -> Section:
        """Its section of the page."""
        blocks: list[Block] = [*self.tables]
        label = f"{self.paper}: {self.title}"
        if wide and self.draw:
            blocks.insert(0, Plot(plots.svg(wide), plots.svg(self.draw(width=style.NARROW)), label))
        return Section(self.name, label, self.setting, blocks)

    def files(self, wide: Figure | None) -> Iterator[tuple[str, str | bytes]]:
        """The name and content of each of its files."""
        if wide:
            yield f"{self.name}.svg", plots.svg(wide)
            yield f"{self.name}.png", plots.png(wide)
        if rows := self.rows or [row for table in self.tables[:1] for row in table.records()]:
            yield f"{self.name}.csv", csv_text(rows, [*dict.fromkeys(column for row in rows for column in row)])
        if self.tables:
            yield f"{self.name}.md", "\n".join([self.setting, "", *map(markdown, self.tables)])
            yield f"{self.name}.tex", "\n".join([f"% {self.setting}", *map(latex, self.tables)])


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
        sections = [Section("overview", "Overview", f"Published numbers: {CITATION}.", [self.overview()])]
        for exhibit in self.exhibits:
            wide = exhibit.draw() if exhibit.draw else None
            for name, content in exhibit.files(wide):
                write_atomically(Path(out) / name, content)
            sections.append(exhibit.section(wide))
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
    missing: list[tuple[str, str, str]] = []
    for domain, parts in _PARTS.items():
        own = [run for run in results if run.run.config.setup.name == domain]
        if not own:
            names = ", ".join(dict.fromkeys(part.paper for part in parts if part.name != f"{domain}-setting"))
            reason = f"There are no runs: tutelage train METHOD --domain {domain} --preset paper --seeds 10."
            missing.append((names, f"All of {domain}", reason))
            continue
        for part in parts:
            try:
                exhibits.append(part.build(part, _Source(Results(own), center)))
            except InputError as error:
                missing.append((part.paper, part.title, str(error)))
    return Paper([*exhibits, *(build() for build in TABLES.values())], missing)


class _Part(NamedTuple):
    """A figure or table of the paper, and how to make it."""

    paper: str
    title: str
    name: str
    build: Callable[[_Part, _Source], Exhibit]

    def exhibit(self, setting: str, **content: Any) -> Exhibit:
        return Exhibit(self.name, self.paper, self.title, setting, **content)


@dataclass(frozen=True)
class _Source:
    """The runs of one domain."""

    results: Results
    center: Center

    def study(self, *suites: str) -> Study:
        """The evaluations on the first of these suites, or of the paper's, that any run was evaluated on."""
        suites = suites or SUITES[self.results.domain]
        tested = {row["suite"] for run in self.results.runs for row in run.tested}
        for suite in suites:
            if suite in tested:
                return self.results.study(suite, partly=True)
        raise InputError(f"No run was evaluated on the suite {suites[0]}: tutelage eval RUNS --suite {suites[0]}.")

    def setting(self, comparison: Comparison | None = None) -> str:
        """How long the runs were, how many there are, and whether their setting is the paper's."""
        parts = []
        for label, group in self.results.groups.items():
            seeds, length = len(group), _length(group)
            if comparison is not None:
                if label not in comparison.scores:
                    continue
                seeds, length = len(comparison.scores[label]), comparison.times[label]
            parts.append(f"{display(label)}: {_seeds(seeds)}, {length:,} steps")
        return f"{'; '.join(parts)}. {self.setting_sentence}"

    @cached_property
    def setting_sentence(self) -> str:
        names = {name for each in self.differences.values() for name in each}
        if not names:
            return "The options are the paper's."
        return f"Not the paper's setting: {len(names)} of its options differ (see Setting)."

    @cached_property
    def differences(self) -> dict[str, dict[str, tuple[Any, Any]]]:
        """By method: the options that are not the paper's, with its value and theirs."""
        found = {}
        for label, group in self.results.groups.items():
            config = group[0].run.config
            if (method := _family(config.method)) is None:
                continue
            ours, theirs = (
                {name: x for name, x in flat(each.to_json()).items() if not name.startswith(_FREE)}
                for each in (config, type(config.setup).preset("paper", method))
            )
            names = sorted(ours.keys() | theirs.keys())
            found[label] = {n: (theirs.get(n), ours.get(n)) for n in names if ours.get(n) != theirs.get(n)}
        return found


def _length(group: Sequence[RunResults]) -> int:
    """Environment steps of the longest run."""
    return max(int(run.metrics["steps"][-1]) if run.metrics else 0 for run in group)


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count > 1)}"


_FREE = ("seed", "devices", "evaluation.", "storage.", "method.name")
"""Options that do not decide the course of learning."""


def _family(method: Method) -> str | None:
    """Which of the library's methods it is, whatever its name and options."""

    def kind(each: Method) -> tuple[Any, ...]:
        utility = getattr(each.generator, "utility", None)
        return type(each.generator), utility, each.students, each.curator is None, each.train_on_new, each.edits > 0

    return next((name for name, known in METHODS.items() if kind(known) == kind(method)), None)


def _setting(part: _Part, source: _Source) -> Exhibit:
    names = sorted({name for each in source.differences.values() for name in each})
    groups = source.results.groups
    rows = []
    for name in names:
        paper = {str(each[name][0]) for each in source.differences.values() if name in each}
        cells = [str(each[name][1]) if name in each else "as the paper" for each in source.differences.values()]
        rows.append([name, " or ".join(sorted(paper)), *cells])
    lengths = [f"{_length(group):,}" for group in groups.values()]
    seeds = [", ".join(str(run.seed) for run in group) for group in groups.values()]
    head = ["option", "paper", *(display(label) for label in source.differences)]
    if len(source.differences) == len(groups):
        rows = [["seeds", "10 runs", *seeds], ["steps so far", "", *lengths], *rows]
    return part.exhibit(source.setting_sentence, tables=[Table(head, rows, words=True)])


def _gallery(part: _Part, source: _Source) -> Exhibit:
    pictures: dict[str, list[Any]] = {}
    rows: list[dict[str, Any]] = []
    for label, group in source.results.groups.items():
        run = next((run for run in group if run.snapshots), None)
        design = group[0].run.domain.design
        if run is None or not hasattr(design, "image"):
            continue
        last = run.snapshots[-1]
        drawn = last.get("drawn") or [entry["level"] for entry in last["entries"]]
        # entries of older runs' buffers begin with the highest scores: spread over all of them
        levels = drawn if "drawn" in last or last["source"] == "generator" else drawn[:: max(1, len(drawn) // 8)]
        image = jax.jit(design.image)
        pictures[display(label)] = [_small(image(design.from_json(level))) for level in levels[:8]]
        about = {"method": label, "seed": run.seed, "steps": last["steps"]}
        rows += [about | {"number": i, "level": level} for i, level in enumerate(levels[:8])]
    if not pictures:
        raise InputError("No run has a snapshot of its levels, or the domain does not draw them.")
    setting = "Random draws of the levels that a run of each method trains on at its end: replayed by the curator, or "
    setting += f"new from the generator. {source.setting()}"
    return part.exhibit(setting, draw=partial(plots.gallery, pictures, part.title), rows=rows)


def _small(picture: Any) -> np.ndarray[Any, Any]:
    """A picture no more than 200 pixels wide."""
    picture = np.asarray(picture)
    return picture[:: max(1, len(picture) // 120), :: max(1, len(picture) // 120)]


def _bars(part: _Part, source: _Source) -> Exhibit:
    comparison = compare(source.study(), ends=True)
    domain = source.results.runs[0].run.domain
    drawn = {level.name for level in domain.suites.get(comparison.study.suite, ()) if not is_fixed(level)}
    names = {level: f"{level}*" for level in drawn}
    note = " An asterisk marks levels that are drawn again for each episode." if drawn else ""
    reference = None
    if comparison.study.domain == "racing":
        value = published("f1")["AttentionAgent"]["Mean"][0]
        reference = f"AttentionAgent, mean of all tracks (published): {value:.0f}", value
    title = f"{comparison.title}; {plots.CENTERS[source.center]}"
    draw = partial(plots.bars, comparison, title, center=source.center, names=names, reference=reference)
    return part.exhibit(source.setting(comparison) + note, draw=draw, rows=comparison.rows())


def _maze_curves(part: _Part, source: _Source) -> Exhibit:
    study, panels = source.study(), list[Panel]()
    for at in CLOCKS:
        title = "solved rate on test mazes" if study.metric == "solved" else "return on test mazes"
        panels += [replace(panel, title=title) for panel in plots.level_panels(study, at, [ALL])]
        panels += _complexity_panels(source, at, COMPLEXITY["maze"][:2])
    return _panels(part, source, panels, DOTTED)


def _racing_curves(part: _Part, source: _Source) -> Exhibit:
    panels: list[Panel] = []
    for suite, levels in {"original": [ALL], "f1": TRACKS}.items():
        with suppress(InputError):
            study = source.study(suite)
            shown = [level for level in levels if level in (ALL, *study.levels)]
            for panel in plots.level_panels(study, "steps", shown):
                panels.append(replace(panel, title="original CarRacing" if panel.title == ALL else f"F1 {panel.title}"))
    if not panels:
        raise InputError("No run was evaluated on original or f1: train with --suite original --more-suites f1.")
    return _panels(part, source, panels, "")


def _complexity_panels(source: _Source, against: Clock, names: Iterable[str]) -> list[Panel]:
    """New and curated levels in one panel: the curator's as lines, new ones dotted beside them."""
    panels = []
    for name in names:
        new, replayed = (plots.metric_curves(source.results, f"{kind}/{name}", against) for kind in ("new", "replayed"))
        lines = {label: replayed.get(label) or curves for label, curves in new.items()}
        beside = {label: curves for label, curves in new.items() if replayed.get(label)}
        if any(lines.values()):
            panels.append(Panel(style.words(name), lines, against, [beside] if beside else []))
    return panels


def _complexity(part: _Part, source: _Source) -> Exhibit:
    panels = _complexity_panels(source, "steps", COMPLEXITY[source.results.domain])
    if not panels:
        raise InputError("No run has measured its levels.")
    return _panels(part, source, panels, DOTTED)


def _returns(part: _Part, source: _Source) -> Exhibit:
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
    if not panels:
        raise InputError("No run has measured returns.")
    return _panels(part, source, panels, "")


def _panels(part: _Part, source: _Source, panels: Sequence[Panel], note: str) -> Exhibit:
    panels = [panel for panel in panels if plots.panel_rows([panel])]
    title = f"{plots.CENTERS[source.center]} of runs{note}".capitalize()
    draw = partial(plots.curve_panels, panels, title, center=source.center)
    return part.exhibit(source.setting(), draw=draw, rows=plots.panel_rows(panels))


def _levels(part: _Part, source: _Source) -> Exhibit:
    comparison, beside = compare(source.study(), ends=True), published(PUBLISHED[source.results.domain])
    rows = [
        {"suite": "published", "method": method, "level": level, "mean": value, "standard_error": error}
        for method, levels in beside.items()
        for level, (value, error) in levels.items()
    ]
    table = level_table(comparison, beside)
    return part.exhibit(source.setting(comparison), tables=[table], rows=[*comparison.rows(), *rows])


def level_table(comparison: Comparison, beside: Mapping[str, Mapping[str, tuple[float, float]]]) -> Table:
    """Mean ± standard error for each level and over all levels, next to the published numbers.

    Bold: within one standard error of the best in the row, among measured and among published numbers.
    """
    measured = {
        display(label): {level: (x.mean, x.standard_error) for level, x in summaries.items()}
        for label, summaries in comparison.summaries.items()
    }
    columns = [*measured.values(), *beside.values()]
    sides = range(len(measured)), range(len(measured), len(columns))
    rounded = 1 if comparison.study.metric == "solved" else 0  # as they were published
    digits = [comparison.digits] * len(measured) + [rounded] * len(beside)
    rows, bold = [], set()
    for i, level in enumerate((*comparison.study.levels, ALL)):
        cells = [column.get(level, column.get("Mean" if level == ALL else level)) for column in columns]
        for side in sides:
            if known := {j: cell for j in side if (cell := cells[j]) is not None}:
                best, error = max(known.values(), key=lambda cell: cell[0])
                bold |= {(i, j + 1) for j, (x, _) in known.items() if x >= best - np.nan_to_num(error) - 1e-9}
        rows.append([level, *("–" if x is None else plus_minus(*x, n) for x, n in zip(cells, digits, strict=True))])
    runs = {display(label): _seeds(len(x)) for label, x in comparison.scores.items()}
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


def _claims(part: _Part, source: _Source) -> Exhibit:
    study = source.study()
    rows: list[dict[str, Any]] = []
    lacking = []
    for claim in CLAIMS[source.results.domain]:
        firsts, seconds = (
            [label for label in study.histories if label.partition(",")[0] == method] for method in claim[:2]
        )
        pairs = [*product(firsts, seconds)]
        if not pairs:
            lacking.append(f"{display(claim.better)} > {display(claim.worse)}")
        for first, second in pairs:
            about = {"claim": f"{display(first)} > {display(second)}", "metric": study.metric, "at": claim.at}
            rows.append(about | contest(study, first, second, claim.at))
            if claim.better in MINIMAX_REGRET:
                for found in regret_contests(source.results, first, second):
                    metric = f"regret, worst 1 %, {found.pop('level')}"
                    rows.append(about | {"metric": metric, "at": "end", "time": None} | found)
    if not rows:
        raise InputError(f"There are no two methods of which the paper claims anything: {'; '.join(lacking)}.")
    for row, p in zip(rows, holm(np.array([row["p"] for row in rows])), strict=True):
        better = (row["difference"] > 0) == (row["metric"] == study.metric)  # regret should be lower
        row["corrected_p"] = float(p)
        row["verdict"] = "not decided" if not p < 0.05 else "holds" if better else "the opposite holds"
    coarse = 0 if study.metric == "return" and source.results.domain == "racing" else 2
    cells = []
    for row in rows:
        digits = coarse if row["metric"] == study.metric else 3
        cells.append(
            [
                row["claim"],
                row["metric"],
                "the end" if row["time"] is None else f"{row['time']:,} {row['at']}",
                f"{row['runs']} and {row['other_runs']}",
                f"{decimal(row['mean'], digits)} and {decimal(row['other_mean'], digits)}",
                decimal(row["difference"], digits, "+"),
                decimal(row["effect"], 2, "+"),
                probability(row["p"]),
                probability(row["corrected_p"]),
                row["verdict"],
            ]
        )
    head = [
        "claim of the paper",
        "metric",
        "after",
        "runs",
        "means",
        "difference",
        "Hedges' g",
        "p",
        "p (Holm)",
        "here",
    ]
    caption = f"Welch's test of runs' means over the suite {study.suite}, on lines between evaluations"
    if any(row["metric"] != study.metric for row in rows):
        caption += "; and of true regret on the worst levels of the suite robustness, which should be lower"
    setting = source.setting() + (f" Without runs: {'; '.join(lacking)}." if lacking else "")
    return part.exhibit(setting, tables=[Table(head, cells, caption)], rows=rows)


def contest(study: Study, first: str, second: str, at: Clock) -> dict[str, Any]:
    """One method against another: means, Welch's test and Hedges' g.

    They are compared at the last point that all runs have reached. If a run has no evaluation until then, all are
    compared at their ends, and the time is None.
    """
    groups = study.histories[first], study.histories[second]
    time = min(int(history.clock(at)[-1]) for group in groups for history in group)
    found = [[history.at(time, at) for history in group] for group in groups]
    ends = any(scores is None for group in found for scores in group)
    if ends:
        found = [[history.scores[-1] for history in group] for group in groups]
    x, y = (np.array([scores.mean() for scores in group if scores is not None]) for group in found)
    return {"time": None if ends else time} | contrast(x, y)


def _minimum(part: _Part, source: _Source) -> Exhibit:
    histories: dict[str, tuple[History, ...]] = {}
    study, counts = source.study(), set[int]()
    for label, group in source.results.groups.items():
        for run in group:
            returns: dict[str, list[float]] = {}
            for row in run.last_episodes(study.suite):
                returns.setdefault(row["level"], []).append(row["return"])
            if {*returns} >= {*study.levels}:
                lowest = np.array([[min(returns[level]) for level in study.levels]])
                counts.add(min(map(len, returns.values())))
                steps, updates = (run.metrics[name][-1:].astype(int) for name in ("steps", "updates"))
                history = History(run.directory, steps, updates, np.array([min(counts)]), lowest)
                histories[label] = (*histories.get(label, ()), history)
    if not histories:
        raise InputError("No run has kept its episodes on F1: tutelage eval RUNS --suite f1.")
    comparison = compare(replace(study, metric="return", histories=histories), ends=True)
    title = f"Minimum return over {min(counts)} episodes on each track; {plots.CENTERS[source.center]}"
    draw = partial(plots.bars, comparison, title, center=source.center)
    return part.exhibit(source.setting(comparison), draw=draw, rows=comparison.rows())


def _regret(part: _Part, source: _Source) -> Exhibit:
    rows = [row for row in regret_rows(source.results) if row["suite"] == "robustness"]
    if not rows:
        raise InputError("No run has regrets: tutelage eval RUNS --suite robustness --episodes 10000.")
    return part.exhibit(source.setting(), tables=regret_tables(rows, display), rows=rows)


def _walls(part: _Part, source: _Source) -> Exhibit:
    suite = source.study().suite
    names = ("wall_right", "wall_left")
    rows: list[dict[str, Any]] = []
    for label, group in source.results.groups.items():
        shares = [
            [np.mean([row[name] for row in episodes]) for name in names]
            for run in group
            if (episodes := [row for row in run.last_episodes(suite) if all(name in row for name in names)])
        ]
        if shares:
            rows.append({"policy": display(label), "runs": len(shares), **_spread(names, np.array(shares))})
    for run in source.results.runs:
        scores = [x for x in run.tests if x.is_baseline and x.suite == suite and x.measures]
        for name in dict.fromkeys(score.policy for score in scores):
            if name not in [row["policy"] for row in rows]:
                own = [[score.measures[each] for each in names] for score in scores if score.policy == name]
                rows.append({"policy": name, "runs": 1, **_spread(names, np.mean(own, axis=0, keepdims=True))})
    if not rows:
        raise InputError(f"No run has kept its episodes: tutelage eval RUNS --suite {suite} --baselines.")
    cells = [
        [row["policy"], str(row["runs"]), *(plus_minus(row[name], row[f"{name}_error"], 2) for name in names)]
        for row in rows
    ]
    head = ["", "runs", "wall at the right hand", "wall at the left hand"]
    caption = f"Share of an episode's steps, suite {suite}: a right-hand rule has a wall at the right much more often"
    return part.exhibit(source.setting(), tables=[Table(head, cells, caption)], rows=rows)


def _spread(names: Sequence[str], values: Scores) -> dict[str, float]:
    """Mean and standard error of values [R, n]."""
    columns = [*names, *(f"{name}_error" for name in names)]
    return dict(zip(columns, map(float, (*mean(values), *standard_error(values))), strict=True))


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
    return Exhibit("table-4-hyperparameters", "Table 4", "Hyperparameters", setting, tables=tables, rows=rows)


def f1_circuits() -> Exhibit:
    """The circuits of the F1 benchmark with their real names."""
    cells = [[each.name, each.circuit, f"{each.length:,}", f"{each.frames:,}"] for each in circuits()]
    table = Table(["track", "circuit", "length in the game's meters", "time limit in frames"], cells, words=True)
    return Exhibit("table-5-circuits", "Table 5", "The F1 benchmark", "From the package.", tables=[table])


TABLES: Mapping[str, Callable[[], Exhibit]] = {"hyperparameters": hyperparameters, "circuits": f1_circuits}
"""The tables that need no runs."""

_PARTS: Mapping[str, Sequence[_Part]] = {
    "maze": (
        _Part("Figures 5, 15", "Mazes that each method trains on", "maze-levels", _gallery),
        _Part("Figures 3, 8, 11", "Zero-shot test performance on mazes", "maze-zero-shot", _bars),
        _Part("Figures 4, 12", "Test performance and complexity over training", "maze-curves", _maze_curves),
        _Part("Figures 9, 13", "Returns of protagonist, antagonist and generator", "maze-returns", _returns),
        _Part("Figures 10, 14", "Complexity of levels", "maze-complexity", _complexity),
        _Part("Table 2", "Test performance on each maze", "maze-table", _levels),
        _Part("Section 6.1", "Significance of the paper's claims", "maze-claims", _claims),
        _Part("Section 6.1", "Wall-following", "maze-walls", _walls),
        _Part("Theorem 1", "True regret on random levels", "maze-regret", _regret),
        _Part("Setting", "What differs from the paper", "maze-setting", _setting),
    ),
    "racing": (
        _Part("Figures 1, 18", "Tracks that each method trains on", "racing-levels", _gallery),
        _Part("Figure 6", "Test returns over training", "racing-curves", _racing_curves),
        _Part("Figure 6", "Zero-shot test returns on F1", "racing-zero-shot", _bars),
        _Part("Figure 16", "Returns of protagonist, antagonist and generator", "racing-returns", _returns),
        _Part("Section 6.2", "Complexity of tracks", "racing-complexity", _complexity),
        _Part("Figure 17", "Minimum returns on each track", "racing-minimum", _minimum),
        _Part("Table 3", "Test returns on each F1 track", "racing-table", _levels),
        _Part("Section 6.2", "Significance of the paper's claims", "racing-claims", _claims),
        _Part("Setting", "What differs from the paper", "racing-setting", _setting),
    ),
}
"""By domain, in the order of the page."""
