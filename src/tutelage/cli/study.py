"""`tutelage study`: many runs from one file."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from tyro.conf import Positional, subcommand

from tutelage.cli.train import parse
from tutelage.studies.local import Job, finished, run_study
from tutelage.studies.results import collect, finished_in
from tutelage.studies.study import Study, StudyRun
from tutelage.training.run import CONFIG
from tutelage.training.train import stop_requests
from tutelage.types import InputError


@dataclass(frozen=True)
class _File:
    file: Positional[Path]
    """The study: a TOML file (see the documentation, or studies/*.toml)."""
    runs: Path | None = None
    """Where the runs are (default: runs/NAME, with the file's name)."""
    results: Path | None = None
    """Where the tidy CSV files of `study results` are (default: beside the study file, in a directory of its name)."""

    @property
    def tables(self) -> Path:
        """Where the tidy files are."""
        return self.results or self.file.with_suffix("")

    def words(self) -> list[str]:
        """The options as the command line has them."""
        paths = {"--runs": self.runs, "--results": self.results}
        return [word for name, path in paths.items() if path for word in (name, str(path))]

    def read(self) -> tuple[Study, list[StudyRun]]:
        """The study and all its runs."""
        study = Study.read(self.file)
        return study, study.runs(self.runs or Path("runs") / self.file.stem)


@dataclass(frozen=True)
class RunStudy(_File):
    """Run what is not done yet, as many runs at a time as there are cores. The same command goes on after a stop."""

    processes: int | None = None
    """How many runs at a time (default: one for each core)."""
    again: bool = False
    """Also run what is not here but finished in the tidy files, which `study results` made elsewhere."""

    def run(self) -> None:
        """Run them all."""
        study, runs = self.read()
        steps = _checked(study, runs)
        console = Console()
        with Live(console=console, refresh_per_second=2) if console.is_terminal else nullcontext() as live:
            shown: dict[str, str] = {}

            def show(jobs: Sequence[Job]) -> None:
                if live is not None:
                    live.update(_table(jobs))
                for job in jobs:
                    if live is None and shown.get(str(job.run.directory)) != job.status:
                        shown[str(job.run.directory)] = job.status
                        print(f"{job.run.variant}, seed {job.run.seed}: {job.status}", flush=True)

            with stop_requests() as requests:
                elsewhere = () if self.again else finished_in(self.tables, runs)
                options: Any = {"elsewhere": elsewhere, "allow": study.allow, "show": show, "requests": requests}
                jobs = run_study(runs, steps, processes=self.processes, **options)
        count = Counter(job.status for job in jobs)
        print(", ".join(f"{number} {status}" for status, number in count.items()) + ".")
        for job in jobs:
            if job.status == "failed":
                print(f"{job.run.variant}, seed {job.run.seed} failed; see {job.log}")
        if count["stopped"]:
            words = ["tutelage", "study", "run", str(self.file), *self.words()]
            print(f"Go on with: {shlex.join(words)}")
            raise SystemExit(128 + requests[0])
        if count["failed"]:
            raise SystemExit(1)


@dataclass(frozen=True)
class Status(_File):
    """Show how far each run has come."""

    def run(self) -> None:
        """Print a table."""
        study, runs = self.read()
        jobs = [Job(run, steps) for run, steps in zip(runs, _checked(study, runs), strict=True)]
        elsewhere = finished_in(self.tables, runs)
        for job in jobs:
            job.look()
            if finished(job.run.directory, study.allow):
                job.status = "done"
            elif (job.run.directory / CONFIG).exists():
                job.status = "stopped"
            if job.status != "done" and job.run.key in elsewhere:
                job.status = "in results"
        Console().print(_table(jobs))


@dataclass(frozen=True)
class Commands(_File):
    """Print one command for each run that is not done, for SLURM arrays, xargs and the like."""

    def run(self) -> None:
        """Print them."""
        study, runs = self.read()
        _checked(study, runs)
        elsewhere = finished_in(self.tables, runs)
        for run in runs:
            if run.key not in elsewhere and not finished(run.directory, study.allow):
                begun = (run.directory / CONFIG).exists()
                allow = ["--allow", *study.allow] if study.allow else []
                words = ["resume", str(run.directory), *allow] if begun else run.command
                print(shlex.join(["tutelage", *words]))


@dataclass(frozen=True)
class Results(_File):
    """Write the results of all runs as small tidy CSV files, and keep the rows of runs that are not here."""

    def run(self) -> None:
        """Collect and write."""
        study, runs = self.read()
        for path in collect(runs, self.tables, study.allow):
            print(path)


@dataclass(frozen=True)
class StudyVerb:
    """Run a study: several variants and seeds from one TOML file."""

    what: (
        Annotated[RunStudy, subcommand("run")]
        | Annotated[Status, subcommand("status")]
        | Annotated[Commands, subcommand("commands")]
        | Annotated[Results, subcommand("results")]
    )

    def run(self) -> None:
        """Do what was asked."""
        self.what.run()


def _checked(study: Study, runs: Sequence[StudyRun]) -> list[int]:
    """How many steps each run takes. All options are read first, so that a mistake shows before anything runs."""
    steps = {}
    for name, options in study.variants.items():
        try:
            command = parse(options)
        except InputError as error:
            raise InputError(f"Variant {name}: {error}") from None
        except SystemExit:
            raise InputError(f"Variant {name}: tutelage train does not take {shlex.join(options)}.") from None
        try:
            command.config.curriculum()
        except InputError as error:
            raise InputError(f"Variant {name}: {error}") from None
        steps[name] = command.config.total_steps
    return [steps[run.variant] for run in runs]


def _table(jobs: Sequence[Job]) -> Table:
    """Variants as rows, seeds as columns."""
    seeds = sorted({job.run.seed for job in jobs})
    table = Table(box=None)
    table.add_column("variant", no_wrap=True)
    for seed in seeds:
        table.add_column(f"seed {seed}", justify="right", no_wrap=True)
    rows: dict[str, dict[int, Any]] = {}
    for job in jobs:
        share = min(1.0, job.steps / job.total_steps)
        text = job.status if job.status in ("waiting", "done", "failed", "in results") else f"{job.status} {share:.0%}"
        rows.setdefault(job.run.variant, {})[job.run.seed] = text
    for variant, cells in rows.items():
        table.add_row(variant, *(cells.get(seed, "") for seed in seeds))
    return table
