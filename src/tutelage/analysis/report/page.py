"""The page: what it is made of, which sections it has, and how they become one file."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from tutelage.analysis.report import levels, sections
from tutelage.analysis.report.blocks import Section
from tutelage.analysis.results import Results, display
from tutelage.files import write_atomically
from tutelage.training.progress import ProgressBar
from tutelage.training.run import Run
from tutelage.types import InputError


def report(runs: Sequence[Run], out: str | Path, *, with_videos: bool = True, quiet: bool = False) -> Path:
    """Write a page about one run or several, which needs neither a network nor another file.

    Args:
        runs: of one domain; those that differ in their seed only belong together.
        out: the file.
        with_videos: also show episodes, which have to be played first.
        quiet: no progress bar.

    Returns:
        Where it is.

    Raises:
        InputError: if the runs do not belong together, or the file cannot be written.
    """
    results, out = Results(runs), Path(out)
    domains = dict.fromkeys(run.config.setup.name for run in runs)
    if len(domains) > 1:
        raise InputError(f"These runs were trained on {' and '.join(domains)}: make a report for each domain.")
    if out.is_dir():
        raise InputError(f"{out} is a directory: name a file in it.")
    builders = _builders(results, with_videos)
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


def _builders(results: Results, with_videos: bool) -> list[Callable[[], Section]]:
    alone = len(results.groups) == 1
    examples = [
        levels.Example(group[0], results.titles[group[0].directory] + _one_of(len(group)), alone=alone)
        for group in results.groups.values()
    ]
    return [
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


def _one_of(count: int) -> str:
    return f", one of {count} runs" if count > 1 else ""


def render(title: str, about: str, sections: Sequence[Section]) -> str:
    """A page of those sections that have any blocks, as one file."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tutelage.analysis.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = [section for section in sections if section.blocks]
    template = environment.get_template("page.html")
    return template.render(title=title, about=about, sections=shown, embed=_embedder())


def _embedder() -> Callable[[str, str], Markup]:
    """A function that prepares SVG elements for a page: identifiers inside one are not found in those before."""
    numbers = itertools.count(1)

    def embed(svg: str, label: str) -> Markup:
        name = f"plot-{next(numbers)}-"
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL)
        svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}", svg)
        return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1))

    return embed
