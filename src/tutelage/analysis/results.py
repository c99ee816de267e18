"""Results of runs, read once, as arrays that can be compared.

Results lie in run directories, or in the small files that `tutelage study results` makes of them:

    evaluations.csv, episodes.csv, training.csv, runs.csv, eval.csv, configs.json, levels.json

R     runs of one method, which differ in their seed only
E     evaluations of one run
L     test levels
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from tutelage.analysis.policy_results import PolicyResult, parse_policy_results, read_policy_results
from tutelage.analysis.statistics import Values
from tutelage.curriculum.methods import METHODS
from tutelage.files import read_csv, read_json
from tutelage.training.config import Config
from tutelage.training.run import CONFIG, EPISODES, EVALUATIONS, PROGRESS, Run, find_runs, parse_rows
from tutelage.types import InputError, Json

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

Rows = Sequence[Mapping[str, Any]]
"""As `Run.evaluations` gives them."""

Metric = Literal["solved", "return"]

Clock = Literal["steps", "updates"]
"""Environment steps or gradient updates of the protagonist. PLR⊥ makes fewer updates in as many steps."""

CLOCKS: Mapping[Clock, str] = {"steps": "environment steps", "updates": "gradient updates"}

Snapshot = Mapping[str, Json]
"""The curriculum's levels at one time."""

Entry = Mapping[str, Json]
"""One level of a snapshot."""

ID = "id"
"""The key of a level's number in an entry."""

WHO = ("variant", "method", "seed")
"""The first columns of a study's files."""

TRAINING, RUNS, EVAL, CONFIGS, LEVELS = "training.csv", "runs.csv", "eval.csv", "configs.json", "levels.json"
"""Files of a study's results, beside `EVALUATIONS` and `EPISODES`."""

Curve = tuple[np.ndarray[Any, Any], Values]
"""Times x[N], which never fall, and values y[N]; NaN where nothing was measured."""

NAMES: Mapping[str, str] = {
    "dr": "DR",
    "minimax": "Minimax",
    "paired": "PAIRED",
    "plr": "PLR",
    "plr-perp": "PLR⊥",
    "repaired": "REPAIRED",
    "accel": "ACCEL",
}
"""The paper's names of the methods."""


@dataclass(frozen=True, eq=False)
class RunResults:
    """The files of one run. Each is read when it is first needed, and never again."""

    run: Run

    @property
    def directory(self) -> Path:
        return self.run.directory

    @property
    def seed(self) -> int:
        return self.run.config.seed

    @property
    def method(self) -> str:
        return self.run.config.method.name

    @cached_property
    def metrics(self) -> dict[str, np.ndarray]:
        """Columns of numbers, NaN where something was not measured in an iteration."""
        return self.run.metrics()

    @cached_property
    def evaluations(self) -> Rows:
        """Those during training, a row for each level."""
        return self.run.evaluations()

    @cached_property
    def tested(self) -> Rows:
        """The evaluations during training and by `tutelage eval`.

        An evaluation by eval replaces one in training after the same number of steps. If training used the same suite
        with other levels, or other actions (greedy or sampled), its evaluations are left out.
        """
        rows = list(self.evaluations)
        for suite, found in grouped(self.own_tests, attrgetter("suite")).items():
            at = np.flatnonzero(self.metrics["steps"] == found[0].steps) if self.metrics else np.empty(0, int)
            conditions = {(row["level"], row["greedy"]) for row in rows if row["suite"] == suite}
            if at.size and conditions in (set(), {(result.level, result.greedy) for result in found}):
                place = {name: int(self.metrics[name][at[0]]) for name in PROGRESS}
                rows = [row for row in rows if (row["suite"], row["steps"]) != (suite, place["steps"])]
                rows += [result.row() | place for result in found]
        return rows

    @cached_property
    def episodes(self) -> Rows:
        """All episodes: of the evaluations during training, then of `tutelage eval`, whose iteration is −1."""
        found = self.run.episodes()
        for path in sorted(self.directory.glob("episodes-*.csv")):
            rows = [row | {"iteration": "-1"} for row in read_csv(path)]
            try:
                found += parse_rows(EPISODES, [{name: row[name] for name in row if name != "policy"} for row in rows])
            except (KeyError, ValueError) as error:
                raise InputError(f"{path} is damaged ({error!r}): remove it, or run tutelage eval again.") from None
        return found

    def evaluated(self, suite: str) -> dict[int, int]:
        """After how many steps each evaluation on a suite was made, by its iteration; −1 is `tutelage eval`."""
        places = [(row["iteration"], row["steps"]) for row in self.evaluations if row["suite"] == suite]
        return dict([*places, *((-1, result.steps or 0) for result in self.own_tests if result.suite == suite)])

    def last_episodes(self, suite: str) -> Rows:
        """The episodes of the evaluation after most steps, of `tutelage eval` if that is as late as one in training."""
        times = self.evaluated(suite)
        rows = [row for row in self.episodes if row["suite"] == suite and row["iteration"] in times]
        last = max({row["iteration"] for row in rows}, key=lambda i: (times[i], -i), default=None)
        return [row for row in rows if row["iteration"] == last]

    @cached_property
    def seconds(self) -> float:
        """The duration of all iterations."""
        return float(sum(row["seconds"] for row in self.run.timing()))

    @cached_property
    def tests(self) -> list[PolicyResult]:
        """The results of `tutelage eval` on this run, with those of its baselines."""
        return [result for path in sorted(self.directory.glob("eval-*.csv")) for result in read_policy_results(path)]

    @property
    def own_tests(self) -> list[PolicyResult]:
        """`tests` without the baselines."""
        return [result for result in self.tests if not result.is_baseline]

    @cached_property
    def snapshots(self) -> list[Snapshot]:
        """In order of time, without empty ones."""
        snapshots: list[Snapshot] = [snapshot for snapshot in self.run.snapshots() if snapshot["entries"]]
        for snapshot in snapshots:
            _check(snapshot, self.directory)
        return snapshots


@dataclass(frozen=True, eq=False)
class StoredRunResults(RunResults):
    """One run of a study, read from the study's small files instead of a run directory."""

    rows: Mapping[str, Sequence[Mapping[str, str]]]
    """By file."""
    levels: Sequence[Snapshot]

    @cached_property
    def metrics(self) -> dict[str, np.ndarray]:
        """At the evaluations only: means since the one before."""

        def columns(rows: Sequence[Mapping[str, str]]) -> dict[str, np.ndarray]:
            return {name: np.array([float(row[name] or "nan") for row in rows]) for name in (rows[0] if rows else ())}

        return self._parsed(TRAINING, columns)

    @cached_property
    def evaluations(self) -> Rows:
        return self._parsed(EVALUATIONS, partial(parse_rows, EVALUATIONS))

    @cached_property
    def episodes(self) -> Rows:
        """Those of the last evaluation, and of `tutelage eval`."""
        return self._parsed(EPISODES, partial(parse_rows, EPISODES))

    @cached_property
    def seconds(self) -> float:
        return self._parsed(RUNS, lambda rows: float(rows[0]["seconds"]))

    @cached_property
    def tests(self) -> list[PolicyResult]:
        return self._parsed(EVAL, parse_policy_results)

    @cached_property
    def snapshots(self) -> list[Snapshot]:
        return [*self.levels]

    def _parsed(self, name: str, parse: Callable[[Any], T]) -> T:
        try:
            return parse(self.rows[name])
        except (KeyError, TypeError, ValueError) as error:
            what = f"The rows of {self.directory} in {name} cannot be read ({error!r})"
            raise InputError(f"{what}: make them again with tutelage study results.") from None


def find_results(paths: Iterable[str | Path], allow: Iterable[str] = ()) -> list[RunResults]:
    """The runs at and below `paths`, including those of which only a study's small files exist."""
    found: list[RunResults] = []
    for path in map(Path, paths):
        studies = [path] if (path / RUNS).exists() else sorted(file.parent for file in path.rglob(RUNS))
        for directory in studies:
            found += _study_runs(directory, allow)
        if not studies or any(path.rglob(CONFIG)):
            found += map(RunResults, find_runs([path], allow))
    return found


def _study_runs(directory: Path, allow: Iterable[str]) -> Iterator[StoredRunResults]:
    def owner(row: dict[str, str]) -> tuple[str, ...]:
        return tuple(row.pop(column) for column in WHO)

    try:
        files = (RUNS, EVALUATIONS, EPISODES, TRAINING, EVAL)
        tables = {name: grouped(read_csv(directory / name), owner) for name in files}
        configs, levels = read_json(directory / CONFIGS), read_json(directory / LEVELS)
        for who in tables[RUNS]:
            variant, _, seed = who
            config = replace(Config.from_json(configs[variant], allow), seed=int(seed))
            run = Run(directory / variant / f"seed-{seed}", config)
            yield StoredRunResults(
                run, {name: table.get(who, []) for name, table in tables.items()}, levels.get(variant, [])
            )
    except (KeyError, FileNotFoundError, AttributeError) as error:
        what = f"{directory} has {RUNS}, but not all of a study's results ({error})"
        raise InputError(f"{what}: make them again with tutelage study results.") from None


class Results:
    """The results of several runs, by method."""

    def __init__(self, runs: Sequence[Run | RunResults]) -> None:
        self.groups = by_method(runs)

    @property
    def runs(self) -> list[RunResults]:
        return [run for group in self.groups.values() for run in group]

    @property
    def titles(self) -> dict[Path, str]:
        """The title of each run, by its directory."""
        return {
            run.directory: f"{display(label)}, seed {run.seed}" for label, group in self.groups.items() for run in group
        }

    @property
    def suites(self) -> list[str]:
        """The suites that any run was evaluated on during training."""
        return [*dict.fromkeys(row["suite"] for run in self.runs for row in run.evaluations)]

    @property
    def domain(self) -> str:
        """The domain that all runs were trained on."""
        trained = {run.run.config.setup.name: run.directory for run in self.runs}
        return _only(trained, "trained on {}", "runs of one domain")

    def evaluation_table(
        self, suite: str | None = None, metric: Metric | None = None, *, partly: bool = False
    ) -> EvaluationTable:
        """The evaluations during training and by `tutelage eval`, as arrays.

        Args:
            suite: may be omitted if training had only one, or if only eval had one.
            metric: by default the solved rate where episodes can be solved, else the return.
            partly: leave out runs that were not evaluated on this suite, instead of raising an error.
        """
        domain = self.domain
        suite = suite or self._only_suite()
        rows = {run.directory: [row for row in run.tested if row["suite"] == suite] for run in self.runs}
        if partly:
            rows = {path: each for path, each in rows.items() if each}
        for path in (path for path, each in rows.items() if not each):
            raise InputError(f"{path} was not evaluated on the suite {suite!r}: leave it out, or choose another suite.")
        orders = {path: tuple(dict.fromkeys(row["level"] for row in each)) for path, each in rows.items()}
        _only({", ".join(sorted(x)): path for path, x in orders.items()}, "was tested on {}", "runs with equal tests")
        levels = next(iter(orders.values()))
        actions = {"greedy" if row["greedy"] else "sampled": path for path, each in rows.items() for row in each}
        _only(actions, "was tested with {} actions", "runs tested with the same kind of actions")
        solvable = all(row["solved"] is not None for each in rows.values() for row in each)
        if metric == "solved" and not solvable:
            raise InputError(f"Episodes of {domain} do not count as solved: compare the return instead.")
        metric = metric or ("solved" if solvable else "return")
        histories = {
            label: tuple(_history(run.directory, rows[run.directory], levels, metric) for run in tested)
            for label, group in self.groups.items()
            if (tested := [run for run in group if run.directory in rows])
        }
        return EvaluationTable(domain, suite, metric, levels, histories)

    def _only_suite(self) -> str:
        suites = self.suites or [*dict.fromkeys(row["suite"] for run in self.runs for row in run.tested)]
        if not suites:
            raise InputError(f"None of the {len(self.runs)} runs was evaluated yet: train with a suite to evaluate on.")
        if len(suites) > 1:
            raise InputError(f"There are evaluations on several suites: choose one of {', '.join(sorted(suites))}.")
        return suites[0]


@dataclass(frozen=True)
class History:
    """One run's evaluations, in order of time."""

    directory: Path
    steps: np.ndarray[Any, Any]  # i64[E]
    updates: np.ndarray[Any, Any]  # i64[E]
    episodes: np.ndarray[Any, Any]  # i64[E]: on each level
    values: Values  # f64[E, L]

    def clock(self, name: Clock) -> np.ndarray[Any, Any]:
        """i64[E]: when each evaluation was made."""
        return self.steps if name == "steps" else self.updates

    def at(self, time: int, name: Clock) -> Values | None:
        """f64[L]: the values, interpolated between the evaluations before and after; None before the first."""
        clock = self.clock(name)
        last = int(np.searchsorted(clock, time, side="right")) - 1
        if last < 0:
            return None
        after = min(last + 1, len(clock) - 1)
        share = (time - clock[last]) / (clock[after] - clock[last]) if clock[after] > clock[last] else 0.0
        between: Values = (1 - share) * self.values[last] + share * self.values[after]
        return between if share else self.values[last]


@dataclass(frozen=True)
class EvaluationTable:
    """Runs evaluated in the same way on the same levels."""

    domain: str
    suite: str
    metric: Metric
    levels: tuple[str, ...]
    histories: Mapping[str, tuple[History, ...]]
    """By method."""

    @property
    def title(self) -> str:
        return f"{self.domain}, suite {self.suite}: {'solved rate' if self.metric == 'solved' else self.metric}"


def by_method(runs: Sequence[Run | RunResults]) -> dict[str, list[RunResults]]:
    """Runs that differ in their seed only, by method, and in the order of the paper's methods.

    Where a method was run with several settings, its name is followed by those that differ: "plr, replay_rate=0.8". The
    planned length is one of these only if a seed was run for two lengths: "plr-perp, total_steps=500000000".
    """
    if not runs:
        raise InputError("There are no runs to show or to compare: give at least one.")
    results = [run if isinstance(run, RunResults) else RunResults(run) for run in runs]
    groups: dict[str, list[RunResults]] = {}
    for method in dict.fromkeys([*METHODS, *(run.method for run in results)]):
        peers = [run for run in results if run.method == method]
        settings = [run.run.config.learning() | {"seed": 0, "devices": 0} for run in peers]
        if len({json.dumps([each, run.seed]) for run, each in zip(peers, settings, strict=True)}) < len(peers):
            for run, each in zip(peers, settings, strict=True):
                each["total_steps"] = run.run.config.total_steps
        for run, distinctions in zip(peers, _distinctions(settings), strict=True):
            group = groups.setdefault(", ".join([method, *distinctions]), [])
            if same := [other.directory for other in group if other.seed == run.seed]:
                raise InputError(
                    f"{same[0]} and {run.directory} are the same run, {run.run.title}: two runs of one seed are not "
                    "two samples, so leave one out."
                )
            group.append(run)
    return groups


def display(label: str) -> str:
    """The paper's name of a method, with the settings that may follow it."""
    method, comma, settings = label.partition(",")
    return NAMES.get(method, method) + comma + settings


def align(curves: Sequence[Curve], points: int = 120) -> tuple[Values, Values]:
    """Common times [n] and each run's values then [R, n], over the span in which all R runs were measured.

    Runs measured at the same few times keep them. Otherwise the span is cut into n ≤ `points` cells: a run's values in
    a cell are averaged, and its value at the cell's middle is read off the line through these averages. n is 0 if the
    runs have no time in common; runs without any value are left out.
    """
    measured = [(x[known], y[known]) for x, y in curves if (known := np.isfinite(y)).any()]
    if not measured:
        return np.empty(0), np.empty((0, 0))
    x, _ = measured[0]
    if len(x) <= points and all(np.array_equal(x, other) for other, _ in measured) and (np.diff(x) > 0).all():
        return x.astype(np.float64), np.stack([y for _, y in measured])
    start, end = max(x[0] for x, _ in measured), min(x[-1] for x, _ in measured)
    if start > end:
        return np.empty(0), np.empty((len(measured), 0))
    cells = max(1, min(points, *(int(((x >= start) & (x <= end)).sum()) for x, _ in measured)))
    edges = np.linspace(start, end, cells + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    return middles, np.stack([np.interp(middles, *_averages(x, y, edges)) for x, y in measured])


def _averages(x: np.ndarray[Any, Any], y: Values, edges: Values) -> tuple[Values, Values]:
    """The mean time and the mean value of each cell that has any; what lies outside has a cell on either side."""
    cell = np.searchsorted(edges[1:-1], x, side="right") + 1
    cell = np.where(x < edges[0], 0, np.where(x > edges[-1], len(edges), cell))
    _, cell, count = np.unique(cell, return_inverse=True, return_counts=True)
    return np.bincount(cell, x) / count, np.bincount(cell, y) / count


def _history(directory: Path, rows: Rows, levels: Sequence[str], metric: Metric) -> History:
    evaluations: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        evaluations.setdefault(row["iteration"], {})[row["level"]] = row
    complete = [evaluations[i] for i in sorted(evaluations) if len(evaluations[i]) == len(levels)]
    if not complete:
        raise InputError(f"{directory} has no evaluation on all of its levels, {', '.join(levels)}: leave it out.")
    firsts = [evaluation[levels[0]] for evaluation in complete]
    steps, updates, episodes = np.array([[row[x] for x in ("steps", "updates", "episodes")] for row in firsts]).T
    values = np.array([[evaluation[level][metric] for level in levels] for evaluation in complete], np.float64)
    return History(directory, steps, updates, episodes, values)


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items that have the same key, in their order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _distinctions(settings: Sequence[Mapping[str, Json]]) -> list[list[str]]:
    """The settings of each run that are not the same in all."""
    names = sorted(set[str]().union(*settings))
    differing = [name for name in names if len({json.dumps(each.get(name)) for each in settings}) > 1]
    last = [name.rpartition(".")[2] for name in differing]
    short = {name: tail if last.count(tail) == 1 else name for name, tail in zip(differing, last, strict=True)}
    return [[f"{short[name]}={each.get(name)}" for name in differing] for each in settings]


def _only(having: Mapping[str, Path], was: str, these: str) -> str:
    """The one value that all runs have in common, or a sentence about two runs that differ."""
    (one, first), *others = having.items()
    if others:
        other, second = others[0]
        raise InputError(f"{first} {was.format(one)}, {second} {was.format(other)}: compare {these}.")
    return one


def _check(snapshot: Snapshot, directory: Path) -> None:
    """Refuse a snapshot that cannot be shown; `Run.snapshots` has found all of its entries' keys."""
    number, maybe = (int, float), (int, float, type(None))
    moment: dict[str, Any] = {"source": str, "size": int, "capacity": int}
    entry: dict[str, Any] = {ID: int, "parent": int, "generation": int, "about": dict}
    entry |= {"return": number, "score": maybe, "optimal_return": maybe}
    for part, kinds in [(snapshot, moment), *((each, entry) for each in snapshot["entries"])]:
        for name, kind in kinds.items():
            if not isinstance(value := part.get(name), kind):
                where = f"A file in {directory / 'levels'} is not a snapshot of a curriculum"
                raise InputError(f"{where}: {name} is {json.dumps(value):.40}. Remove the file.")
