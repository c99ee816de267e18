"""The loop around the compiled iterations: log, snapshot, evaluate, checkpoint, stop and resume.

Iteration i uses `fold_in(key, i)` and every rollout begins with a reset, so a checkpoint is the state and the number of
iterations. A run that was killed resumes from its newest whole checkpoint; what its logs say of later iterations is
dropped and written again, bit for bit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from tutelage.curriculum.curriculum import Curriculum
from tutelage.curriculum.step import State
from tutelage.evaluation.evaluate import Evaluator
from tutelage.training.config import Config
from tutelage.training.progress import ProgressBar
from tutelage.training.run import EPISODES, EVALUATIONS, METRICS, TIMING, Progress, Run, write_config
from tutelage.training.serialization import differences
from tutelage.training.snapshots import Snapshots
from tutelage.training.storage import RunWriter, check_free, protagonist, restore, say, writing
from tutelage.training.trackers import Tracker, TrackerName, check_tracker, tracker
from tutelage.types import InputError, Json, Key


class Stopped(Exception):  # noqa: N818, it is no error
    """A signal asked the run to stop. All is saved."""

    def __init__(self, number: int) -> None:
        super().__init__(f"Stopped by {signal.Signals(number).name}; all is saved.")
        self.exit_code = 128 + number
        """What shells expect of a process that a signal ended."""


class Programs:
    """All that is compiled for a configuration. Runs that differ in nothing but their seeds can share it."""

    def __init__(self, config: Config[Any]) -> None:
        """Put the configuration together and trace it: whatever cannot work fails here, before anything is written.

        Raises:
            InputError: with the error of a function of the user's own, or of JAX, as its cause.
        """
        with _explaining():
            self._prepare(config)
            self.shapes = jax.eval_shape(self.curriculum.init_program, jax.random.key(0))
            names = self.curriculum.metric_names(self.shapes, jax.random.key(0))
            self.names = sorted(names | {*self.snapshots.metrics})

    def _prepare(self, config: Config[Any]) -> None:
        self.config, self.curriculum = config, config.curriculum()
        domain, student = self.curriculum.parts.domain, self.curriculum.parts.student
        evaluation = config.evaluation
        self.evaluators: dict[str, Evaluator] = {}
        """By suite."""
        self.last_evaluators: dict[str, Evaluator] = {}
        """Those of the run's end."""
        for suite in evaluation.suites:
            levels = config.test_levels(domain, suite)
            evaluator = partial(
                Evaluator, domain, levels, student, greedy=evaluation.greedy, devices=self.curriculum.mesh.size
            )
            self.evaluators[suite] = self.last_evaluators[suite] = evaluator(episodes=evaluation.episodes)
            if evaluation.last_episodes != evaluation.episodes:
                self.last_evaluators[suite] = evaluator(episodes=evaluation.last_episodes)
        self.snapshots = Snapshots(self.curriculum, config.storage.snapshot_levels)

    def check(self, config: Config[Any]) -> None:
        """Refuse to serve a configuration that differs in more than its seed, its length, and when it keeps what."""
        config.check()
        mine, other = (_compiled(each) for each in (self.config, config))
        if found := differences(mine, other):
            raise InputError(f"These programs are another configuration's. They differ in {'; '.join(found)}.")


@contextmanager
def _explaining() -> Iterator[None]:
    """Say in a sentence why a configuration cannot be traced."""
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError, RuntimeError) as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(
            f"This configuration cannot run ({type(error).__name__}: {first:.300}). Check sizes and counts that are "
            "very large, and functions of your own."
        ) from error


class _Keys(NamedTuple):
    """The randomness of a run, by what it is for."""

    init: Key
    train: Key
    evaluate: Key
    snapshot: Key

    @classmethod
    def of(cls, config: Config[Any]) -> _Keys:
        return cls(*jax.random.split(jax.random.key(config.seed), 4))


def train(
    config: Config[Any],
    directory: str | Path,
    *,
    overwrite: bool = False,
    programs: Programs | None = None,
    track: TrackerName | None = None,
    quiet: bool = False,
    requests: list[int] | None = None,
) -> Run:
    """Train from the beginning.

    Args:
        config: what to do.
        directory: where to write it; not there yet, or empty.
        overwrite: replace a run that is there already, when the first iteration of the new one has worked.
        programs: those of another run whose configuration differs in the seed only.
        track: also send metrics there.
        quiet: no progress bar.
        requests: those of `stop_requests`, if one is to cover several runs.

    Raises:
        InputError: before anything is written, if it cannot work.
        Stopped: after a request to stop, when all is saved.
    """
    directory = Path(directory)
    check_free(directory, overwrite=overwrite)
    check_tracker(track)
    programs = programs or Programs(config)
    programs.check(config)
    run = Run(directory, replace(config, devices=programs.curriculum.mesh.size))
    names, state = programs.names, programs.curriculum.init(_Keys.of(config).init)
    with _covered(requests) as requests, writing(directory):
        check_free(directory, overwrite=overwrite)  # another process may have been quicker
        with closing(RunWriter.create(run, names, state)) as writer:
            return _loop(writer, programs, state, Progress(), track, quiet, requests)


def resume(
    directory: str | Path,
    *,
    total_steps: int | None = None,
    total_updates: int | None = None,
    allow: Iterable[str] = (),
    programs: Programs | None = None,
    track: TrackerName | None = None,
    quiet: bool = False,
    requests: list[int] | None = None,
    repair_logs: bool = False,
) -> Run:
    """Continue a run from its newest whole checkpoint, maybe further than was planned.

    Args:
        directory: the run's.
        total_steps: stop after so many environment steps, instead of those planned.
        total_updates: stop after so many gradient updates, instead of those planned.
        allow: modules of your own that the run names and that may be imported.
        programs: as in `train`.
        track: as in `train`.
        quiet: as in `train`.
        requests: as in `train`.
        repair_logs: if logs are damaged, copy them and continue with those of their rows that are whole.

    Raises:
        InputError: if there is no run, if another process writes it, if its checkpoint belongs to another
            configuration, or if its logs are damaged.
        Stopped: as in `train`.
    """
    run = Run.load(directory, allow)
    config = replace(
        run.config,
        total_steps=run.config.total_steps if total_steps is None else total_steps,
        total_updates=run.config.total_updates if total_updates is None else total_updates,
    )
    if config.anneal_lr and config != run.config:
        raise InputError(
            "This run's learning rate falls to zero over the length that was planned at its start, so it cannot be "
            "made longer. Train anew with more steps, or without annealing."
        )
    check_tracker(track)
    programs = programs or Programs(config)
    programs.check(config)
    with _covered(requests) as requests, writing(run.directory):
        restored = restore(run, programs.names, programs.shapes, repair_logs=repair_logs)
        progress = restored.progress
        if programs.curriculum.mesh.size != config.devices:
            say(
                f"This run began on {config.devices} devices and goes on with {programs.curriculum.mesh.size}: sums "
                "are rounded differently, so it will not be the same bit for bit."
            )
        if config != run.config:
            if progress.steps > config.total_steps or (
                config.total_updates is not None and progress.updates > config.total_updates
            ):
                raise InputError(
                    f"{directory} has come to {progress.steps:,} steps and {progress.updates:,} updates already, "
                    "beyond what is asked for: ask for more, or train anew."
                )
            write_config(run.directory, config)
        run = Run(run.directory, config)
        with closing(RunWriter.reopen(run, programs.names, restored)) as writer:
            state = programs.curriculum.place(restored.state)
            return _loop(writer, programs, state, progress, track, quiet, requests)


def _loop(
    writer: RunWriter,
    programs: Programs,
    state: State,
    progress: Progress,
    track: TrackerName | None,
    quiet: bool,
    requests: list[int],
) -> Run:
    """From here to the end."""
    run, config, curriculum = writer.run, writer.run.config, programs.curriculum
    evaluation, storage, keys = config.evaluation, config.storage, _Keys.of(config)
    tracking: Tracker | None = None
    with ExitStack() as stack:
        bar = stack.enter_context(closing(ProgressBar(run.title, config.total_steps, progress.steps, quiet)))
        while not progress.finished(config):
            start = time.perf_counter()
            state, metrics = curriculum.iterate(state, jax.random.fold_in(keys.train, progress.iteration))
            scalars = {name: float(x) for name, x in jax.device_get(metrics).items()}
            before, progress = progress, _advanced(progress, config, curriculum, state, bool(scalars["replay"]))
            seconds = time.perf_counter() - start
            rate = (progress.steps - before.steps) / seconds
            last = progress.finished(config)

            writer.publish()  # an iteration has worked
            if track and tracking is None:
                tracking = stack.enter_context(closing(tracker(track, run.directory, config.to_json())))
            if last or _due(progress.iteration, storage.snapshot_every):
                snapshot = programs.snapshots(state, jax.random.fold_in(keys.snapshot, progress.iteration))
                writer.snapshot(progress, snapshot)
                scalars |= {metric: snapshot[name] for metric, name in programs.snapshots.metrics.items()}
            writer.append(METRICS, progress._asdict() | scalars)
            writer.append(TIMING, {"iteration": progress.iteration, "seconds": seconds, "steps_per_second": rate})
            if tracking:
                tracking.log(progress.steps, scalars | {"steps_per_second": rate})
            bar.update(progress.steps - before.steps, scalars)

            due = last or _due(progress.iteration, evaluation.evaluate_every)
            for suite, evaluator in (programs.last_evaluators if last else programs.evaluators).items() if due else ():
                means = _evaluate(writer, suite, evaluator, state, progress, keys.evaluate)
                if tracking:
                    prefix = "test" if suite == evaluation.suite else f"test/{suite}"
                    tracking.log(progress.steps, {f"{prefix}/{name}": mean for name, mean in means.items()})
                shown = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
                bar.write(f"{progress.steps:>12,} steps: on the suite {suite}, mean {shown}")

            by_iterations = storage.archive_unit == "iterations"
            done, now = (x.iteration if by_iterations else x.updates for x in (before, progress))
            archive = storage.archive_every > 0 and now // storage.archive_every > done // storage.archive_every
            stopping = bool(requests)  # asked once: what comes later stops the next iteration
            if last or stopping or archive or _due(progress.iteration, storage.checkpoint_every):
                writer.checkpoint(state, progress, archive=archive)
            if stopping and not last:
                raise Stopped(requests[0])
    return run


def _evaluate(
    writer: RunWriter, suite: str, evaluator: Evaluator, state: State, progress: Progress, key: Key
) -> dict[str, float]:
    """Let the protagonist play the test levels and log it. Means over the levels."""
    scores = evaluator(protagonist(state), jax.random.fold_in(key, progress.iteration))
    rows: list[dict[str, Json]] = [
        progress._asdict()
        | {
            "suite": suite,
            "level": score.level,
            "episodes": score.episodes,
            "greedy": evaluator.greedy,
            "solved": score.solved,
            "return": score.mean_return,
            "length": score.mean_length,
        }
        for score in scores
    ]
    writer.append(EVALUATIONS, *rows)
    place = {"iteration": progress.iteration, "suite": suite}
    writer.append(EPISODES, *(place | row for score in scores for row in score.rows()))
    return {
        name: float(np.mean([row[name] for row in rows])) for name in ("solved", "return") if rows[0][name] is not None
    }


def _advanced(progress: Progress, config: Config[Any], curriculum: Curriculum, state: State, replay: bool) -> Progress:
    played = config.num_envs * config.num_steps * curriculum.method.rollouts(replay)
    updates = int(jax.device_get(state.students.updates)[0])
    return Progress(progress.iteration + 1, progress.steps + played, updates)


def _due(iteration: int, every: int) -> bool:
    return bool(every) and iteration % every == 0


def _compiled(config: Config[Any]) -> dict[str, Json]:
    """What decides which programs a configuration needs, by dotted name."""
    evaluation = {f"evaluation.{name}": x for name, x in asdict(config.evaluation).items() if name != "evaluate_every"}
    shown = {"snapshot_levels": config.storage.snapshot_levels}
    return {name: x for name, x in config.learning().items() if name not in ("seed", "devices")} | evaluation | shown


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """The signals to stop that have come so far; a second interrupt does not wait for the iteration to end.

    A signal that is ignored, as `nohup` ignores hangups, stays ignored.
    """
    received: list[int] = []

    def note(number: int, frame: Any) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
        yield received
        return
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _covered(requests: list[int] | None) -> AbstractContextManager[list[int]]:
    return stop_requests() if requests is None else nullcontext(requests)
