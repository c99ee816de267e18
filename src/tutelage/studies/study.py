"""A study: several variants of a method, several seeds of each, as one TOML file (`docs/studies.md` has its entries).

Every run is one `tutelage train` command with a run directory of its own, so any job scheduler can run a study.
"""

from __future__ import annotations

import itertools
import math
import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tutelage.training.config import Config
from tutelage.training.run import Progress, Run, config_file
from tutelage.training.serialization import from_plain
from tutelage.types import InputError

Options = Mapping[str, Any]

RunId = tuple[str, int]
"""A variant and a seed."""

MOST_SEEDS = 10_000
MOST_DRAWS = 10_000

KEYS = {"domain", "preset", "seeds", "options", "variants", "grid", "random", "selection", "resources", "allow"}


@dataclass(frozen=True)
class Resources:
    """What each run gets."""

    cpus: int = 1
    """Cores: each is a device of JAX, unless there are accelerators."""
    gpus: float = 0.0
    """GPUs, or a share of one; with Ray only."""
    max_retries: int = 3
    """How often a run is continued elsewhere when its node or its process is lost; -1: always. With Ray only."""

    def __post_init__(self) -> None:
        if self.cpus < 1:
            raise InputError(f"cpus must be at least 1, not {self.cpus}.")
        if not 0 <= self.gpus < math.inf or (self.gpus > 1 and self.gpus % 1):
            raise InputError(f"gpus is a whole number or a share between 0 and 1, not {self.gpus}.")
        if self.max_retries < -1:
            raise InputError(f"max_retries must be at least 0, or -1 for always; not {self.max_retries}.")


@dataclass(frozen=True)
class Selection:
    """How variants are ranked, by evaluations on validation levels, and which ones continue."""

    metric: Literal["solved", "return"] = "solved"
    levels: tuple[str, ...] = ()
    """The mean over these test levels; all of them if none is named."""
    evaluations: int = 1
    """And over this many of the last evaluations."""
    rungs: tuple[int, ...] = ()
    """Successive halving: pause all runs at these numbers of steps and continue the best variants only."""
    keep: float = 1 / 3
    """The share of the variants that continues."""

    def __post_init__(self) -> None:
        if self.evaluations < 1:
            raise InputError(f"selection.evaluations must be at least 1, not {self.evaluations}.")
        if any(x < 1 for x in self.rungs) or sorted(set(self.rungs)) != list(self.rungs):
            raise InputError(f"selection.rungs are rising numbers of steps, not {list(self.rungs)}.")
        if not 0 < self.keep < 1:
            raise InputError(f"selection.keep is a share between 0 and 1, not {self.keep}.")


@dataclass(frozen=True)
class StudyRun:
    """One run of a study."""

    variant: str
    seed: int
    directory: Path
    options: tuple[str, ...]
    """Of `tutelage train`, the method first."""
    allow: tuple[str, ...] = ()
    """Modules of the user's own that the options name."""
    anew: bool = False
    """Replace an existing run instead of resuming it."""

    @property
    def id(self) -> RunId:
        return self.variant, self.seed

    @property
    def log(self) -> Path:
        """The file of its process's output."""
        return self.directory.with_name(f"{self.directory.name}.log")

    @property
    def begun(self) -> bool:
        """Whether it has a run directory to resume."""
        return config_file(self.directory).exists()

    def load(self) -> Run:
        return Run.load(self.directory, self.allow)

    def config(self) -> Config[Any] | None:
        """The configuration it began with; None if it has not begun, or cannot be read, as its process will report."""
        with suppress(InputError):
            return self.load().config if self.begun else None
        return None

    def progress(self) -> tuple[Progress, bool]:
        """The saved progress, and whether the run is finished."""
        if self.begun:
            try:
                run = self.load()
                if saved := run.saved():
                    return saved.progress, saved.progress.finished(run.config)
            except InputError:  # the run's own process will report it
                pass
        return Progress(), False

    def command(self, pause_at: int | None = None) -> list[str]:
        """The arguments of `tutelage` that start or resume the run, to its end or to `pause_at` steps."""
        words = ["train", *self.options, "--seed", str(self.seed), "--out", str(self.directory)]
        if self.begun and not self.anew:
            words = ["resume", str(self.directory)]
            if "--track" in self.options:
                words += ["--track", self.options[self.options.index("--track") + 1]]
            words += ["--allow", *self.allow] if self.allow else []
        return words + (["--pause-at", str(pause_at)] if pause_at is not None else [])


@dataclass(frozen=True)
class Study:
    """The content of a study file."""

    variants: Mapping[str, tuple[str, ...]]
    """The options of `tutelage train` by the name of each variant."""
    seeds: tuple[int, ...]
    allow: tuple[str, ...] = ()
    """Modules of the user's own that the options name."""
    selection: Selection | None = None
    resources: Resources = Resources()

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read a study file."""
        try:
            return cls.from_content(tomllib.loads(Path(path).read_text()))
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from None
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not TOML: {error}.") from None

    @classmethod
    def from_content(cls, content: Options) -> Study:
        """A study from a parsed file."""
        if unknown := content.keys() - KEYS:
            raise InputError(f"A study has no entry {sorted(unknown)[0]!r}; it has {', '.join(sorted(KEYS))}.")
        common = {name: content[name] for name in ("domain", "preset") if name in content}
        common |= _table(content, "options")
        variants: dict[str, tuple[str, ...]] = {}
        for entry in _variants(content):
            for values in _combinations(_table(content, "grid"), _table(content, "random")):
                name, options = _variant(common, entry, values)
                if name in variants:
                    raise InputError(f"Two variants are called {name!r}: give one of them another name.")
                variants[name] = options
        allow = from_plain(tuple[str, ...], content.get("allow", []), "allow", ())
        selection = from_plain(Selection | None, content.get("selection"), "selection", ())
        resources = from_plain(Resources, content.get("resources", {}), "resources", ())
        return cls(variants, _seeds(content.get("seeds", 1)), allow, selection, resources)

    def runs(self, directory: str | Path) -> list[StudyRun]:
        """All runs, with directories VARIANT/seed-N in `directory`; every variant's first seed comes first."""
        return [
            StudyRun(name, seed, Path(directory) / name / f"seed-{seed}", options, self.allow)
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
    words = [entry["method"], *(() if name == entry["method"] else ("--name", name))]
    for option, value in {**common, **own, **values}.items():
        if option in ("seed", "seeds", "out", "overwrite", "pause_at"):
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


def _combinations(grid: Options, draws: Options) -> list[Options]:
    """What each variant is combined with: every combination of the grid with every draw."""
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"Each entry of [grid] is a list of values; {name} is {values!r}.")
    if twice := grid.keys() & draws.keys():
        raise InputError(f"{sorted(twice)[0]} is in [grid] and in [random]: leave it out of one of them.")
    combinations = (dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values()))
    return [each | drawn for each, drawn in itertools.product(combinations, _draws(draws))]


def _draws(table: Options) -> list[Options]:
    """Different draws of options. A draw depends on the seed and on the draws before it, but not on their number."""
    if not table:
        return [{}]
    ranges = dict(table)
    samples, seed = ranges.pop("samples", None), ranges.pop("seed", 0)
    if type(samples) is not int or not 1 <= samples <= MOST_DRAWS or type(seed) is not int:
        raise InputError(f"[random] needs samples, the number of draws (at most {MOST_DRAWS:,}), and may have a seed.")
    rng, found = random.Random(seed), list[Options]()
    for _ in range(100 * samples):
        drawn = {name: _draw(name, value, rng.random()) for name, value in ranges.items()}
        if drawn not in found:
            found.append(drawn)
        if len(found) == samples:
            return found
    raise InputError(f"[random] has no {samples} different draws, only about {len(found)}: ask for fewer samples.")


def _draw(name: str, value: Any, at: float) -> Any:
    """One of a list, or a number of a range, for `at` between 0 and 1. Numbers have three digits."""
    if isinstance(value, list) and value:
        return value[int(at * len(value))]
    given: dict[str, Any] = value if isinstance(value, dict) else {}
    low, high, log = given.get("min", math.nan), given.get("max", math.nan), given.get("log", False)
    good = given.keys() <= {"min", "max", "log"} and type(log) is bool
    good = good and all(type(end) in (int, float) and math.isfinite(end) for end in (low, high))
    if not good or not low < high or (log and low <= 0):
        raise InputError(
            f"Each entry of [random] is a list of values or a range, such as {{min = 1e-5, max = 1e-3, log = true}}; "
            f"{name} is {value!r}."
        )
    whole = type(low) is int and type(high) is int
    if whole and not log:
        return low + int(at * (high - low + 1))
    x = low * (high / low) ** at if log else low + at * (high - low)
    return round(x) if whole else float(f"{x:.3g}")


def _seeds(value: Any) -> tuple[int, ...]:
    seeds = list(range(value)) if type(value) is int and value <= MOST_SEEDS else value
    good = isinstance(seeds, list) and all(type(x) is int and 0 <= x < 2**32 for x in seeds)
    if not good or not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds is a number from 1 to {MOST_SEEDS} or a list of different seeds, not {value!r}.")
    return tuple(seeds)


def _table(content: Options, name: str) -> dict[str, Any]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise InputError(f"{name} is a table, [{name}], not {table!r}.")
    return table
