"""`tutelage train` and `tutelage resume`.

A preset gives every option its default, so it is read off the command line before the rest (`default_config`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, get_args

from tyro.conf import Positional, arg

from tutelage.files import read_json
from tutelage.learning.mesh import use_cores
from tutelage.training.compilation import keep_programs
from tutelage.training.config import Config, MethodName, PresetName, S
from tutelage.training.presets import setup_named
from tutelage.training.run import CONFIG, Run, read_config
from tutelage.training.storage import check_free
from tutelage.training.trackers import TrackerName
from tutelage.training.train import Programs, Stopped, resume, stop_requests, train
from tutelage.types import InputError


@dataclass(frozen=True)
class Train(Generic[S]):
    """Train an agent, evaluate it on the way, and keep all of it in a run directory.

    Defaults are the preset's; each option names the paper's value.
    """

    config: Annotated[Config[S], arg(name="")]
    domain: str = "maze"
    """What to practise: maze, racing, or the setup class of your own environment as module:Class."""
    preset: PresetName = "laptop"
    """Whence all other defaults: paper (its appendix), released (its code), laptop (minutes), tiny (seconds)."""
    config_file: Annotated[Path | None, arg(name="config")] = None
    """Take the defaults from the config.json of another run instead."""
    out: Path | None = None
    """Where to write: runs/DOMAIN-METHOD-PRESET here, if not said otherwise."""
    seeds: int | None = None
    """Train this many seeds, one after the other on all cores, each in a directory of its own."""
    overwrite: bool = False
    """Replace a run that is there already, once the first iteration of the new one has worked."""
    track: TrackerName | None = None
    """Also send metrics there."""

    def run(self) -> None:
        """Train all seeds."""
        if self.seeds is not None and self.seeds < 1:
            raise InputError(f"seeds must be at least 1, not {self.seeds}.")
        use_cores()
        keep_programs()
        config = self.config
        origin = self.config_file.parent.name if self.config_file else self.preset
        out = self.out or Path("runs") / f"{config.setup.name}-{config.method}-{origin}"
        seeds = range(config.seed, config.seed + (self.seeds or 1))
        directories = {seed: out if self.seeds is None else out / f"seed-{seed}" for seed in seeds}
        for directory in directories.values():
            check_free(directory, overwrite=self.overwrite)
        for seed in seeds:
            replace(config, seed=seed).check()
        programs = Programs(config)
        with stop_requests() as requests:
            for seed, directory in directories.items():
                one, code = replace(config, seed=seed), 0
                try:
                    train(
                        one, directory, overwrite=self.overwrite, programs=programs, track=self.track, requests=requests
                    )
                    print(f"{config.method}, seed {seed}: done. The run is in {directory}.")
                except Stopped as stopped:
                    _stopped(Run(directory, one))
                    code = stopped.exit_code
                if requests and seed < seeds[-1]:  # one may also have come in the seed's last iteration
                    rest = f"--seed {seed + 1} --seeds {seeds[-1] - seed} --out {out}"
                    print(f"And with the other seeds: tutelage train --config {directory / CONFIG} {rest}")
                    code = 128 + requests[0]
                if code:
                    raise SystemExit(code)
        print(f"See it: tutelage report {out}")


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped or killed, or make it longer."""

    directory: Positional[Path]
    """The run's directory."""
    total_steps: int | None = None
    """Go on until so many environment steps, instead of those planned."""
    total_updates: int | None = None
    """Go on until so many gradient updates, instead of those planned."""
    domain: str | None = None
    """The setup class of an environment of your own, as module:Class."""
    track: TrackerName | None = None
    """Also send metrics there."""
    repair_logs: bool = False
    """If logs are damaged, copy them and continue with those of their rows that are whole."""

    def run(self) -> None:
        """Go on to the end."""
        setup = setup_named(self.domain) if self.domain else None
        run = Run.load(self.directory, setup)
        use_cores(run.config.devices)
        keep_programs()
        try:
            resume(
                self.directory,
                total_steps=self.total_steps,
                total_updates=self.total_updates,
                setup=setup,
                track=self.track,
                repair_logs=self.repair_logs,
            )
        except Stopped as stopped:
            _stopped(run)
            raise SystemExit(stopped.exit_code) from None
        print(f"Done. The run is in {self.directory}.")


def _stopped(run: Run) -> None:
    print(f"Stopped, and all is saved. Go on with: {run.command('resume', str(run.directory))}")


def default_config(arguments: Sequence[str], method: MethodName | None = None) -> Config[Any]:
    """The configuration that the options of a `train` command start from; its method is guessed unless given."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--domain")
    parser.add_argument("--preset")
    parser.add_argument("--config", type=Path)
    known, rest = parser.parse_known_args([argument for argument in arguments if argument not in ("-h", "--help")])
    if known.config is None:
        preset: PresetName = known.preset or "laptop"
        if preset not in get_args(PresetName):
            raise InputError(f"There is no preset {preset!r}; choose one of {', '.join(get_args(PresetName))}.")
        guess: MethodName = next((name for name in get_args(MethodName) if name in rest), "plr-perp")
        return setup_named(known.domain or "maze").preset(preset, method or guess)
    own = known.domain and ":" in known.domain
    if known.preset or (known.domain and not own):
        raise InputError(
            "A configuration file says all that a preset or a domain would: leave --preset and --domain out."
        )
    try:
        content = read_json(known.config)
    except OSError as error:
        raise InputError(f"{known.config} cannot be read: {error.strerror}.") from None
    return read_config(content, setup_named(known.domain) if own else None)
