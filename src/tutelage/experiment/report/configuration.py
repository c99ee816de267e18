"""The section that says what each method was told, and what it ran with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tutelage.experiment import style
from tutelage.experiment.config import flat
from tutelage.experiment.report.blocks import Block, Section, Table
from tutelage.experiment.run import CONFIG, Run
from tutelage.types import Json


def configuration(groups: Mapping[str, Sequence[Run]]) -> Section:
    """What all runs have in common, where methods differ, and the versions of what they ran with."""
    told = {label: flat(group[0].config.to_json()) for label, group in groups.items()}
    names = dict.fromkeys(name for options in told.values() for name in options if name != "seed")
    differing = [name for name in names if len({_text(options.get(name)) for options in told.values()}) > 1]
    blocks: list[Block] = []
    if differing:
        seeds = ["seeds", *(", ".join(str(run.config.seed) for run in group) for group in groups.values())]
        rows = [[name, *(_text(options.get(name)) for options in told.values())] for name in differing]
        blocks.append(Table(["option", *map(style.display, told)], [seeds, *rows], "Where they differ", words=True))
    options = next(iter(told.values()))
    rows = [[name, _text(options.get(name))] for name in names if name not in differing]
    blocks.append(Table(["option", "value"], rows, "All options" if not differing else "In common", words=True))
    versions = dict.fromkeys(_versions(run) for group in groups.values() for run in group)
    rows = [[name, version] for each in versions for name, version in json.loads(each).items()]
    blocks.append(Table(["package", "version"], rows, "What it ran with", words=True))
    about = "Train one like it with tutelage train METHOD --config RUN/config.json."
    return Section("configuration", "Configuration", about, blocks)


def _text(value: Json) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value)


def _versions(run: Run) -> str:
    content = json.loads((run.directory / CONFIG).read_text())
    return json.dumps({"tutelage": content.get("tutelage", "–")} | content.get("packages", {}))
