"""`tutelage train` and `tutelage resume`.

A preset gives every option its default, so domain, preset and method are read off the command line before the rest
(`default_config`). What the options are then follows from that configuration: a method without a curator has no
`--temperature`, and the environment's options are those of its setup class.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Generic, get_args

import tyro
from tyro.conf import AvoidSubcommands, Positional, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from tutelage.curriculum.curator import Curator
from tutelage.curriculum.methods import METHODS
from tutelage.learning.mesh import use_cores
from tutelage.training.compilation import keep_programs
from tutelage.training.config import Config, PresetName, S
from tutelage.training.presets import setup_named
from tutelage.training.presets.choices import checked_name
from tutelage.training.run import CONFIG, Run, read_config
from tutelage.training.serialization import is_function, name_of, named_or_imported
from tutelage.training.trackers import TrackerName
from tutelage.training.train import Programs, Stopped, check_free, resume, train
from tutelage.types import InputError


@dataclass(frozen=True)
class Train(Generic[S]):
    """Train an agent, evaluate it on the way, and keep all of it in a run directory.

    Defaults are the preset's; each option names the paper's value.
    """

    method: Annotated[Positional[str], arg(metavar="METHOD")]
    """How levels are chosen: dr, minimax, paired, plr, plr-perp, repaired or accel."""
    config: Annotated[Config[S], arg(name="")]
    domain: str = "maze"
    """What to practice: maze, racing, or the setup class of your own environment as module:Class."""
    preset: PresetName = "laptop"
    """Where all defaults come from: paper (its appendix), released (its code), laptop (minutes), tiny (seconds)."""
    config_file: Annotated[Path | None, arg(name="config")] = None
    """Take the defaults from the config.json of another run instead."""
    allow: tuple[str, ...] = ()
    """Modules of your own that this file names and that may be imported."""
    out: Path | None = None
    """Where to write (default: runs/DOMAIN-METHOD-PRESET)."""
    seeds: int | None = None
    """Train this many seeds, one after the other on all cores, each in a directory of its own."""
    overwrite: bool = False
    """Replace a run that is there already."""
    track: TrackerName | None = None
    """Also send metrics there."""

    def run(self) -> None:
        """Train all seeds."""
        if self.seeds is not None and self.seeds < 1:
            raise InputError(f"seeds must be at least 1, not {self.seeds}.")
        keep_programs()
        config = self.config
        origin = self.config_file.parent.name if self.config_file else self.preset
        out = self.out or Path("runs") / f"{config.setup.name}-{config.method.name}-{origin}"
        seeds = range(config.seed, config.seed + (self.seeds or 1))
        directories = {seed: out if self.seeds is None else out / f"seed-{seed}" for seed in seeds}
        for directory in directories.values():
            check_free(directory, overwrite=self.overwrite)
        programs = Programs(config)
        for seed, directory in directories.items():
            one = replace(config, seed=seed)
            try:
                train(one, directory, overwrite=self.overwrite, programs=programs, track=self.track)
            except Stopped:
                _stopped(directory, one)
                if seed < seeds[-1]:
                    rest = [
                        "--config",
                        directory / CONFIG,
                        "--seed",
                        seed + 1,
                        "--seeds",
                        seeds[-1] - seed,
                        "--out",
                        out,
                    ]
                    print(f"And with the other seeds: {_command('train', self.method, *rest, *_allowing(config))}")
                return
            print(f"{config.method.name}, seed {seed}: done. The run is in {directory}.")
        print(f"See it: {_command('report', out, *_allowing(config))}")


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped or killed, or make it longer."""

    directory: Positional[Path]
    """The run's directory."""
    total_steps: int | None = None
    """Go on until so many environment steps, instead of those planned."""
    total_updates: int | None = None
    """Go on until so many gradient updates, instead of those planned."""
    allow: tuple[str, ...] = ()
    """Modules of your own that the run names and that may be imported."""
    track: TrackerName | None = None
    """Also send metrics there."""

    def run(self) -> None:
        """Go on to the end."""
        config = Run.load(self.directory, self.allow).config
        use_cores(config.devices)
        keep_programs()
        steps, updates = self.total_steps, self.total_updates
        try:
            resume(self.directory, total_steps=steps, total_updates=updates, allow=self.allow, track=self.track)
        except Stopped:
            return _stopped(self.directory, config)
        print(f"Done. The run is in {self.directory}.")
        return None


def parse(arguments: Sequence[str]) -> Train[Any]:
    """A `train` command from its options, the word `train` left out."""
    # a user's module may ask JAX for its devices as soon as it is imported
    use_cores()
    default = default_config(arguments)
    _refuse_curator_options(default, arguments)
    trainer: Any = Train[type(default.setup)]  # type: ignore[misc]
    with functions_by_name():
        command: Train[Any] = tyro.cli(
            trainer,
            args=arguments,
            default=trainer(default.method.name, default),
            prog="tutelage train",
            config=(AvoidSubcommands,),
        )
    if command.config_file is None:
        checked_name("method", command.method, METHODS)
    return command


def default_config(arguments: Sequence[str]) -> Config[Any]:
    """The configuration that the options of a `train` command start from."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--domain")
    parser.add_argument("--preset")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--allow", nargs="*", default=[])
    known, rest = parser.parse_known_args([argument for argument in arguments if argument not in ("-h", "--help")])
    if known.config is None:
        preset: Any = checked_name("preset", known.preset or "laptop", get_args(PresetName))
        asked = "-h" in arguments or "--help" in arguments
        first = rest[0] if rest and not rest[0].startswith("-") else next((x for x in rest if x in METHODS), None)
        if first is None and not asked:
            raise InputError(f"Which method? tutelage train METHOD, with one of {', '.join(METHODS)}.")
        method = checked_name("method", first or "plr-perp", METHODS)
        return setup_named(known.domain or "maze").preset(preset, method)
    if known.preset or known.domain:
        raise InputError(
            "A configuration file says all that a preset or a domain would: leave --preset and --domain out."
        )
    try:
        content = json.loads(known.config.read_text())
    except OSError as error:
        raise InputError(f"{known.config} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{known.config} is not JSON: {error}.") from None
    return read_config(content, known.allow)


def _refuse_curator_options(config: Config[Any], arguments: Sequence[str]) -> None:
    """Say why a method without a curator has no such options."""
    if config.method.curator is not None:
        return
    options = {"--" + f.name.replace("_", "-") for f in fields(Curator)}
    for argument in arguments:
        if (option := argument.partition("=")[0]) in options:
            having = ", ".join(name for name, method in METHODS.items() if method.curator)
            raise InputError(
                f"{config.method.name} has no curator, so {option} means nothing: leave it out, or choose a method "
                f"that replays levels: {having}."
            )


def functions_by_name() -> ConstructorRegistry:
    """Let options that are functions be given by name: the library's own, or module:function."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        if not is_function(info.type):
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="NAME|MODULE:NAME",
            instance_from_str=lambda words: named_or_imported(words[0]),
            is_instance=callable,
            str_from_instance=lambda function: [name_of(function)],
        )

    return registry


def _stopped(directory: Path, config: Config[Any]) -> None:
    print(f"Stopped, and all is saved. Go on with: {_command('resume', directory, *_allowing(config))}")


def _allowing(config: Config[Any]) -> list[str]:
    """The option that lets a command import what this configuration names beyond the library."""
    modules = sorted({value.partition(":")[0] for value in config.names() if ":" in value})
    return ["--allow", *modules] if modules else []


def _command(*words: Any) -> str:
    return shlex.join(["tutelage", *map(str, words)])
