"""The section that says what each method was told, and what it ran with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tutelage.analysis import style
from tutelage.analysis.report.blocks import Block, Columns, Heading, Note, Section, Table
from tutelage.training.run import CONFIG, Run
from tutelage.training.serialization import flat
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
    if differing:
        blocks.append(Heading("In common"))
    blocks.append(Columns(_by_part({name: _text(options.get(name)) for name in names if name not in differing})))
    versions = dict.fromkeys(_versions(run) for group in groups.values() for run in group)
    blocks.append(Note("Ran with " + "; and with ".join(versions) + "."))
    about = "Train one like it with tutelage train --config RUN/config.json."
    return Section("configuration", "Configuration", about, blocks)


def _by_part(options: Mapping[str, str]) -> list[Table]:
    """A table for each part of a configuration."""
    parts: dict[str, list[list[str]]] = {}
    for name, value in options.items():
        part, _, option = name.rpartition(".")
        parts.setdefault(part, []).append([option, value])
    return [Table((), rows, part or "run", words=True) for part, rows in parts.items()]


def _text(value: Json) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value)


def _versions(run: Run) -> str:
    content = json.loads((run.directory / CONFIG).read_text())
    packages = {"tutelage": content.get("tutelage", "–")} | content.get("packages", {})
    return ", ".join(f"{name} {version}" for name, version in packages.items())
