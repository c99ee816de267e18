"""`tutelage report`: one run or several as a page that opens in any browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from tutelage.analysis.report import report
from tutelage.cli.options import check_file, prepare
from tutelage.training.run import REPORT, find_runs


@dataclass(frozen=True)
class Report:
    """Make one HTML page of runs: tests, curves, the curriculum's levels, episodes, configuration.

    It needs neither a network nor another file, so it can be sent by mail.
    """

    runs: Positional[tuple[Path, ...]]
    """Run directories, or directories that hold several."""
    out: Path | None = None
    """The file to write, by default report.html: in the run's directory, or here if there are several runs."""
    videos: bool = True
    """Also play a few episodes and show them."""
    allow: tuple[str, ...] = ()
    """Modules of your own that a run names and that may be imported."""

    def run(self) -> None:
        prepare()
        runs = find_runs(self.runs, self.allow)
        out = self.out or (runs[0].directory / REPORT if len(runs) == 1 else Path(REPORT))
        check_file(out, "--out")
        print(f"The report is in {report(runs, out, with_videos=self.videos)}.")
