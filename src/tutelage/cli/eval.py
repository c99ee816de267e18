"""`tutelage eval`: how well policies do on levels that they were never trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from tutelage.analysis.policy_results import PolicyResult, episodes_file, policy_tables
from tutelage.analysis.tables import show
from tutelage.cli.options import check_file, file_name, open_runs, prepare, seed_key
from tutelage.evaluation.baselines import optimal_results, random_results, untrained_results, with_optimal
from tutelage.evaluation.evaluate import Evaluator, LevelResult
from tutelage.files import csv_text, write_atomically
from tutelage.training.config import Setup
from tutelage.training.progress import ProgressBar
from tutelage.training.run import CONFIG, Run
from tutelage.types import InputError, TestLevel

ResultsByPolicy = list[list[PolicyResult]]
"""A list for each policy, of a result for each level."""


@dataclass(frozen=True)
class Eval:
    """Evaluate trained agents on a zero-shot suite, with a fixed number of episodes on each level.

    Prints a table and writes it as a CSV file; a second file has all episodes. Solved rates have 95 %
    intervals, returns have standard errors.
    """

    runs: Positional[tuple[Path, ...]] = ()
    """Run directories, or directories of runs."""
    pretrained: str | None = None
    """Instead of runs, an agent that comes with tutelage: maze."""
    suite: str | None = None
    """Which suite of the domain; by default the one that the run was evaluated on in training."""
    levels: tuple[str, ...] = ()
    """Which of its levels; by default all."""
    episodes: int = 100
    """Episodes on each level, each on a new draw of it if it is random (paper: 100)."""
    greedy: bool = False
    """Take the greedy action instead of sampling one (paper: samples)."""
    baselines: bool = False
    """Also evaluate the network before training, random actions, and the optimal return where that is known."""
    seed: int = 0
    """All levels and all actions follow from this number."""
    out: Path | None = None
    """The file to write; by default eval-SUITE.csv in each run's directory, where `tutelage report` finds it (in the
    current one for a pretrained agent)."""
    allow: tuple[str, ...] = ()
    """Modules of your own that a run names and that may be imported."""

    def run(self) -> None:
        prepare()
        seed_key(self.seed)
        runs = open_runs(self.runs, self.pretrained, self.allow)
        suites = {self._suite(run) for run in runs}
        if len({run.domain.name for run in runs}) > 1 or len(suites) > 1:
            raise InputError("These runs are of different domains or suites; evaluate them in separate calls.")
        (suite,) = suites
        name = f"eval-{file_name(suite)}.csv"
        places = [self.out] if self.out else [Path(name) if self.pretrained else run.directory / name for run in runs]
        evaluated = {run.directory.resolve() for run in runs}
        for path in places:
            check_file(path, "--out")
            own = len(places) > 1 or evaluated == {path.parent.resolve()}
            if not own and (path.parent / CONFIG).exists():
                raise InputError(
                    f"{path.parent} is a run, and results in its directory count as its own: give --out another one."
                )
        policies = len(runs) + (3 if self.baselines else 0)
        total = policies * len(self._levels(runs[0], suite))
        with ProgressBar("eval", total, unit="levels") as progress:
            trained, baselines, episodes = self._results(runs, suite, progress)
        show(*policy_tables([(column[0].policy, column) for column in (*trained, *baselines)]))
        self._write(places, trained, baselines, episodes)

    def _suite(self, run: Run) -> str:
        suite = self.suite or run.config.evaluation.suite or next(iter(run.domain.suites), "")
        if not suite:
            raise InputError(f"{run.domain.name} has no test levels to evaluate on.")
        return suite

    def _levels(self, run: Run, suite: str) -> tuple[TestLevel, ...]:
        chosen = replace(run.config.evaluation, suite=suite, test_levels=self.levels)
        return replace(run.config, evaluation=chosen).test_levels(run.domain)

    def _results(
        self, runs: Sequence[Run], suite: str, progress: ProgressBar
    ) -> tuple[ResultsByPolicy, ResultsByPolicy, list[list[dict[str, Any]]]]:
        """Of each run, of each baseline for the first run, and a row for each episode of each run."""
        key = seed_key(self.seed)
        evaluators: dict[Setup, Evaluator] = {}  # runs of one setup share what is compiled
        optimal: dict[Setup, list[LevelResult]] = {}
        trained, episodes = [], []
        for run in runs:
            setup, saved = run.config.setup, run.saved()  # of the policy: metrics may go on after it
            if setup not in evaluators:
                levels = self._levels(run, suite)
                evaluators[setup] = Evaluator(run.domain, levels, run.network, self.episodes, self.greedy)
                if run.domain.optimal_return is not None:
                    optimal[setup] = optimal_results(run.domain, levels, self.episodes, key)
            about = suite, self.greedy, saved.progress.steps if saved else None
            name = self.pretrained or str(run.directory)
            results = with_optimal(evaluators[setup](run.params, key, progress.update), optimal.get(setup))
            trained.append([PolicyResult.of(result, name, *about) for result in results])
            place = {"policy": name, "suite": suite}
            episodes.append([place | row for result in results for row in result.rows()])
        baselines = []
        if self.baselines:
            domain, network, setup = runs[0].domain, runs[0].network, runs[0].config.setup
            evaluator, best = evaluators[setup], optimal.get(setup)
            random = random_results(domain, evaluator.levels, self.episodes, key)
            found = [
                ("untrained", self.greedy, with_optimal(untrained_results(evaluator, network, key), best)),
                ("random", False, with_optimal(random, best)),
                *([("optimal", None, best)] if best else []),
            ]
            baselines = [[PolicyResult.of(result, name, suite, greedy) for result in x] for name, greedy, x in found]
            progress.update(sum(map(len, baselines)))
        return trained, baselines, episodes

    def _write(
        self,
        places: Sequence[Path],
        trained: ResultsByPolicy,
        baselines: ResultsByPolicy,
        episodes: list[list[dict[str, Any]]],
    ) -> None:
        played = list(zip(trained, episodes, strict=True))
        files = {self.out: played} if self.out else {path: [own] for path, own in zip(places, played, strict=True)}
        for path, own in files.items():
            results = [result.row() for column in (*(column for column, _ in own), *baselines) for result in column]
            contents = {path: results, episodes_file(path): [row for _, rows in own for row in rows]}
            for file, rows in contents.items():
                write_atomically(file, csv_text(rows, [*rows[0]]))
        print(f"\nThe table is in {', '.join(map(str, files))}, and beside it a file of all episodes.")
