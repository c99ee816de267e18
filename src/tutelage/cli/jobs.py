"""The progress of many runs: a live table in a terminal, or a line for each change; and a summary at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tutelage.studies.jobs import Job
from tutelage.studies.study import RunId
from tutelage.training.train import stop_requests


@contextmanager
def watching() -> Iterator[tuple[Callable[[Sequence[Job]], None], list[int]]]:
    """A function that shows jobs, and the signals to stop received so far."""
    console, shown = Console(), dict[RunId, str]()
    with Live(console=console, refresh_per_second=2) if console.is_terminal else nullcontext() as live:

        def show(jobs: Sequence[Job]) -> None:
            if live is not None:
                live.update(table_of(jobs))
                return
            for job in jobs:
                if shown.get(job.run.id) != (said := f"{job.status} {job.place}".strip()):
                    shown[job.run.id] = said
                    print(f"{job.run.variant}, seed {job.run.seed}: {said}", flush=True)

        with stop_requests() as requests:
            yield show, requests


def conclude(jobs: Sequence[Job], requests: Sequence[int], command: str) -> None:
    """Count how runs ended. Exit with an error if one failed, or as a stopped process does."""
    count = Counter(job.status for job in jobs)
    print(", ".join(f"{number} {status}" for status, number in count.items()) + ".")
    for job in jobs:
        if job.status == "failed":
            print(f"{job.run.variant}, seed {job.run.seed} failed; see {job.run.log}")
    if count["stopped"] or count["paused"]:
        print(f"Continue with: {command}")
    if count["stopped"]:
        raise SystemExit(128 + requests[0])
    if count["failed"]:
        raise SystemExit(1)


def table_of(jobs: Sequence[Job]) -> Table:
    """Variants as rows, seeds as columns."""
    seeds = sorted({job.run.seed for job in jobs})
    table = Table(box=None)
    table.add_column("variant", no_wrap=True)
    for seed in seeds:
        table.add_column(f"seed {seed}", justify="right", no_wrap=True)
    cells = {job.run.id: _cell(job) for job in jobs}
    for variant in dict.fromkeys(job.run.variant for job in jobs):
        table.add_row(variant, *(cells.get((variant, seed), "") for seed in seeds))
    return table


def _cell(job: Job) -> str:
    words: list[str] = [job.status]
    if job.status not in ("done", "in results", "failed") and job.share:
        words.append(f"{job.share:.0%}")
    if job.status == "running":
        words += [job.place] if job.place else []
        words += [f"{job.left / 60:.0f} min left"] if job.left is not None else []
    return " ".join(words)
