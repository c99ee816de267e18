"""The loop around the compiled iterations: log, snapshot, evaluate, checkpoint, stop and resume.

Iteration i uses `fold_in(key, i)` and every rollout begins with a reset, so a checkpoint is the state and the number of
iterations. A run that was killed resumes from its newest intact checkpoint; later rows of its logs are deleted and
written again, bit for bit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from tutelage.curriculum.curriculum import Curriculum, check_finite
from tutelage.curriculum.step import State
from tutelage.evaluation.evaluate import Evaluator, LevelResult
from tutelage.learning import mesh
from tutelage.learning.ppo import Metrics
from tutelage.training import processes
from tutelage.training.config import Config
from tutelage.training.progress import ProgressBar
from tutelage.training.run import EPISODES, EVALUATIONS, METRICS, TIMING, Progress, Run
from tutelage.training.run_writer import RunWriter, check_free, protagonist, say, writing
from tutelage.training.serialization import differences
from tutelage.training.snapshots import Snapshots
from tutelage.training.trackers import Tracker, TrackerName, tracker, tracking_package
from tutelage.types import InputError, Json, Key

AHEAD = 256
"""For how many iterations it is decided at a time whether they are to replay."""


class Stopped(Exception):  # noqa: N818, it is no error
    """The run was stopped by a signal, and all is saved."""

    def __init__(self, number: int) -> None:
        super().__init__(f"Stopped by {signal.Signals(number).name}; all is saved.")
        self.exit_code = 128 + number
        """The usual exit code of a process that was ended by a signal."""


class Programs:
    """The compiled programs of a configuration. Runs that differ in their seed only can share them."""

    def __init__(self, config: Config[Any]) -> None:
        """Build and trace a configuration, so that errors occur before anything is written."""
        self.config, evaluation = config, config.evaluation
        config.check_saved()
        try:
            self.curriculum = config.curriculum()
            parts, devices = self.curriculum.parts, self.curriculum.mesh.size

            def evaluators(episodes: int) -> dict[str, Evaluator]:
                suites = {suite: config.test_levels(parts.domain, suite) for suite in evaluation.suites}
                build = partial(Evaluator, parts.domain, greedy=evaluation.greedy, devices=devices)
                return {suite: build(levels, parts.student, episodes) for suite, levels in suites.items()}

            self.evaluators = self.last_evaluators = evaluators(evaluation.episodes)
            """By suite, on the way and at the end of the run."""
            if evaluation.last_episodes != evaluation.episodes:
                self.last_evaluators = evaluators(evaluation.last_episodes)
            self.snapshots = Snapshots(self.curriculum, config.storage.snapshot_levels)
            self.shapes = jax.eval_shape(self.curriculum.init_program, jax.random.key(0))
            names = self.curriculum.metric_names(self.shapes, jax.random.key(0))
            self.names = sorted(names | {*self.snapshots.metrics})
        except (InputError, OSError):
            raise
        except Exception as error:  # of JAX, or of a function of the user's own
            first = str(error).strip().partition("\n")[0]
            raise InputError(
                f"This configuration cannot run ({type(error).__name__}: {first:.300}). Check functions of your own, "
                "and sizes and counts that are very large."
            ) from error

    def check(self, config: Config[Any]) -> None:
        """Refuse a configuration that differs in more than its seed, its length and its storage; begin to compile."""
        config.check()
        if found := differences(_compiled(self.config), _compiled(config)):
            raise InputError(f"These programs were compiled for another configuration: {'; '.join(found)}.")
        self.curriculum.compile_ahead(self.shapes, jax.random.key(0))


def _keys(config: Config[Any]) -> Key:
    """A run's keys [4]: of the first state, of iterations, of evaluations and of snapshots."""
    return jax.random.split(jax.random.key(config.seed), 4)


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
    with processes.fail_together():
        if processes.is_main():
            check_free(directory, overwrite=overwrite)
            if track:
                tracking_package(track)
    programs = programs or Programs(config)
    programs.check(config)
    run = Run(directory, replace(config, devices=programs.curriculum.mesh.size))
    state, writer = programs.curriculum.init(_keys(config)[0]), None
    with stop_requests() if requests is None else nullcontext(requests) as requests, ExitStack() as stack:
        with processes.fail_together():
            if processes.is_main():
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
        raise InputError("This run's learning rate falls to 0 at its end, so it cannot be made longer: train again.")
    if track:
        tracking_package(track)
    # these processes may be unable to share that number of devices, but not another one
    devices = 0 if config.devices % jax.process_count() else config.devices
    programs = programs or Programs(replace(config, devices=devices))
    programs.check(config)
    with stop_requests() if requests is None else nullcontext(requests) as requests, ExitStack() as stack:
        state: Any = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), programs.shapes)
        progress, writer, devices = Progress(), None, programs.curriculum.mesh.size
        with processes.fail_together():
            if processes.is_main():
                stack.enter_context(writing(run.directory))
                writer, state, progress = RunWriter.reopen(
                    run, config, programs.names, programs.shapes, repair_logs=repair_logs
                )
                stack.enter_context(closing(writer))
                if devices != config.devices:
                    say(
                        f"This run began on {config.devices} devices and continues on {devices}: sums are rounded "
                        "differently, so it will not be the same bit for bit."
                    )
        state, counts = processes.broadcast_from_main((state, np.array(progress, np.int64)))
        state, progress = programs.curriculum.place(state), Progress(*map(int, counts))
        return _loop(Run(run.directory, config), writer, programs, state, progress, track, quiet, requests, pause_at)


class _Played(NamedTuple):
    """An iteration that was dispatched and whose metrics have not been read yet."""

    progress: Progress
    steps: int
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

    An iteration donates the state before it, so snapshots, evaluations and checkpoints of a state are made before the
    next iteration is dispatched. Of several processes, only the one with a `writer` writes and prints.
    """
    config, curriculum = run.config, programs.curriculum
    evaluation, storage = config.evaluation, config.storage
    _, train_key, evaluate_key, snapshot_key = _keys(config)
    replays = _replays(curriculum, train_key)
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
        seconds = now - played.start
        rate = {"steps_per_second": played.steps / seconds}
        scalars |= more or {}
        writer.append(METRICS, progress._asdict() | scalars)
        writer.append(TIMING, {"iteration": progress.iteration, "seconds": seconds} | rate)
        if tracking:
            tracking.log(progress.steps, scalars | rate)
        bar.update(played.steps, scalars)
        return now

    with ExitStack() as stack, processes.detect_lost_process():
        quiet = quiet or writer is None
        total = min(config.expected_steps(), pause_at or config.total_steps)
        bar = stack.enter_context(ProgressBar(run.title, total, progress.steps, quiet))
        while not progress.finished(config) and (pause_at is None or progress.steps < pause_at):
            start, before = time.perf_counter(), progress
            replay = replays(state, before.iteration)
            if replay not in compiled:
                compiled.add(replay)
                bar.stage("compiling …")
            asked = (
                processes.global_max(requests[0] if requests else 0, curriculum.mesh)
                if jax.process_count() > 1
                else None
            )
            state, metrics = curriculum.dispatch(state, jax.random.fold_in(train_key, before.iteration), replay)
            progress = _advanced(before, config, curriculum, replay)
            if waiting:
                start = log(waiting)
            waiting = _Played(progress, progress.steps - before.steps, metrics, start)

            last = progress.finished(config)
            iterations = before.iteration, progress.iteration
            updates = before.updates, progress.updates
            archive = _due(storage.archive_every, *(updates if storage.archive_unit == "updates" else iterations))
            snapshot = last or _due(storage.snapshot_every, *iterations)
            evaluate = programs.evaluators and (last or _due(evaluation.evaluate_every, *iterations))
            # read once: a later signal stops the next iteration
            stopping = int(mesh.read(asked)) if asked is not None else requests[0] if requests else 0
            pausing = pause_at is not None and progress.steps >= pause_at
            checkpoint = last or stopping or pausing or archive or _due(storage.checkpoint_every, *iterations)
            if not (snapshot or evaluate or checkpoint):
                continue

            seen: dict[str, float] = {}
            if snapshot and writer:
                check_finite(mesh.read(metrics), state)
                writer.publish()
                content = programs.snapshots(state, jax.random.fold_in(snapshot_key, progress.iteration))
                writer.snapshot(progress, content)
                seen = {metric: content[name] for metric, name in programs.snapshots.metrics.items()}
            log(waiting, seen)
            waiting = None
            evaluators = (programs.last_evaluators if last else programs.evaluators) if evaluate else {}
            for suite, evaluator in evaluators.items():
                scores = evaluator(protagonist(state), jax.random.fold_in(evaluate_key, progress.iteration))
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
                with processes.fail_together():
                    raise Stopped(stopping)
        with processes.fail_together():
            pass  # wait until all is written
    return run


def _replays(curriculum: Curriculum, key: Key) -> Callable[[State, int], bool]:
    """Whether an iteration replays, given the state before it: decided if possible without waiting for that state."""
    can = False

    @lru_cache(maxsize=1)
    def wants(block: int) -> list[bool]:
        iterations = np.arange(block * AHEAD, (block + 1) * AHEAD)
        return curriculum.wants_replay(jax.vmap(partial(jax.random.fold_in, key))(iterations)).tolist()

    def replays(state: State, iteration: int) -> bool:
        nonlocal can
        wanted = wants(iteration // AHEAD)[iteration % AHEAD]
        can = can or (wanted and curriculum.can_replay(state))
        return wanted and can

    return replays


def _write_scores(writer: RunWriter, suite: str, scores: Sequence[LevelResult], progress: Progress) -> dict[str, float]:
    """Log the protagonist's scores on the test levels. Returns the means over levels."""
    where = progress._asdict() | {"suite": suite, "greedy": writer.run.config.evaluation.greedy}
    for score in scores:
        own = {"level": score.level, "episodes": score.episodes, "solved": score.solved}
        writer.append(EVALUATIONS, where | own | {"return": score.mean_return, "length": score.mean_length})
        place = {"iteration": progress.iteration, "suite": suite}
        writer.append(EPISODES, *(place | row for row in score.rows()))
    each: dict[str, list[Any]] = {"solved": [x.solved for x in scores], "return": [x.mean_return for x in scores]}
    return {name: float(np.mean(known)) for name, known in each.items() if None not in known}


def _advanced(progress: Progress, config: Config[Any], curriculum: Curriculum, replay: bool) -> Progress:
    method, ppo = curriculum.method, curriculum.parts.ppo
    played = config.num_envs * config.num_steps * method.rollouts(replay)
    updates = ppo.epochs * ppo.num_minibatches if replay or method.train_on_new else 0
    return Progress(progress.iteration + 1, progress.steps + played, progress.updates + updates)


def _due(every: int, before: int, now: int) -> bool:
    """Whether a multiple of `every` was reached."""
    return every > 0 and now // every > before // every


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
