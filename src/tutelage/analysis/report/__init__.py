"""One run or several as a single HTML page that opens anywhere: no network, no script, no other file.

`page` renders sections as one file, `sections` builds those with tables and figures, `levels` those with pictures.
Curves and tests show all runs; levels and videos show one run for each method, its `Example`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tutelage.analysis.report import levels, sections
from tutelage.analysis.report.page import Section, render
from tutelage.analysis.results import Results, display
from tutelage.files import write_atomically
from tutelage.training.progress import ProgressBar
from tutelage.training.run import Run
from tutelage.types import InputError

__all__ = ["report"]


def report(runs: Sequence[Run], out: str | Path, *, with_videos: bool = True, quiet: bool = False) -> Path:
    """Write a page about one run or several, and return the path of its file.

    Args:
        runs: of one domain; those that differ in their seed only belong together.
        out: the file.
        with_videos: also show episodes, which have to be played first.
        quiet: no progress bar.

    Raises:
        InputError: if the runs do not belong together, or the file cannot be written.
    """
    results, out = Results(runs), Path(out)
    domains = dict.fromkeys(run.config.setup.name for run in runs)
    if len(domains) > 1:
        raise InputError(f"These runs were trained on {' and '.join(domains)}: make a report for each domain.")
    if out.is_dir():
        raise InputError(f"{out} is a directory: name a file in it.")
    examples = []
    for group in results.groups.values():
        one_of = f", one of {len(group)} runs" if len(group) > 1 else ""
        examples.append(levels.Example(group[0], results.titles[group[0].directory] + one_of))
    builders: list[Callable[[], Section]] = [
        partial(sections.overview, results),
        partial(sections.tests, results),
        partial(sections.training, results),
        partial(sections.complexity, results),
        partial(levels.now, examples),
        partial(levels.through_training, examples),
        partial(levels.ancestry, examples),
        *([partial(levels.videos, examples)] if with_videos else []),
        partial(sections.calibration, {example.title: example.results.snapshots for example in examples}),
        partial(sections.configuration, results),
    ]
    built = []
    with ProgressBar("report", len(builders), quiet=quiet, unit="sections") as progress:
        for build in builders:
            built.append(build())
            progress.update(1)
    first, count = results.runs[0], len(results.runs)
    title = f"{', '.join(map(display, results.groups))} in {first.run.config.setup.name}"
    page = render(title, f"{count} runs" if count > 1 else f"seed {first.seed}", built)
    try:
        write_atomically(out, page)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error}): choose another place.") from None
    return out
