"""`tutelage train` and `tutelage resume`.

A preset gives every option its default, so domain, preset and method are read off the command line before the rest
(`default_config`). What the options are then follows from that configuration: a method without a curator has no
`--temperature`, and the environment's options are those of its setup class.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_args

import jax
import tyro
from tyro.conf import AvoidSubcommands, OmitArgPrefixes, Positional, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from tutelage.cli.jobs import conclude, watching
from tutelage.cli.options import check_directory
from tutelage.curriculum.curator import Curator
from tutelage.curriculum.methods import METHODS, Method
from tutelage.files import read_json, write_atomically
from tutelage.learning.mesh import cores, use_cores
from tutelage.studies.jobs import Job, run_jobs
from tutelage.studies.local import LocalProcesses
from tutelage.studies.study import StudyRun
from tutelage.training import processes
from tutelage.training.compilation import keep_programs
from tutelage.training.config import Config, PresetName, S, checked_name
from tutelage.training.presets import setup_named
from tutelage.training.processes import use_processes
from tutelage.training.run import CONFIG, Run, config_file, read_config
from tutelage.training.run_writer import check_free
from tutelage.training.serialization import differences, find, flat, is_function, name_of
from tutelage.training.trackers import TrackerName
from tutelage.training.train import Programs, Stopped, resume, stop_requests, train
from tutelage.types import InputError

T = TypeVar("T")

SEEDS = "seeds.json"
"""The file with the seeds that were trained together in a directory."""


@dataclass(frozen=True)
class Processes:
    """One run on the devices of several processes: start the same command in each."""

    distributed: bool = False
    """Share one run among several processes, which JAX finds by itself under SLURM, Open MPI and Kubernetes."""
    coordinator: str | None = None
    """Elsewhere: the address of process 0, as HOST:PORT."""
    num_processes: int | None = None
    """Elsewhere: how many processes there are."""
    process_id: int | None = None
    """Elsewhere: which one this is, from 0."""

    def join(self) -> None:
        where = self.coordinator, self.num_processes, self.process_id
        if self.distributed or where != (None, None, None):
            use_processes(*where)


@dataclass(frozen=True)
class Origin:
    """What the defaults of all other options of `train` depend on."""

    domain: str | None = None
    preset: str | None = None
    config: Path | None = None
    allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class Train(Generic[S]):
    """Train an agent, evaluate it during training, and write everything to a run directory.

    Defaults are the preset's; each option names the paper's value.
    """

    method: Annotated[Positional[str], arg(metavar="METHOD")]
    """How levels are chosen; comes before all options: dr, minimax, paired, plr, plr-perp, repaired or accel."""
    config: Annotated[Config[S], arg(name="")]
    domain: str = "maze"
    """The domain: maze, racing, or the setup class of your own as module:Class."""
    preset: PresetName = "laptop"
    """Where all defaults come from: paper (its appendix), released (its code), laptop (minutes), tiny (seconds)."""
    config_file: Annotated[Path | None, arg(name="config")] = None
    """Take the defaults from the config.json of another run instead."""
    allow: tuple[str, ...] = ()
    """Modules of your own that this file names and that may be imported."""
    out: Path | None = None
    """Where to write (default: runs/DOMAIN-METHOD-PRESET)."""
    seeds: int | None = None
    """Train this many seeds, each in its own directory: in parallel on CPU cores, one after the other elsewhere."""
    overwrite: bool = False
    """Replace an existing run, after the first iteration of the new one has succeeded."""
    track: TrackerName | None = None
    """Also send metrics there."""
    pause_at: int | None = None
    """Save and end after this many environment steps. Nothing else changes; `resume` continues the run."""
    processes: Annotated[Processes, OmitArgPrefixes] = Processes()

    def run(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise InputError(f"seeds must be at least 1, not {self.seeds}.")
        keep_programs()
        config = self.config
        origin = self.config_file.parent.name if self.config_file else self.preset
        out = self.out or Path("runs") / f"{config.setup.name}-{config.method.name}-{origin}"
        seeds = range(config.seed, config.seed + (self.seeds or 1))
        directories = {seed: out if self.seeds is None else out / f"seed-{seed}" for seed in seeds}
        with processes.fail_together():
            if processes.is_main():
                check_directory(out, "--out")
                if self.seeds is not None:
                    if config_file(out).exists():
                        raise InputError(f"{out} is itself a run: give --out another directory for several seeds.")
                    Group(out, config, tuple(seeds), cpus=1).with_earlier(self.allow)
                for directory in directories.values():
                    check_free(directory, overwrite=self.overwrite)
        if config.devices > jax.device_count() and not self.config_file:
            raise InputError(f"There are {jax.device_count()} devices here, not {config.devices}: leave --devices out.")
        replace(config, seed=seeds[-1]).check()
        with stop_requests() as requests:
            programs = Programs(config)
            if self.seeds is not None and self._train_group(out, seeds):
                return
            for seed, directory in directories.items():
                run, code = Run(directory, replace(config, seed=seed)), 0
                options: Any = {"overwrite": self.overwrite, "track": self.track, "pause_at": self.pause_at}
                try:
                    train(run.config, directory, programs=programs, requests=requests, **options)
                    _ended(run)
                except Stopped as stopped:
                    _stopped(run)
                    code = stopped.exit_code
                if requests and seed < seeds[-1]:  # a signal may also arrive in the seed's last iteration
                    _print(f"And with all seeds: {run.command('resume', str(out))}")
                    code = 128 + requests[0]
                if code:
                    raise SystemExit(code)
        _print(f"See it: {run.command('report', str(out))}")

    def _train_group(self, out: Path, seeds: Sequence[int]) -> bool:
        """Record that these seeds belong together. Returns whether they were trained, in parallel on CPU cores."""
        devices, alone = self.config.devices, jax.default_backend() == "cpu" and jax.process_count() == 1
        at_once = min(len(seeds), cores() // max(devices, 1)) if alone else 1
        group = Group(out, self.config, tuple(seeds), devices or max(1, cores() // max(at_once, 1)))
        if processes.is_main():
            group.with_earlier(self.allow).write()
        if at_once > 1:
            print(f"{len(seeds)} seeds, {at_once} at a time with {group.cpus} core(s) each.")
            group.run(overwrite=self.overwrite, track=self.track, pause_at=self.pause_at)
        return at_once > 1


@dataclass(frozen=True)
class Resume:
    """Continue a run that was stopped or killed, or make it longer."""

    directory: Positional[Path]
    """The run's directory, or that of all seeds that were trained together."""
    total_steps: int | None = None
    """Continue until this many environment steps, instead of those planned."""
    total_updates: int | None = None
    """Continue until this many gradient updates, instead of those planned."""
    allow: tuple[str, ...] = ()
    """Modules of your own that the run names and that may be imported."""
    track: TrackerName | None = None
    """Also send metrics there."""
    repair_logs: bool = False
    """If logs are damaged, copy them and continue with their intact rows."""
    pause_at: int | None = None
    """Save and end after this many environment steps."""
    processes: Annotated[Processes, OmitArgPrefixes] = Processes()

    def run(self) -> None:
        if group := Group.read(self.directory, self.allow):
            if self.total_steps or self.total_updates or self.repair_logs or self.processes != Processes():
                raise InputError(f"{self.directory} holds several seeds: resume them one by one with these options.")
            group.run(track=self.track, pause_at=self.pause_at)
            return
        use_cores(_devices(self.directory))
        self.processes.join()
        keep_programs()
        run = Run.load(self.directory, self.allow)
        if not os.access(self.directory, os.W_OK | os.X_OK):
            raise InputError(f"You may not write to {self.directory}, where this run continues; copy it elsewhere.")
        options = {name: value for name, value in vars(self).items() if name not in ("directory", "processes")}
        try:
            run = resume(self.directory, **options)
        except Stopped as stopped:
            _stopped(run)
            raise SystemExit(stopped.exit_code) from None
        _ended(run)


@dataclass(frozen=True)
class Group:
    """Seeds that are trained together: a directory of runs, and a file with their seeds."""

    directory: Path
    config: Config[Any]
    seeds: tuple[int, ...]
    cpus: int
    """Cores of each run."""

    @classmethod
    def read(cls, directory: Path, allow: Sequence[str]) -> Group | None:
        path = directory / SEEDS
        if not path.exists() or (directory / CONFIG).exists():
            return None
        content = read_json(path)
        try:
            seeds, cpus = tuple(map(int, content["seeds"])), int(content["cpus"])
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{path} does not say which seeds were trained: resume the runs one by one.") from None
        return cls(directory, read_config(content, allow), seeds, cpus)

    def with_earlier(self, allow: Sequence[str]) -> Group:
        """With the seeds that were trained here before; an `InputError` if these have another configuration."""
        before = Group.read(self.directory, (*allow, *self.config.allowing()[1:]))
        earlier = [seed for seed in before.seeds if seed not in self.seeds] if before else []
        if before is None or not earlier:
            return self
        configs = [flat(replace(config, seed=0).to_json()) for config in (before.config, self.config)]
        if found := differences(*configs):
            raise InputError(
                f"{self.directory} holds seeds of another configuration: give --out another directory. They differ in "
                f"{'; '.join(found)}."
            )
        return replace(self, seeds=(*earlier, *self.seeds), cpus=max(before.cpus, self.cpus))

    def write(self) -> None:
        content = {"seeds": [*self.seeds], "cpus": self.cpus, "config": self.config.to_json()}
        write_atomically(self.directory / SEEDS, json.dumps(content, indent=2) + "\n")

    def run(self, *, overwrite: bool = False, track: str | None = None, pause_at: int | None = None) -> None:
        name, allow = self.config.method.name, self.config.allowing()
        options = [name, "--config", str(self.directory / SEEDS), *allow]
        options += [*(["--track", track] if track else ()), *(["--overwrite"] if overwrite else ())]
        runs = [
            StudyRun(name, seed, self.directory / f"seed-{seed}", tuple(options), tuple(allow[1:]), overwrite)
            for seed in self.seeds
        ]
        with watching() as (show, requests):
            jobs = [Job(run, pause_at, "done" if run.progress()[1] and not overwrite else "waiting") for run in runs]
            run_jobs(jobs, LocalProcesses(cpus=min(self.cpus, cores())), show=show, requests=requests)
        run = Run(self.directory, self.config)
        conclude(jobs, requests, run.command("resume", str(self.directory)))
        print(f"See it: {run.command('report', str(self.directory))}")


def parse(arguments: Sequence[str]) -> Train[Any]:
    """A `train` command from its options, the word `train` left out."""
    # a user's module may ask JAX for its devices as soon as it is imported
    use_cores()
    _given(Processes, arguments).join()  # before JAX creates its devices
    default = default_config(arguments)
    _refuse_curator_options(default.method, arguments)
    trainer: Any = Train[type(default.setup)]  # type: ignore[misc]
    start = trainer(default.method.name, default)
    with functions_by_name():
        command: Train[Any] = tyro.cli(
            trainer, args=arguments, default=start, prog="tutelage train", config=(AvoidSubcommands,)
        )
    if command.method != default.method.name:
        raise InputError(
            f"{command.method} is not the method of this configuration, {default.method.name}: name the method first, "
            "tutelage train METHOD [OPTIONS], and leave it out with --config."
        )
    return command


def _given(kind: type[T], arguments: Sequence[str]) -> T:
    """Some options, parsed before the rest."""
    words = [argument for argument in arguments if argument not in ("-h", "--help")]
    return tyro.cli(kind, args=words, return_unknown_args=True, prog="tutelage train")[0]


def _devices(directory: Path) -> int | None:
    """How many devices a run began on, read before a user's module is imported and asks JAX for its own."""
    with suppress(OSError, InputError):
        content = read_json(directory / CONFIG)
        found = content.get("config", {}).get("devices") if isinstance(content, dict) else None
        if isinstance(found, int) and 0 < found <= cores():
            return found
    return None


def default_config(arguments: Sequence[str]) -> Config[Any]:
    """The configuration that the options of a `train` command start from."""
    known = _given(Origin, arguments)
    if known.config is None:
        preset: Any = checked_name("preset", known.preset or "laptop", get_args(PresetName))
        first = arguments[0] if arguments and not arguments[0].startswith("-") else None
        if first is None and not {"-h", "--help"} & {*arguments}:
            raise InputError(f"Which method? tutelage train METHOD [OPTIONS], with one of {', '.join(METHODS)}.")
        method = checked_name("method", first or "plr-perp", METHODS)
        setup: Any = setup_named(known.domain or "maze")
        decisive = make_dataclass("Decisive", [(name, int | None, None) for name in getattr(setup, "decisive", ())])
        given = {name: x for name, x in vars(_given(decisive, arguments)).items() if x is not None}
        return setup.preset(preset, method, **given)
    if known.preset or known.domain:
        raise InputError("--config already decides the preset and the domain: leave --preset and --domain out.")
    return read_config(read_json(known.config), known.allow)


def _refuse_curator_options(method: Method, arguments: Sequence[str]) -> None:
    """Refuse options of a curator for a method without one."""
    if method.curator is not None:
        return
    options = {f"--{no}{f.name.replace('_', '-')}" for f in fields(Curator) for no in ("", "no-")}
    for argument in arguments:
        if (option := argument.partition("=")[0]) in options:
            having = ", ".join(name for name, method in METHODS.items() if method.curator)
            raise InputError(f"{method.name} has no curator, so {option} means nothing: leave it out, or use {having}.")


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
            # naming a module here allows its import
            instance_from_str=lambda words: find(words[0], allow=[words[0].partition(":")[0]]),
            is_instance=callable,
            str_from_instance=lambda function: [name_of(function)],
        )

    return registry


def _ended(run: Run) -> None:
    if not processes.is_main():
        return
    saved = run.saved()
    if saved is None or saved.progress.finished(run.config):
        print(f"{run.title}: done. The run is in {run.directory}.")
    else:
        again = run.command("resume", str(run.directory))
        print(f"{run.title}: paused at {saved.progress.steps:,} steps. Continue with: {again}")


def _stopped(run: Run) -> None:
    _print(f"Stopped, and all is saved. Continue with: {run.command('resume', str(run.directory))}")


def _print(sentence: str) -> None:
    """Print in the first process only."""
    if processes.is_main():
        print(sentence)
