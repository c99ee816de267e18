"""The host's loop around the compiled iterations: log, evaluate, look, save; stop, and go on as if nothing had been.

Iteration i uses `fold_in(key, i)` and every rollout begins with a reset, so a checkpoint is the state and the number of
iterations. A run that was killed goes on from its newest whole checkpoint; what its logs say of later iterations is
dropped and written again, with the same bits.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm import tqdm

from tutelage.curriculum.step import State
from tutelage.evaluation.evaluate import Evaluator
from tutelage.files import Log, sole_writer, write_atomically
from tutelage.training import checkpoints
from tutelage.training.config import Config
from tutelage.training.run import (
    ARCHIVE,
    CHECKPOINTS,
    CONFIG,
    EVALUATION_COLUMNS,
    EVALUATIONS,
    LEVELS,
    METRICS,
    POLICY,
    PROGRESS,
    REPORT,
    TIMING,
    Run,
    write_config,
)
from tutelage.training.serialization import differences
from tutelage.training.snapshots import Snapshots
from tutelage.training.trackers import TENSORBOARD, TrackerName, check_tracker, tracker
from tutelage.types import InputError, Json, Key


class Stopped(Exception):  # noqa: N818, it is no error
    """Someone asked the run to stop. All is saved."""


class Programs:
    """All that is compiled for a configuration. Runs that differ in nothing but their seeds can share it."""

    def __init__(self, config: Config[Any]) -> None:
        self.config, self.curriculum = config, config.curriculum()
        domain, student = self.curriculum.parts.domain, self.curriculum.parts.student
        levels, evaluation = config.test_levels(domain), config.evaluation
        self.evaluator = self.last_evaluator = None
        if levels:
            evaluator = partial(
                Evaluator, domain, levels, student, greedy=evaluation.greedy, devices=self.curriculum.mesh.size
            )
            self.evaluator = self.last_evaluator = evaluator(episodes=evaluation.episodes)
            if evaluation.last_episodes != evaluation.episodes:
                self.last_evaluator = evaluator(episodes=evaluation.last_episodes)
        self.snapshots = Snapshots(self.curriculum, config.storage.snapshot_levels)

    def check(self, config: Config[Any]) -> None:
        """Refuse to serve a configuration that differs in more than its seed, its length, and when it keeps what."""
        mine, other = (_compiled(each) for each in (self.config, config))
        if found := differences(mine, other):
            raise InputError(f"These programs are another configuration's. They differ in {'; '.join(found)}.")


class Progress(NamedTuple):
    """How far a run has come."""

    iteration: int
    steps: int
    """Environment steps of the protagonist."""
    updates: int
    """Its gradient updates."""


def train(
    config: Config[Any],
    directory: str | Path,
    *,
    overwrite: bool = False,
    programs: Programs | None = None,
    track: TrackerName | None = None,
    quiet: bool = False,
) -> Run:
    """Train from the beginning.

    Args:
        config: what to do.
        directory: where to write it; not there yet, or empty.
        overwrite: delete a run that is there already.
        programs: those of another run whose configuration differs in the seed only.
        track: also send metrics there.
        quiet: no progress bar.

    Raises:
        InputError: before anything is written, if it cannot work.
        Stopped: after an interrupt or a request to terminate, when all is saved.
    """
    directory = Path(directory)
    check_free(directory, overwrite=overwrite)
    check_tracker(track)
    programs = programs or Programs(config)
    programs.check(config)
    with _requests_to_stop() as requests, sole_writer(directory):
        _clear(directory)
        config = replace(config, devices=programs.curriculum.mesh.size)
        write_config(directory, config)
        begin, *_ = _keys(config)
        session = _Session(directory, config, programs, track, quiet, requests)
        return session.go_on(programs.curriculum.init(begin), Progress(0, 0, 0))


def resume(
    directory: str | Path,
    *,
    total_steps: int | None = None,
    total_updates: int | None = None,
    allow: Iterable[str] = (),
    programs: Programs | None = None,
    track: TrackerName | None = None,
    quiet: bool = False,
) -> Run:
    """Go on with a run from its newest whole checkpoint, maybe further than was planned.

    Raises:
        InputError: if there is no run, another process writes it, or its checkpoint belongs to another configuration.
        Stopped: as in `train`.
    """
    run = Run.load(directory, allow)
    config = replace(
        run.config,
        total_steps=total_steps or run.config.total_steps,
        total_updates=total_updates or run.config.total_updates,
    )
    if config.anneal_lr and config != run.config:
        raise InputError(
            "This run's learning rate falls to zero over the length that was planned at its start, so it cannot be "
            "made longer. Train anew with more steps, or without annealing."
        )
    check_tracker(track)
    programs = programs or Programs(config)
    programs.check(config)
    with _requests_to_stop() as requests, sole_writer(run.directory):
        if programs.curriculum.mesh.size != config.devices:
            _say(
                f"This run began on {config.devices} devices and goes on with {programs.curriculum.mesh.size}: sums "
                "are rounded differently, so it will not be the same bit for bit."
            )
        state, progress = _restored(run.directory, config, programs)
        if config != run.config:
            if progress.steps > config.total_steps or (
                config.total_updates is not None and progress.updates > config.total_updates
            ):
                raise InputError(
                    f"{directory} has come to {progress.steps:,} steps and {progress.updates:,} updates already, "
                    "beyond what is asked for: ask for more, or train anew."
                )
            write_config(run.directory, config)
        return _Session(run.directory, config, programs, track, quiet, requests).go_on(state, progress)


def _restored(directory: Path, config: Config[Any], programs: Programs) -> tuple[State, Progress]:
    begin, *_ = _keys(config)
    like = jax.eval_shape(programs.curriculum.init_program, begin)
    # the archive comes last, though it may hold a newer one: then all that follows is written again, that one too
    found = [path for name in (CHECKPOINTS, ARCHIVE) for path in checkpoints.saved(directory / name)]
    for path in found:
        try:
            checkpoint = checkpoints.read(path)
        except checkpoints.DamagedError as error:
            _say(f"{error} Looking for the checkpoint before it.")
            continue
        if unlike := differences(checkpoint.about["learning"], config.learning()):
            raise InputError(
                f"{path} belongs to another configuration than {directory / CONFIG}. They differ in "
                f"{'; '.join(unlike)}."
            )
        state = programs.curriculum.place(checkpoints.fit(checkpoint.arrays, like, path))
        return state, Progress(*checkpoint.about["progress"])
    if found:
        raise InputError(
            f"All {len(found)} checkpoints of {directory} are damaged. Put a whole one there, or train anew with "
            f"tutelage train --config {directory / CONFIG}."
        )
    _say("There is no checkpoint yet: beginning again.")
    return programs.curriculum.init(begin), Progress(0, 0, 0)


@dataclass
class _Session:
    """One process's work on a run."""

    directory: Path
    config: Config[Any]
    programs: Programs
    track: TrackerName | None
    quiet: bool
    requests: list[int]
    """To stop, as they come."""

    def go_on(self, state: State, progress: Progress) -> Run:
        """From here to the end."""
        config, curriculum = self.config, self.programs.curriculum
        _, key, self._evaluation_key, self._snapshot_key = _keys(config)
        names = sorted(curriculum.metric_names(state, key) | {*self.programs.snapshots.metrics})
        _drop_later(self.directory / LEVELS, progress.iteration)
        log = Log(self.directory / METRICS, [*PROGRESS, *names], progress.iteration)
        timing = Log(self.directory / TIMING, ["iteration", "seconds", "steps_per_second"], progress.iteration)
        self._evaluations = Log(self.directory / EVALUATIONS, EVALUATION_COLUMNS, progress.iteration)
        self._logs = (log, timing, self._evaluations)
        self._tracker = tracker(self.track, self.directory, config.to_json()) if self.track else None
        bar = tqdm(
            total=config.total_steps,
            initial=progress.steps,
            unit=" steps",
            unit_scale=True,
            smoothing=0.1,
            desc=f"{config.method.name}, seed {config.seed}",
            disable=True if self.quiet else None,
        )
        shown: dict[str, str] = {}
        try:
            with bar:
                while not self._finished(progress):
                    start = time.perf_counter()
                    state, metrics = curriculum.iterate(state, jax.random.fold_in(key, progress.iteration))
                    scalars = {name: float(x) for name, x in jax.device_get(metrics).items()}
                    before, progress = progress, self._next(progress, state, bool(scalars["replay"]))
                    seconds = time.perf_counter() - start
                    rate = (progress.steps - before.steps) / seconds
                    scalars |= self._snapshot(state, progress)
                    log.append(progress._asdict() | scalars)
                    timing.append({"iteration": progress.iteration, "seconds": seconds, "steps_per_second": rate})
                    if self._tracker:
                        self._tracker.log(progress.steps, scalars | {"steps_per_second": rate})
                    shown |= _shown(scalars)
                    bar.set_postfix(shown, refresh=False)
                    bar.update(progress.steps - before.steps)
                    self._keep(state, before, progress, stopping=bool(self.requests))
                    if self.requests and not self._finished(progress):
                        raise Stopped
                checkpoints.save_policy(self.directory / POLICY, _protagonist(state), self._about(progress))
        finally:
            if self._tracker:
                self._tracker.close()
        return Run(self.directory, config)

    def _finished(self, progress: Progress) -> bool:
        limit = self.config.total_updates
        return progress.steps >= self.config.total_steps or (limit is not None and progress.updates >= limit)

    def _next(self, progress: Progress, state: State, replay: bool) -> Progress:
        method = self.programs.curriculum.method
        played = self.config.num_envs * self.config.num_steps * method.rollouts(replay)
        updates = int(jax.device_get(state.students.updates)[0])
        return Progress(progress.iteration + 1, progress.steps + played, updates)

    def _snapshot(self, state: State, progress: Progress) -> dict[str, float]:
        """Write down what the curriculum looks like, if it is time for that; and what can be said of it in numbers."""
        if not (self._finished(progress) or _due(progress.iteration, self.config.storage.snapshot_every)):
            return {}
        found = self.programs.snapshots(state, jax.random.fold_in(self._snapshot_key, progress.iteration))
        path = self.directory / LEVELS / f"{progress.iteration:08}.json"
        write_atomically(path, json.dumps(progress._asdict() | found))
        return {metric: found[name] for metric, name in self.programs.snapshots.metrics.items()}

    def _keep(self, state: State, before: Progress, progress: Progress, *, stopping: bool) -> None:
        """Evaluate and save where it is time for that; always at the end."""
        evaluation, storage = self.config.evaluation, self.config.storage
        last = self._finished(progress)
        if self.programs.evaluator and (last or _due(progress.iteration, evaluation.evaluate_every)):
            self._evaluate(state, progress)
        unit = "iteration" if storage.archive_unit == "iterations" else "updates"
        kept = storage.archive_every and getattr(progress, unit) // storage.archive_every > (
            getattr(before, unit) // storage.archive_every
        )
        if last or stopping or kept or _due(progress.iteration, storage.checkpoint_every):
            for log in self._logs:
                log.sync()
            # into the archive first: killed in between, the run goes on from before and comes by here again
            first = self.directory / (ARCHIVE if kept else CHECKPOINTS)
            path = checkpoints.file_of(first, progress.iteration)
            checkpoints.write(path, state, {"learning": self.config.learning(), "progress": progress})
            if kept:
                checkpoints.also_in(self.directory / CHECKPOINTS, path)
            checkpoints.prune(self.directory / CHECKPOINTS, storage.keep)
            checkpoints.save_policy(self.directory / POLICY, _protagonist(state), self._about(progress))

    def _evaluate(self, state: State, progress: Progress) -> None:
        programs, evaluation = self.programs, self.config.evaluation
        evaluator = programs.last_evaluator if self._finished(progress) else programs.evaluator
        assert evaluator is not None
        scores = evaluator(_protagonist(state), jax.random.fold_in(self._evaluation_key, progress.iteration))
        rows: list[dict[str, Json]] = [
            progress._asdict()
            | {
                "suite": evaluation.suite,
                "level": score.level,
                "episodes": score.episodes,
                "greedy": evaluation.greedy,
                "solved": score.solved,
                "return": score.mean_return,
                "length": score.mean_length,
            }
            for score in scores
        ]
        self._evaluations.append(*rows)
        means = {
            f"test/{x}": float(np.mean([row[x] for row in rows]))
            for x in ("solved", "return")
            if rows[0][x] is not None
        }
        if self._tracker:
            self._tracker.log(progress.steps, means)
        if not self.quiet:
            shown = ", ".join(f"{name.removeprefix('test/')} {value:.3f}" for name, value in means.items())
            tqdm.write(f"{progress.steps:>12,} steps: on the suite {evaluation.suite}, mean {shown}", file=sys.stderr)

    def _about(self, progress: Progress) -> dict[str, str]:
        return {"config": json.dumps(self.config.to_json()), "progress": json.dumps(progress._asdict())}


def _compiled(config: Config[Any]) -> dict[str, Json]:
    """What decides which programs a configuration needs, by dotted name."""
    evaluation = {f"evaluation.{name}": x for name, x in asdict(config.evaluation).items() if name != "evaluate_every"}
    shown = {"snapshot_levels": config.storage.snapshot_levels}
    return {name: x for name, x in config.learning().items() if name not in ("seed", "devices")} | evaluation | shown


def _keys(config: Config[Any]) -> Key:
    """[4]: to begin, to train, to evaluate and to look."""
    return jax.random.split(jax.random.key(config.seed), 4)


def _protagonist(state: State) -> Any:
    return jax.tree.map(lambda x: x[0], jax.device_get(state.students.params))


def _due(iteration: int, every: int) -> bool:
    return bool(every) and iteration % every == 0


def _shown(scalars: dict[str, float]) -> dict[str, str]:
    """What the progress bar says: how well it goes, and what the replayed levels score."""
    kind = "replayed" if scalars["replay"] else "new"
    metrics = {"solved": f"{kind}/solved", "return": f"{kind}/return", "score": "replayed/score"}
    return {name: f"{scalars[metric]:.2f}" for name, metric in metrics.items() if metric in scalars}


def check_free(directory: Path, *, overwrite: bool = False) -> None:
    """Refuse to write where something is.

    Raises:
        InputError: if there is, unless it is a run and may be overwritten.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise InputError(f"{directory} is a file; choose a directory.")
    found = [path.name for path in directory.iterdir() if path.name != "lock"]
    if found and CONFIG not in found:
        raise InputError(f"{directory} is not empty and holds no run; choose another directory.")
    if found and not overwrite:
        raise InputError(
            f"{directory} already holds a run. Go on with it (tutelage resume {directory}), choose another directory, "
            "or ask for it to be overwritten (--overwrite)."
        )


def _clear(directory: Path) -> None:
    """Delete what a run before left here, and nothing else."""
    for pattern in (METRICS, TIMING, EVALUATIONS, POLICY, REPORT, CONFIG, "eval-*.csv", "*.gif"):
        for path in directory.glob(pattern):
            path.unlink()
    for name in (LEVELS, CHECKPOINTS, ARCHIVE, TENSORBOARD):
        shutil.rmtree(directory / name, ignore_errors=True)


def _drop_later(directory: Path, iteration: int) -> None:
    """Delete snapshots of iterations that are to come again."""
    for path in directory.glob("[0-9]*.json"):
        if int(path.stem) > iteration:
            path.unlink()


@contextmanager
def _requests_to_stop() -> Iterator[list[int]]:
    """The signals that asked us to stop; the second interrupt does not wait for the iteration to end."""
    received: list[int] = []

    def note(number: int, frame: Any) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # signals reach the main thread only
        yield received
        return
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(sentence: str) -> None:
    print(f"tutelage: {sentence}", file=sys.stderr, flush=True)
