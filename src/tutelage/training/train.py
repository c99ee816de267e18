"""The loop around the compiled iterations: log, snapshot, evaluate, checkpoint, stop and resume.

Iteration i uses `fold_in(key, i)` and every rollout begins with a reset, so a checkpoint is the state and the number of
iterations. A run that was killed resumes from its newest intact checkpoint; later rows of its logs are deleted and
written again, bit for bit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from tutelage.curriculum.curriculum import Curriculum, check_finite
from tutelage.curriculum.step import State
from tutelage.evaluation.evaluate import Evaluator, Score
from tutelage.learning import mesh
from tutelage.learning.ppo import Metrics
from tutelage.training.config import Config
from tutelage.training.progress import ProgressBar
from tutelage.training.run import EPISODES, EVALUATIONS, METRICS, TIMING, Progress, Run, write_config
from tutelage.training.serialization import differences
from tutelage.training.snapshots import Snapshots
from tutelage.training.storage import RunWriter, check_free, protagonist, restore, say, writing
from tutelage.training.trackers import Tracker, TrackerName, check_tracker, tracker
from tutelage.types import InputError, Json, Key


class Stopped(Exception):  # noqa: N818, it is no error
    """The run was stopped by a signal, and all is saved."""

    def __init__(self, number: int) -> None:
        super().__init__(f"Stopped by {signal.Signals(number).name}; all is saved.")
        self.exit_code = 128 + number
        """The usual exit code of a process that was ended by a signal."""


class Programs:
    """The compiled programs of a configuration. Runs that differ in their seed only can share them."""

    def __init__(self, config: Config[Any]) -> None:
        """Build and trace a configuration, so that errors occur before anything is written.

        Raises:
            InputError: with the error of a function of the user's own, or of JAX, as its cause.
        """
        self.config, evaluation = config, config.evaluation
        self.evaluators: dict[str, Evaluator] = {}
        """By suite."""
        self.last_evaluators: dict[str, Evaluator] = {}
        """The evaluators for the end of the run."""
        with _explaining():
            self.curriculum = config.curriculum()
            parts, devices = self.curriculum.parts, self.curriculum.mesh.size
            for suite in evaluation.suites:
                levels = config.test_levels(parts.domain, suite)
                evaluator = partial(
                    Evaluator, parts.domain, levels, parts.student, greedy=evaluation.greedy, devices=devices
                )
                self.evaluators[suite] = self.last_evaluators[suite] = evaluator(episodes=evaluation.episodes)
                if evaluation.last_episodes != evaluation.episodes:
                    self.last_evaluators[suite] = evaluator(episodes=evaluation.last_episodes)
            self.snapshots = Snapshots(self.curriculum, config.storage.snapshot_levels)
            self.shapes = jax.eval_shape(self.curriculum.init_program, jax.random.key(0))
            names = self.curriculum.metric_names(self.shapes, jax.random.key(0))
            self.names = sorted(names | {*self.snapshots.metrics})

    def check(self, config: Config[Any]) -> None:
        """Refuse a configuration that differs in more than its seed, its length and its storage options.

        Compilation begins here.
        """
        config.check()
        if found := differences(_compiled(self.config), _compiled(config)):
            raise InputError(f"These programs are another configuration's. They differ in {'; '.join(found)}.")
        self.curriculum.compile_ahead(self.shapes, jax.random.key(0))


@contextmanager
def _explaining() -> Iterator[None]:
    """Raise `InputError` if a configuration cannot be traced."""
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
    """The keys of a run, by their use."""

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
    pause_at: int | None = None,
) -> Run:
    """Train from the beginning.

    Args:
        config: what to do.
        directory: the run directory, which is new or empty.
        overwrite: replace an existing run, after the first iteration of the new one has succeeded.
        programs: those of another run whose configuration differs in the seed only.
        track: also send metrics there.
        quiet: no progress bar.
        requests: from `stop_requests`, if several runs share it.
        pause_at: save and return after this many environment steps. Nothing else changes: resumed, the run equals
            one that was never paused.

    Raises:
        InputError: if the configuration cannot work; nothing has been written then.
        Stopped: after a request to stop, when all is saved.
    """
    directory = Path(directory)
    if pause_at is not None and pause_at < 1:
        raise InputError(f"pause_at must be at least 1, not {pause_at}.")
    with mesh.together():
        if mesh.leads():
            check_free(directory, overwrite=overwrite)
            check_tracker(track)
    programs = programs or Programs(config)
    programs.check(config)
    run = Run(directory, replace(config, devices=programs.curriculum.mesh.size))
    state, writer = programs.curriculum.init(_Keys.of(config).init), None
    with _covered(requests) as requests, ExitStack() as stack:
        with mesh.together():
            if mesh.leads():
                stack.enter_context(writing(directory))
                check_free(directory, overwrite=overwrite)  # another process may have been quicker
                writer = stack.enter_context(closing(RunWriter.create(run, programs.names, state)))
        return _loop(run, writer, programs, state, Progress(), track, quiet, requests, pause_at)


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
    pause_at: int | None = None,
) -> Run:
    """Continue a run from its newest intact checkpoint, optionally beyond its planned length.

    Args:
        directory: the run's.
        total_steps: stop after this many environment steps, instead of those planned.
        total_updates: stop after this many gradient updates, instead of those planned.
        allow: modules of your own that the run names and that may be imported.
        programs: as in `train`.
        track: as in `train`.
        quiet: as in `train`.
        requests: as in `train`.
        repair_logs: if logs are damaged, copy them and continue with their intact rows.
        pause_at: as in `train`.

    Raises:
        InputError: if there is no run, if another process writes it, if its checkpoint belongs to another
            configuration, or if its logs are damaged.
        Stopped: as in `train`.
    """
    run = Run.load(directory, allow)
    asked: dict[str, Any] = {"total_steps": total_steps, "total_updates": total_updates}
    config = replace(run.config, **{name: length for name, length in asked.items() if length is not None})
    if config.anneal_lr and config != run.config:
        raise InputError(
            "This run's learning rate falls to zero over the length that was planned at its start, so it cannot be "
            "made longer. Train again with more steps, or without annealing."
        )
    check_tracker(track)
    if config.devices % jax.process_count():  # these processes cannot share that number of devices, but another one
        programs = programs or Programs(replace(config, devices=0))
    programs = programs or Programs(config)
    programs.check(config)
    with _covered(requests) as requests, ExitStack() as stack:
        found: Any = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), programs.shapes), np.zeros(3, np.int64)
        writer = None
        with mesh.together():
            if mesh.leads():
                stack.enter_context(writing(run.directory))
                writer, found = _reopen(stack, run, config, programs, repair_logs)
        state, counts = mesh.from_first(found)
        state, progress = programs.curriculum.place(state), Progress(*map(int, counts))
        return _loop(Run(run.directory, config), writer, programs, state, progress, track, quiet, requests, pause_at)


def _reopen(
    stack: ExitStack, run: Run, config: Config[Any], programs: Programs, repair_logs: bool
) -> tuple[RunWriter, tuple[State, np.ndarray]]:
    """Open a run for writing. Returns its writer, state and progress."""
    restored = restore(run, programs.names, programs.shapes, repair_logs=repair_logs)
    progress, devices = restored.progress, programs.curriculum.mesh.size
    if devices != config.devices:
        say(
            f"This run began on {config.devices} devices and continues on {devices}: sums are rounded differently, so "
            "it will not be the same bit for bit."
        )
    if config != run.config:
        if progress.steps > config.total_steps or (
            config.total_updates is not None and progress.updates > config.total_updates
        ):
            raise InputError(
                f"{run.directory} has come to {progress.steps:,} steps and {progress.updates:,} updates already, "
                "beyond what is asked for: ask for more, or train again."
            )
        write_config(run.directory, config)
    writer = stack.enter_context(closing(RunWriter.reopen(Run(run.directory, config), programs.names, restored)))
    return writer, (restored.state, np.array(progress, np.int64))


class _Played(NamedTuple):
    """An iteration that was dispatched and whose metrics have not been read yet."""

    before: Progress
    progress: Progress
    metrics: Metrics
    start: float
    """When it could begin, in seconds."""


def _loop(
    run: Run,
    writer: RunWriter | None,
    programs: Programs,
    state: State,
    progress: Progress,
    track: TrackerName | None,
    quiet: bool,
    requests: list[int],
    pause_at: int | None,
) -> Run:
    """Run to the end, or to where the run pauses. The metrics of an iteration are read while the next one runs.

    An iteration donates the state before it. So snapshots, evaluations and checkpoints of a state are made before the
    next iteration is dispatched. Of several processes, only the one with a `writer` writes and prints.
    """
    config, curriculum = run.config, programs.curriculum
    evaluation, storage, keys = config.evaluation, config.storage, _Keys.of(config)
    replays = _Replays(curriculum, keys.train)
    tracking: Tracker | None = None
    waiting: _Played | None = None
    compiled = set[bool]()

    def log(played: _Played, more: Mapping[str, float] | None = None) -> float:
        """Read an iteration's metrics and log them. Returns the time when they were there."""
        nonlocal tracking
        scalars = {name: float(x) for name, x in mesh.read(played.metrics).items()}
        check_finite(scalars, state)
        now, progress = time.perf_counter(), played.progress
        if not writer:
            return now
        writer.publish()  # an iteration has succeeded
        if track and tracking is None:
            tracking = stack.enter_context(closing(tracker(track, run.directory, config.to_json())))
        seconds, steps = now - played.start, progress.steps - played.before.steps
        rate = {"steps_per_second": steps / seconds}
        scalars |= more or {}
        writer.append(METRICS, progress._asdict() | scalars)
        writer.append(TIMING, {"iteration": progress.iteration, "seconds": seconds} | rate)
        if tracking:
            tracking.log(progress.steps, scalars | rate)
        bar.update(steps, scalars)
        return now

    with ExitStack() as stack, mesh.noticing_loss():
        quiet = quiet or writer is None
        bar = stack.enter_context(closing(ProgressBar(run.title, config.total_steps, progress.steps, quiet)))
        while not progress.finished(config) and (pause_at is None or progress.steps < pause_at):
            start, before = time.perf_counter(), progress
            replay = replays(state, before.iteration)
            if replay not in compiled:
                compiled.add(replay)
                bar.stage("compiling …")
            asked = mesh.highest(requests[0] if requests else 0, curriculum.mesh) if jax.process_count() > 1 else None
            state, metrics = curriculum.dispatch(state, jax.random.fold_in(keys.train, before.iteration), replay)
            progress = _advanced(before, config, curriculum, replay)
            if waiting:
                start = log(waiting)
            waiting = _Played(before, progress, metrics, start)

            last = progress.finished(config)
            by_iterations = storage.archive_unit == "iterations"
            done, now = (x.iteration if by_iterations else x.updates for x in (before, progress))
            archive = storage.archive_every > 0 and now // storage.archive_every > done // storage.archive_every
            snapshot = last or _due(progress.iteration, storage.snapshot_every)
            evaluate = programs.evaluators and (last or _due(progress.iteration, evaluation.evaluate_every))
            # read once: a later signal stops the next iteration
            stopping = int(mesh.read(asked)) if asked is not None else requests[0] if requests else 0
            pausing = pause_at is not None and progress.steps >= pause_at
            checkpoint = last or stopping or pausing or archive or _due(progress.iteration, storage.checkpoint_every)
            if not (snapshot or evaluate or checkpoint):
                continue

            seen: dict[str, float] = {}
            if snapshot and writer:
                check_finite(mesh.read(metrics), state)
                writer.publish()
                content = programs.snapshots(state, jax.random.fold_in(keys.snapshot, progress.iteration))
                writer.snapshot(progress, content)
                seen = {metric: content[name] for metric, name in programs.snapshots.metrics.items()}
            log(waiting, seen)
            waiting = None
            evaluators = (programs.last_evaluators if last else programs.evaluators) if evaluate else {}
            for suite, evaluator in evaluators.items():
                scores = evaluator(protagonist(state), jax.random.fold_in(keys.evaluate, progress.iteration))
                if not writer:
                    continue
                means = _write_scores(writer, suite, scores, progress)
                if tracking:
                    prefix = "test" if suite == evaluation.suite else f"test/{suite}"
                    tracking.log(progress.steps, {f"{prefix}/{name}": mean for name, mean in means.items()})
                shown = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
                bar.write(f"{progress.steps:>12,} steps: on the suite {suite}, mean {shown}")
            if checkpoint and writer:
                writer.checkpoint(state, progress, archive=archive)
            if stopping and not last:
                with mesh.together():
                    raise Stopped(stopping)
        with mesh.together():
            pass  # wait until all is written
    return run


class _Replays:
    """Decides which iterations replay, if possible without waiting for the iteration before."""

    AHEAD = 256
    """Iterations that are decided at a time."""

    def __init__(self, curriculum: Curriculum, key: Key) -> None:
        self._curriculum, self._key, self._can = curriculum, key, False
        self._wants: dict[int, bool] = {}

    def __call__(self, state: State, iteration: int) -> bool:
        """Whether an iteration replays, given the state before it."""
        if iteration not in self._wants:
            ahead = np.arange(iteration, iteration + self.AHEAD)
            wants = self._curriculum.wants_replay(jax.vmap(partial(jax.random.fold_in, self._key))(ahead))
            self._wants = dict(zip(ahead.tolist(), wants.tolist(), strict=True))
        if not self._wants[iteration]:
            return False
        self._can = self._can or self._curriculum.can_replay(state)
        return self._can


def _write_scores(writer: RunWriter, suite: str, scores: Iterable[Score], progress: Progress) -> dict[str, float]:
    """Log the protagonist's scores on the test levels. Returns the means over levels."""
    rows: list[dict[str, Json]] = [
        progress._asdict()
        | {
            "suite": suite,
            "level": score.level,
            "episodes": score.episodes,
            "greedy": writer.run.config.evaluation.greedy,
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


def _advanced(progress: Progress, config: Config[Any], curriculum: Curriculum, replay: bool) -> Progress:
    method, ppo = curriculum.method, curriculum.parts.ppo
    played = config.num_envs * config.num_steps * method.rollouts(replay)
    updates = ppo.epochs * ppo.num_minibatches if replay or method.train_on_new else 0
    return Progress(progress.iteration + 1, progress.steps + played, progress.updates + updates)


def _due(iteration: int, every: int) -> bool:
    return bool(every) and iteration % every == 0


def _compiled(config: Config[Any]) -> dict[str, Json]:
    """The options that the compiled programs depend on, by dotted name."""
    evaluation = {f"evaluation.{name}": x for name, x in asdict(config.evaluation).items() if name != "evaluate_every"}
    shown = {"snapshot_levels": config.storage.snapshot_levels}
    return {name: x for name, x in config.learning().items() if name not in ("seed", "devices")} | evaluation | shown


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """The signals to stop received so far; a second interrupt does not wait for the iteration to end.

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
