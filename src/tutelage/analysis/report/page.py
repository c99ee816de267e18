"""The page: which sections it has, in which order, and how they become one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import jinja2
from tqdm import tqdm

from tutelage.analysis import style
from tutelage.analysis.report import levels
from tutelage.analysis.report.blocks import Section
from tutelage.analysis.report.calibration import calibration
from tutelage.analysis.report.configuration import configuration
from tutelage.analysis.report.example import Example
from tutelage.analysis.report.inline import embedder
from tutelage.analysis.report.overview import overview
from tutelage.analysis.report.testing import testing
from tutelage.analysis.report.training import complexity, training
from tutelage.analysis.report.videos import videos
from tutelage.analysis.results import by_method
from tutelage.files import write_atomically
from tutelage.training.run import Run
from tutelage.types import InputError


def report(runs: Sequence[Run], out: str | Path, *, with_films: bool = True, quiet: bool = False) -> Path:
    """Write a page about one run or several, which needs neither a network nor another file.

    Args:
        runs: of one domain; those that differ in their seed only belong together.
        out: the file.
        with_films: also show episodes, which have to be played first.
        quiet: no progress bar.

    Returns:
        Where it is.

    Raises:
        InputError: if the runs do not belong together, or the file cannot be written.
    """
    groups = by_method(runs)
    domains = dict.fromkeys(run.config.setup.name for run in runs)
    if len(domains) > 1:
        raise InputError(f"These runs practised {' and '.join(domains)}: make a report for each domain.")
    out = Path(out)
    if out.is_dir():
        raise InputError(f"{out} is a directory: name a file in it.")
    builders = _builders(groups, with_films)
    bar = tqdm(builders.items(), desc="report", unit=" sections", disable=True if quiet else None)
    sections = []
    for name, build in bar:
        bar.set_postfix_str(name)
        sections.append(build())
    page = _render(groups, [section for section in sections if section.blocks])
    try:
        write_atomically(out, page)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error}): choose another place.") from None
    return out


def _builders(groups: Mapping[str, Sequence[Run]], with_films: bool) -> dict[str, Callable[[], Section]]:
    runs = [run for group in groups.values() for run in group]
    domain = runs[0].domain
    alone = len(groups) == 1
    examples = [Example(group[0], _example_title(label, group), alone=alone) for label, group in groups.items()]
    builders: dict[str, Callable[[], Section]] = {
        "overview": partial(overview, groups),
        "tests": partial(testing, runs),
        "training": partial(training, runs, domain),
        "complexity": partial(complexity, runs, domain),
        "levels": partial(levels.now, examples),
        "curriculum": partial(levels.through_training, examples),
        "ancestry": partial(levels.ancestry, examples),
        "videos": partial(videos, examples),
        "calibration": partial(calibration, examples),
        "configuration": partial(configuration, groups),
    }
    if not with_films:
        del builders["videos"]
    return builders


def _example_title(label: str, group: Sequence[Run]) -> str:
    of = f", one of {len(group)} runs" if len(group) > 1 else ""
    return f"{style.display(label)}, seed {group[0].config.seed}{of}"


def _render(groups: Mapping[str, Sequence[Run]], sections: Sequence[Section]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tutelage.analysis.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    methods = [style.display(label) for label in groups]
    first = next(iter(groups.values()))[0]
    count = sum(map(len, groups.values()))
    return environment.get_template("page.html").render(
        title=f"{', '.join(methods)} in {first.config.setup.name}",
        about=f"{count} runs" if count > 1 else f"seed {first.config.seed}",
        sections=sections,
        embed=embedder(),
    )
