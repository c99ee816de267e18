"""`tutelage compare`: which method is better, in tables, files and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from tyro.conf import Positional

from tutelage.analysis import plots
from tutelage.analysis.compare import Comparison, compare, regret_rows, regret_tables, regret_test_tables
from tutelage.analysis.plots import Center
from tutelage.analysis.results import CLOCKS, EvaluationTable, Metric, Results, find_results
from tutelage.analysis.tables import show
from tutelage.cli.options import check_directory, prepare
from tutelage.files import csv_text, write_atomically
from tutelage.types import InputError


@dataclass(frozen=True)
class Compare:
    """Compare methods by their runs, after equal environment steps and after equal gradient updates, or at their ends.

    Evaluations by `tutelage eval` count like those in training. Prints tables, also of true regret if eval has measured
    it, and writes compare.csv, tests.csv, regret.csv and the figures as SVG and PNG.
    """

    runs: Positional[tuple[Path, ...]]
    """Run directories, directories that hold several, or the small files of a study."""
    suite: str | None = None
    """The suite; needed only if the runs were evaluated on several."""
    metric: Metric | None = None
    """What to compare: by default the solved rate where episodes can be solved, else the return."""
    bars: Center = "median"
    """Bars show the median and interquartile range of runs, or their mean ± standard error."""
    curves: tuple[str, ...] = ("new/",)
    """Training metrics to draw: all whose names begin with one of these."""
    ends: bool = False
    """Compare the last evaluations of all runs, however long they were trained."""
    whole_runs: bool = False
    """Make intervals by resampling runs with all their levels, instead of the runs of each level separately."""
    out: Path = Path("compare")
    """The directory to write to."""
    allow: tuple[str, ...] = ()
    """Modules of your own that a run names and that may be imported."""

    def run(self) -> None:
        check_directory(self.out, "--out")
        prepare()
        results = Results(find_results(self.runs, self.allow))
        evaluations = results.evaluation_table(self.suite, self.metric)
        comparisons = list(self._comparisons(evaluations))
        regrets = regret_rows(results)
        suite = "robustness" if any(row["suite"] == "robustness" for row in regrets) else evaluations.suite
        shown = regret_tables(row for row in regrets if row["suite"] == suite)
        show(*(table for each in comparisons for table in each.tables()), *shown, *regret_test_tables(results))
        tables = {
            "compare.csv": [row for each in comparisons for row in each.rows()],
            "tests.csv": [row for each in comparisons for row in each.test_rows()],
            "regret.csv": regrets,
        }
        for name, rows in tables.items():
            if rows:
                write_atomically(self.out / name, csv_text(rows, [*rows[0]]))
        for name, figure in self._figures(results, comparisons):
            write_atomically(self.out / f"{name}.svg", plots.svg(figure))
            write_atomically(self.out / f"{name}.png", plots.png(figure))
        print(f"\nTables and figures are in {self.out}.")

    def _comparisons(self, evaluations: EvaluationTable) -> Iterator[Comparison]:
        """By steps and by updates, or by one if the other is impossible: PLR⊥ may end before DR's first evaluation."""
        if self.ends:
            yield compare(evaluations, ends=True, whole_runs=self.whole_runs)
            return
        reasons = []
        for at in CLOCKS:
            try:
                yield compare(evaluations, at, whole_runs=self.whole_runs)
            except InputError as error:
                reasons.append(error)
        if len(reasons) == len(CLOCKS):
            raise reasons[0]
        for reason in reasons:
            print(f"Not compared by both steps and updates: {reason}\n")

    def _figures(self, results: Results, comparisons: Sequence[Comparison]) -> Iterator[tuple[str, Figure]]:
        measured = dict.fromkeys(name for run in results.runs for name in run.metrics if name.startswith(self.curves))
        for comparison in comparisons:
            at = comparison.at
            yield f"bars-{at}", plots.bars(comparison, center=self.bars)
            yield f"levels-{at}", plots.levels_over_time(comparison.evaluations, at)
            if measured:
                yield f"training-{at}", plots.training_curves(results, [*measured], at)
        yield "iqm", plots.iqm_intervals(*comparisons)
        if len(comparisons[0].values) > 1:
            yield "improvement", plots.improvements(*comparisons)
