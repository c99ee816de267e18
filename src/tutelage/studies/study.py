"""A study: several variants of a method, several seeds of each, as one TOML file.

    preset = "laptop"               # domain and preset of all runs
    seeds = 5                       # seeds 0 … 4, or a list

    [options]                       # options of `tutelage train` for all runs
    total_steps = 20_000_000
    blocks = 25

    [[variants]]                    # one table for each variant: a method, and options of its own
    method = "dr"

    [[variants]]
    method = "plr-perp"
    name = "plr-perp-true-regret"
    score = "true-regret"

    [grid]                          # optional: each variant once for every combination of these values
    temperature = [0.3, 1.0]

Every run is one `tutelage train` command with a run directory of its own, so whatever runs commands can run a study.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutelage.types import InputError

Options = Mapping[str, Any]

MOST_SEEDS = 10_000

KEYS = {"domain", "preset", "seeds", "options", "variants", "grid", "allow"}


@dataclass(frozen=True)
class StudyRun:
    """One run of a study."""

    variant: str
    seed: int
    directory: Path
    options: tuple[str, ...]
    """Of `tutelage train`, the method first."""

    @property
    def key(self) -> tuple[str, int]:
        """What sets it apart from the others."""
        return self.variant, self.seed

    @property
    def command(self) -> list[str]:
        """The words after `tutelage` that start the run from the beginning."""
        return ["train", *self.options, "--seed", str(self.seed), "--out", str(self.directory)]


@dataclass(frozen=True)
class Study:
    """What a study file says."""

    variants: Mapping[str, tuple[str, ...]]
    """The options of `tutelage train` by the name of each variant."""
    seeds: tuple[int, ...]
    allow: tuple[str, ...] = ()
    """Modules of the user's own that the options name."""

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read a study file.

        Raises:
            InputError: if it cannot be read, or says something that is not a study.
        """
        try:
            content = tomllib.loads(Path(path).read_text())
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not TOML: {error}.") from None
        try:
            return cls.from_content(content)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def from_content(cls, content: Options) -> Study:
        """What the parsed file says."""
        if unknown := content.keys() - KEYS:
            raise InputError(f"A study has no entry {sorted(unknown)[0]!r}; it has {', '.join(sorted(KEYS))}.")
        common = {name: content[name] for name in ("domain", "preset") if name in content}
        common |= _table(content, "options")
        variants: dict[str, tuple[str, ...]] = {}
        for entry in _variants(content):
            for values in _combinations(_table(content, "grid")):
                name, options = _variant(common, entry, values)
                if name in variants:
                    raise InputError(f"Two variants are called {name!r}: give one of them another name.")
                variants[name] = options
        allow = content.get("allow", [])
        if not isinstance(allow, list) or not all(isinstance(module, str) for module in allow):
            raise InputError(f'allow is a list of modules, such as allow = ["mine"], not {allow!r}.')
        return cls(variants, _seeds(content.get("seeds", 1)), tuple(allow))

    def runs(self, directory: str | Path) -> list[StudyRun]:
        """All runs, with directories VARIANT/seed-N in `directory`; every variant's first seed comes first."""
        return [
            StudyRun(name, seed, Path(directory) / name / f"seed-{seed}", options)
            for seed in self.seeds
            for name, options in self.variants.items()
        ]


def _variants(content: Options) -> Sequence[Options]:
    variants = content.get("variants")
    if not isinstance(variants, list) or not variants or not all(isinstance(each, dict) for each in variants):
        raise InputError("A study needs at least one table [[variants]] with a method.")
    for each in variants:
        if not isinstance(each.get("method"), str):
            raise InputError('Each of [[variants]] needs a method, such as method = "plr-perp".')
    return variants


def _variant(common: Options, entry: Options, values: Options) -> tuple[str, tuple[str, ...]]:
    """A variant's name, and its options with the method first."""
    suffix = "".join(f"-{name.rpartition('.')[2]}-{value}" for name, value in values.items())
    name = str(entry.get("name", entry["method"])) + suffix
    if not re.fullmatch(r"[\w.⊥-]+", name) or name.startswith("."):
        raise InputError(f"A variant's name becomes a directory's: letters, digits, '.', '_' and '-'; not {name!r}.")
    own = {key: value for key, value in entry.items() if key not in ("method", "name")}
    words = [str(entry["method"]), *(() if name == entry["method"] else ("--name", name))]
    for option, value in {**common, **own, **values}.items():
        if option in ("seed", "seeds", "out"):
            raise InputError(f"The study decides the {option} of every run: leave the option out.")
        words += _words(option, value)
    return name, tuple(words)


def _words(option: str, value: Any) -> list[str]:
    """An option as the command line has it."""
    flag = option.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}"] if value else [f"--{'.'.join([*flag.split('.')[:-1], 'no-' + flag.split('.')[-1]])}"]
    if isinstance(value, list):
        return [f"--{flag}", *map(str, value)]
    if isinstance(value, dict):
        raise InputError(f'{option} is a table; write nested options with a dot, as in "teacher_ppo.epochs" = 2.')
    return [f"--{flag}", str(value)]


def _combinations(grid: Options) -> list[Options]:
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"Each entry of [grid] is a list of values; {name} is {values!r}.")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _seeds(value: Any) -> tuple[int, ...]:
    numbers = [value] if isinstance(value, int) else value
    good = isinstance(numbers, list) and all(type(x) is int and 0 <= x < 2**32 for x in numbers)
    if not good or (isinstance(value, int) and not 1 <= value <= MOST_SEEDS):
        raise InputError(f"seeds is a number from 1 to {MOST_SEEDS} or a list of different seeds, not {value!r}.")
    seeds = list(range(value)) if isinstance(value, int) else value
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds is a number of at least 1 or a list of different seeds, not {value!r}.")
    return tuple(seeds)


def _table(content: Options, name: str) -> dict[str, Any]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise InputError(f"{name} is a table, [{name}], not {table!r}.")
    return table
