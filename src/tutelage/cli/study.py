"""`tutelage study`: many runs from one file."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, subcommand

from tutelage.cli.jobs import conclude, table_of, watching
from tutelage.cli.train import parse
from tutelage.studies.jobs import Executor
from tutelage.studies.local import LocalProcesses
from tutelage.studies.ray_tasks import RayTasks
from tutelage.studies.results import collect
from tutelage.studies.selection import Plan, Ranked, plan, run_study
from tutelage.studies.study import Resources, Study, StudyRun
from tutelage.training.config import Config
from tutelage.training.serialization import differences, flat
from tutelage.types import InputError


@dataclass(frozen=True)
class _File:
    file: Positional[Path]
    """The study: a TOML file (see the documentation, or studies/*.toml)."""
    runs: Path | None = None
    """Where the runs are (default: runs/NAME, with the file's name)."""
    results: Path | None = None
    """Where the tidy CSV files of `study results` are (default: FILE without its suffix)."""

    @property
    def tables(self) -> Path:
        return self.results or self.file.with_suffix("")

    def read(self) -> tuple[Study, list[StudyRun]]:
        study = Study.read(self.file)
        runs = study.runs(self.runs or Path("runs") / self.file.stem)
        check(study, runs)
        return study, runs

    def plan(self) -> Plan:
        study, runs = self.read()
        return plan(runs, study.selection, self.tables)


@dataclass(frozen=True)
class RunStudy(_File):
    """Run what is not finished, on this machine or on a Ray cluster. The same command continues after a stop."""

    processes: int | None = None
    """How many runs at a time on this machine (default: as many as its cores allow)."""
    ray: str | None = None
    """Run on a Ray cluster instead: its address, or auto for the one that this machine belongs to."""
    cpus: int | None = None
    """Cores for each run (default: those of the file, or 1)."""
    gpus: float | None = None
    """GPUs for each run, with Ray (default: those of the file, or 0)."""
    again: bool = False
    """Also run what has no run directory here, but is finished according to the tidy files."""

    def run(self) -> None:
        study, runs = self.read()
        executor = self._executor(study.resources)
        with watching() as (show, requests):
            found = run_study(
                runs, executor, study.selection, self.tables, again=self.again, show=show, requests=requests
            )
        _show_ranking(found.ranking)
        given = {"runs": self.runs, "results": self.results, "ray": self.ray, "cpus": self.cpus, "gpus": self.gpus}
        words = [word for name, x in given.items() if x is not None for word in (f"--{name}", str(x))]
        conclude(found.jobs, requests, shlex.join(["tutelage", "study", "run", str(self.file), *words]))

    def _executor(self, resources: Resources) -> Executor:
        asked: dict[str, Any] = {"cpus": self.cpus, "gpus": self.gpus}
        resources = replace(resources, **{name: value for name, value in asked.items() if value is not None})
        if self.ray is not None:
            if self.processes is not None:
                raise InputError("With --ray the cluster decides how many runs there are at a time: no --processes.")
            return RayTasks(self.ray, resources)
        if resources.gpus:
            raise InputError("Only Ray gives GPUs to runs: ray start --head, then tutelage study run with --ray auto.")
        return LocalProcesses(self.processes, resources.cpus)


@dataclass(frozen=True)
class Status(_File):
    """Show the progress of each run, and which variants are best so far."""

    def run(self) -> None:
        found = self.plan()
        jobs = [replace(job, status="begun") if job.status == "waiting" and job.share else job for job in found.jobs]
        Console().print(table_of(jobs))
        _show_ranking(found.ranking)


@dataclass(frozen=True)
class Commands(_File):
    """Print one command for each run that comes next, for SLURM arrays, xargs and the like."""

    def run(self) -> None:
        for job in self.plan().jobs:
            if job.status == "waiting":
                print(shlex.join(["tutelage", *job.run.command(job.pause_at)]))


@dataclass(frozen=True)
class Results(_File):
    """Write the results of all runs as small tidy CSV files. Rows of runs without a directory here are kept."""

    def run(self) -> None:
        _, runs = self.read()
        for path in collect(runs, self.tables):
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
        self.what.run()


def check(study: Study, runs: Sequence[StudyRun] = ()) -> None:
    """Read all options, so that a mistake, or a change since one of the `runs` began, shows before anything runs."""
    configs: dict[str, Config[Any]] = {}
    for name, options in study.variants.items():
        try:
            config = configs[name] = parse(options).config
            curriculum = config.curriculum()
        except InputError as error:
            raise InputError(f"Variant {name}: {error}") from None
        except SystemExit:
            raise InputError(f"Variant {name}: tutelage train does not take {shlex.join(options)}.") from None
        if selection := study.selection:
            suites, domain = config.evaluation.suites, curriculum.parts.domain
            played = {level.name for suite in suites for level in config.test_levels(domain, suite)}
            if not played or {*selection.levels} - played:
                unknown = ", ".join(sorted({*selection.levels} - played)) or "any level"
                raise InputError(f"Variant {name}: the selection needs evaluations on {unknown}, and there are none.")
            if selection.rungs and not config.evaluation.evaluate_every:
                raise InputError(f"Variant {name}: rungs need evaluations on the way: set evaluate_every.")
    for run in runs:
        if (made := run.config()) and (found := _changes(made, replace(configs[run.variant], seed=run.seed))):
            raise InputError(
                f"{run.variant}, seed {run.seed} was begun with other options ({'; '.join(found)}), and keeps them: "
                f"undo the change, give the variant another name, or delete {run.directory}."
            )


def _changes(made: Config[Any], asked: Config[Any]) -> list[str]:
    """Options, of those that results depend on, which differ from a run's. `resume` may have made the run longer."""
    asked = replace(asked, devices=made.devices, storage=made.storage)  # 0 devices are all that there are
    longer = made.total_steps >= asked.total_steps
    longer = longer and (made.total_updates or math.inf) >= (asked.total_updates or math.inf)
    if longer and not made.anneal_lr:
        asked = replace(asked, total_steps=made.total_steps, total_updates=made.total_updates)
    return [] if made == asked else differences(flat(made.to_json()), flat(asked.to_json()))  # == is quick


def _show_ranking(ranking: Sequence[Ranked]) -> None:
    for rung in sorted({each.rung for each in ranking}):
        rows = [each for each in ranking if each.rung == rung]
        steps = rows[0].steps
        table = Table("", "variant", "score", "std", "seeds", "", box=None, title_justify="left")
        table.title = "At the end" if steps is None else f"At {steps:,} steps"
        for each in rows:
            numbers = ("" if x is None else f"{x:.3f}" for x in (each.score, each.std))
            chosen = ("best" if steps is None else "goes on") if each.selected else ""
            table.add_row(str(each.place), each.variant, *numbers, str(each.seeds), chosen)
        Console().print(table)
