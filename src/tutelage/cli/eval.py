"""`tutelage eval`: how well policies do on levels that they were never trained on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np
from tqdm import tqdm
from tyro.conf import Positional

from tutelage.analysis.tables import aligned
from tutelage.evaluation.baselines import optimal_scores, random_scores, untrained_scores
from tutelage.evaluation.evaluate import Evaluator, Score
from tutelage.files import csv_text, write_atomically
from tutelage.learning.mesh import use_cores
from tutelage.training.compilation import keep_programs
from tutelage.training.config import Setup
from tutelage.training.run import Run
from tutelage.types import InputError, Json, TestLevel

COLUMNS = ("policy", "suite", "level", "episodes", "greedy", "solved", "return", "length")


@dataclass(frozen=True)
class Row:
    """A policy's scores, one for each level."""

    policy: str
    greedy: bool | None
    """None where nobody played."""
    scores: list[Score]

    def tidy(self, suite: str) -> list[dict[str, Json]]:
        """A row for each level."""
        return [
            {
                "policy": self.policy,
                "suite": suite,
                "level": score.level,
                "episodes": score.episodes,
                "greedy": self.greedy,
                "solved": score.solved,
                "return": score.mean_return,
                "length": score.mean_length,
            }
            for score in self.scores
        ]


@dataclass(frozen=True)
class Eval:
    """Evaluate trained agents on a zero-shot benchmark: exactly so many episodes on each level.

    Prints a table with standard errors and writes a tidy CSV file.
    """

    runs: Positional[tuple[Path, ...]]
    """Run directories."""
    suite: str | None = None
    """Which benchmark of the domain; the one that the run was evaluated on in training, if not said otherwise."""
    levels: tuple[str, ...] = ()
    """Which of its levels; none named are all of them."""
    episodes: int = 100
    """Episodes on each level, each on its own draw of it (paper: 100)."""
    greedy: bool = False
    """Take the likeliest action instead of drawing one (paper: draws)."""
    baselines: bool = False
    """Also evaluate the network before training, random actions, and the best that is possible where that is known."""
    seed: int = 0
    """All levels and all actions follow from this number."""
    out: Path | None = None
    """Where to write the table: eval-SUITE.csv in each run's directory, if not said otherwise."""
    allow: tuple[str, ...] = ()
    """Modules of your own that a run names and that may be imported."""

    def run(self) -> None:
        """Evaluate all runs, print the table and write the files."""
        if not self.runs:
            raise InputError("Name at least one run directory.")
        use_cores()
        keep_programs()
        runs = [Run.load(directory, self.allow) for directory in self.runs]
        suites = {self._suite(run) for run in runs}
        if len({run.domain.name for run in runs}) > 1 or len(suites) > 1:
            raise InputError("These runs are of different domains or suites; evaluate them in separate calls.")
        (suite,) = suites
        levels = self._levels(runs[0], suite)
        policies = 3 if self.baselines else 0  # the oracle does not play, but takes its time as well
        with tqdm(total=(len(runs) + policies) * len(levels), unit=" levels", disable=None) as bar:
            trained, baselines = self._rows(runs, suite, bar.update)
        print("\n\n".join(_tables([*trained, *baselines])), flush=True)
        self._write(suite, trained, baselines)

    def _suite(self, run: Run) -> str:
        suite = self.suite or run.config.evaluation.suite or next(iter(run.domain.suites), "")
        if not suite:
            raise InputError(f"{run.domain.name} has no test levels, so there is nothing to evaluate on.")
        return suite

    def _levels(self, run: Run, suite: str) -> tuple[TestLevel, ...]:
        chosen = replace(run.config.evaluation, suite=suite, test_levels=self.levels)
        return replace(run.config, evaluation=chosen).test_levels(run.domain)

    def _rows(self, runs: Sequence[Run], suite: str, progress: Callable[[int], object]) -> tuple[list[Row], list[Row]]:
        """Of the runs, and of the baselines for the first run."""
        key = jax.random.key(self.seed)
        evaluators: dict[Setup, tuple[Run, Evaluator]] = {}  # runs of one setup share what is compiled
        trained = []
        for run in runs:
            domain, levels = run.domain, self._levels(run, suite)
            if run.config.setup not in evaluators:
                evaluator = Evaluator(domain, levels, run.network, self.episodes, self.greedy)
                evaluators[run.config.setup] = run, evaluator
            _, evaluator = evaluators[run.config.setup]
            trained.append(Row(str(run.directory), self.greedy, evaluator(run.params, key, progress)))
        return trained, list(self._references(*next(iter(evaluators.values())), progress)) if self.baselines else []

    def _references(self, run: Run, evaluator: Evaluator, progress: Callable[[int], object]) -> Iterator[Row]:
        key, domain, levels = jax.random.key(self.seed), run.domain, evaluator.levels
        yield Row("untrained", self.greedy, untrained_scores(evaluator, run.network, key))
        progress(len(levels))
        yield Row("random", False, random_scores(domain, levels, self.episodes, key))
        progress(len(levels))
        if domain.optimal_return is not None:
            yield Row("optimal", None, optimal_scores(domain, levels, self.episodes, key))
        progress(len(levels))

    def _write(self, suite: str, trained: Sequence[Row], baselines: Sequence[Row]) -> None:
        files = (
            {self.out: [*trained, *baselines]}
            if self.out
            else {
                directory / f"eval-{suite}.csv": [row, *baselines]
                for directory, row in zip(self.runs, trained, strict=True)
            }
        )
        for path, rows in files.items():
            try:
                write_atomically(path, csv_text([line for row in rows for line in row.tidy(suite)], COLUMNS))
            except OSError as error:
                raise InputError(f"{path} cannot be written ({error}): give --out a file you may write.") from None
        print(f"\nThe table is in {', '.join(map(str, files))}.")


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each measure: levels downwards, policies to the right, with standard errors."""
    if rows[0].scores[0].solved is not None:
        yield _table("solved", rows, lambda score: (score.solved or 0.0, score.solved_error or 0.0), digits=3)
    smallest = max(abs(score.mean_return) for row in rows for score in row.scores) < 10
    yield _table("return", rows, lambda score: (score.mean_return, score.return_error), digits=3 if smallest else 1)


def _table(name: str, rows: Sequence[Row], measure: Callable[[Score], tuple[float, float]], digits: int) -> str:
    def cells(scores: Sequence[Score]) -> list[str]:
        found = np.array([measure(score) for score in scores])
        # levels are independent, so the variance of their mean is the mean of their variances over their number
        mean, error = found[:, 0].mean(), np.sqrt((found[:, 1] ** 2).sum()) / len(found)
        return [_measured(value, error, digits) for value, error in [*found, (mean, error)]]

    names = [score.level for score in rows[0].scores]
    columns = [[name, *names, f"mean of {len(names)}"], *([row.policy, *cells(row.scores)] for row in rows)]
    return "\n".join(aligned(zip(*columns, strict=True)))


def _measured(value: float, error: float, digits: int) -> str:
    """A mean and its standard error, which a single episode does not have."""
    return f"{value:.{digits}f}" + ("" if math.isnan(error) else f" ± {error:.{digits}f}")
