"""`tutelage paper`: the paper's figures and tables from runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from tutelage.analysis.paper import TABLES, Paper, paper
from tutelage.analysis.plots import Center
from tutelage.analysis.results import find_results
from tutelage.analysis.tables import show
from tutelage.cli.options import check_directory, prepare
from tutelage.types import InputError


@dataclass(frozen=True)
class PaperVerb:
    """Make the paper's figures and tables from runs, with the published numbers for comparison.

    Writes each as PNG, SVG, CSV, Markdown and LaTeX, and one page, paper.html, that shows them all. Prints which were
    made, and why others could not be.
    """

    runs: Positional[tuple[Path, ...]] = ()
    """Run directories, directories of them, or directories of the small files that `tutelage study results` writes."""
    table: Literal["hyperparameters", "circuits"] | None = None
    """Only this table, which needs no runs."""
    bars: Center = "median"
    """Bars and curves show the median and interquartile range of runs, or their mean ± standard error."""
    out: Path = Path("paper")
    """The directory to write to."""
    allow: tuple[str, ...] = ()
    """Modules of your own that a run names and that may be imported."""

    def run(self) -> None:
        check_directory(self.out, "--out")
        prepare()
        if self.table:
            made = Paper([TABLES[self.table]()], [])
            show(*made.exhibits[0].tables)
        elif self.runs:
            made = paper(find_results(self.runs, self.allow), self.bars)
            show(made.overview())
        else:
            raise InputError("Name at least one run or study, or ask for a table that needs none: --table.")
        print(f"\nAll of it is in {made.write(self.out)}, and each figure and table in a file beside it.")
