"""How a run gets on the disk, such that a kill at any moment leaves one that can be used.

A new run is made ready inside `.tutelage-beginning/`: configuration, empty logs, a checkpoint of iteration 0. When its
first iteration has worked, that directory is renamed to `.tutelage-begun/`, and with this rename the new run counts.
Then what a run before it left is deleted and the new files move up. Whoever opens the directory next finishes a move
that a kill cut short, and deletes what had only begun to be made ready.

A checkpoint says how long each log was, and its digest. After a kill the logs are cut to that length. If they do not
hold what was saved of them, nothing is done until the user says so.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax

from tutelage.curriculum.step import State
from tutelage.files import LOCK, DamagedError, Log, marked, numbered, read, sole_writer, write_atomically
from tutelage.learning.network import Params
from tutelage.training import checkpoints
from tutelage.training.config import differences
from tutelage.training.run import (
    ARCHIVE,
    BEGUN,
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
    TIMING_COLUMNS,
    Progress,
    Run,
    Saved,
    check_snapshots,
    parse_log,
    read_snapshot,
    repaired_log,
    snapshots_tally,
    write_config,
)
from tutelage.training.trackers import TENSORBOARD, WANDB
from tutelage.types import InputError, Json

BEGINNING = ".tutelage-beginning"

_LATER = (LEVELS, ARCHIVE, TENSORBOARD, REPORT, "eval-*.csv", "*.gif", "*.damaged-*")
"""What only a run that has gone on for a while has, so that all of it is an older run's while a new one moves in."""


def check_free(directory: Path, *, overwrite: bool = False) -> None:
    """Refuse to write where something is.

    Raises:
        InputError: if there is, unless it is a run and may be overwritten.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise InputError(f"{directory} is a file; choose a directory.")
    found = {path.name for path in directory.iterdir() if not path.match(".*.unfinished")} - {LOCK, BEGINNING}
    if found and not found & {CONFIG, BEGUN}:
        raise InputError(f"{directory} is not empty and holds no run; choose another directory.")
    if found and not overwrite:
        raise InputError(
            f"{directory} already holds a run. Go on with it (tutelage resume), choose another directory, or ask for "
            "it to be overwritten (--overwrite)."
        )


@contextmanager
def opened(directory: Path) -> Iterator[None]:
    """Be the only one who writes a run, after finishing what another was killed over.

    Raises:
        InputError: if another process writes it, or if writing it would write elsewhere.
    """
    for name in (LEVELS, CHECKPOINTS, ARCHIVE, TENSORBOARD, WANDB, BEGINNING, BEGUN):
        if (directory / name).is_symlink():
            raise InputError(
                f"{directory / name} is a symbolic link, and a run is written inside of its own directory only: put "
                "there what the link points to, or remove the link."
            )
    with sole_writer(directory):
        _remove(directory / BEGINNING)
        _move_in(directory)
        yield


class Restored(NamedTuple):
    """Where a run goes on from."""

    path: Path
    """The checkpoint."""
    state: State
    progress: Progress
    logs: Mapping[str, bytes]
    """What each log holds until then."""
    damaged: Sequence[Path]
    """Logs and snapshots that are not what was saved, and that the user wants to do without."""


def restore(run: Run, names: Sequence[str], like: State, *, repair_logs: bool = False) -> Restored:
    """Read the newest whole checkpoint of a run, and the logs until then. Nothing is written.

    Args:
        run: the run.
        names: of its metrics.
        like: the shapes of a state.
        repair_logs: keep what can be understood of damaged logs, instead of an error.

    Raises:
        InputError: if there is none, if it belongs to another configuration, or if logs are damaged.
    """
    checkpoint, saved = _newest(run)
    state = checkpoints.fit(checkpoint.arrays, like, checkpoint.path)
    logs, damaged = {}, list[Path]()
    with run.advising():
        for name, columns in _columns(names).items():
            path = run.directory / name
            try:
                logs[name] = marked(path, read(path, b""), saved.logs[name])
                parse_log(path, logs[name])
            except DamagedError:
                if not repair_logs:
                    raise
                logs[name] = repaired_log(path, columns, saved.progress.iteration)
                damaged.append(path)
        try:
            check_snapshots(run.directory / LEVELS, saved)
        except DamagedError:
            if not repair_logs:
                raise
            damaged += _unreadable_snapshots(run.directory / LEVELS) or [run.directory / LEVELS]
    return Restored(checkpoint.path, state, saved.progress, logs, damaged)


def _newest(run: Run) -> tuple[checkpoints.Checkpoint, Saved]:
    found = [
        (number, path)
        for directory in (CHECKPOINTS, ARCHIVE)
        for number, path in numbered(run.directory / directory, checkpoints.SUFFIX).items()
    ]
    anew = f"or train anew with tutelage train --config {run.directory / CONFIG}."
    if not found:
        raise InputError(f"{run.directory} has no checkpoint to go on from. Put one there, {anew}")
    for number, path in sorted(found, key=lambda each: -each[0]):
        try:
            checkpoint = checkpoints.read(path)
            saved = Saved.parse(path, checkpoint.about)
            if saved.progress.iteration != number or not isinstance(checkpoint.about.get("learning"), dict):
                raise DamagedError(f"{path} is not what its name says.")
        except DamagedError as error:
            say(f"{error} Looking for the checkpoint before it.")
            continue
        if unlike := differences(checkpoint.about["learning"], run.config.learning()):
            raise InputError(
                f"{path} belongs to another configuration than {run.directory / CONFIG}. They differ in "
                f"{'; '.join(unlike)}."
            )
        return checkpoint, saved
    raise InputError(f"All {len(found)} checkpoints of {run.directory} are damaged. Put a whole one there, {anew}")


def _unreadable_snapshots(directory: Path) -> list[Path]:
    found = []
    for path in numbered(directory, ".json").values():
        try:
            read_snapshot(path)
        except DamagedError:
            found.append(path)
    return found


class RunWriter:
    """Writes a run."""

    def __init__(self, run: Run, place: Path, names: Sequence[str], logs: Mapping[str, bytes], iteration: int) -> None:
        """Use `begin` or `go_on`.

        Args:
            run: what is written.
            place: where its files are now.
            names: of its metrics.
            logs: what its logs hold already.
            iteration: how far it has come.
        """
        self.run, self.place, self._inode = run, place, run.directory.stat()
        self._logs = {
            name: Log(place / name, columns, logs.get(name, b""), exact=name != TIMING)
            for name, columns in _columns(names).items()
        }
        self._snapshots = snapshots_tally(place / LEVELS, iteration)

    @classmethod
    def begin(cls, run: Run, names: Sequence[str], state: State) -> RunWriter:
        """Make a new run ready. `move_in` then lets it take its place."""
        place = run.directory / BEGINNING
        write_config(place, run.config)
        writer = cls(run, place, names, {}, 0)
        writer.checkpoint(state, Progress())
        return writer

    @classmethod
    def go_on(cls, run: Run, names: Sequence[str], restored: Restored) -> RunWriter:
        """Go on from a checkpoint. What is left of later iterations is deleted, since they come again."""
        directory, iteration = run.directory, restored.progress.iteration
        suffixes = {CHECKPOINTS: checkpoints.SUFFIX, ARCHIVE: checkpoints.SUFFIX, LEVELS: ".json"}
        later = [
            path
            for name, suffix in suffixes.items()
            for number, path in numbered(directory / name, suffix).items()
            if number > iteration
        ]
        if any(path.suffix == checkpoints.SUFFIX for path in later):  # damaged ones, which the policy may come from
            later.insert(0, directory / POLICY)
        for path in later:
            path.unlink(missing_ok=True)
        for path in restored.damaged:
            if path.is_file():
                os.replace(path, f"{path}.damaged-{iteration:08}")
        if restored.path.parent.name == ARCHIVE:
            checkpoints.also_in(directory / CHECKPOINTS, restored.path)
        writer = cls(run, directory, names, restored.logs, iteration)
        if restored.damaged:
            writer.checkpoint(restored.state, restored.progress)
        else:
            writer._export(restored.state, restored.progress, writer._marks())
        return writer

    def move_in(self) -> None:
        """Let a new run take the place of what was there before it; one that is there already stays."""
        if self.place == self.run.directory:
            return
        self._check_place()
        os.rename(self.place, self.run.directory / BEGUN)
        _move_in(self.run.directory)
        self.place = self.run.directory
        for name, log in self._logs.items():
            log.path = self.place / name

    def append(self, name: str, *rows: Mapping[str, Any]) -> None:
        """Add rows to one of the logs."""
        self._logs[name].append(*rows)

    def snapshot(self, progress: Progress, content: Mapping[str, Json]) -> None:
        """Write down what the curriculum looks like."""
        self._check_place()
        path = self.place / LEVELS / f"{progress.iteration:08}.json"
        data = json.dumps(progress._asdict() | dict(content)).encode()
        write_atomically(path, data)
        self._snapshots.add(path.name.encode() + data)

    def checkpoint(self, state: State, progress: Progress, *, archive: bool = False) -> None:
        """Save all that is needed to go on, maybe for good."""
        self._check_place()
        marks = self._marks()
        about = {"learning": self.run.config.learning(), "progress": progress, "logs": marks}
        # into the archive first: if a kill follows, the run goes on from there and puts it into both
        path = checkpoints.file_of(self.place / (ARCHIVE if archive else CHECKPOINTS), progress.iteration)
        checkpoints.write(path, state, about)
        if archive:
            checkpoints.also_in(self.place / CHECKPOINTS, path)
        self._export(state, progress, marks)

    def close(self) -> None:
        """Write no more. A new run that did not take its place is deleted."""
        for log in self._logs.values():
            log.close()
        if self.place != self.run.directory:
            _remove(self.place)

    def _export(self, state: State, progress: Progress, marks: Json) -> None:
        """Delete checkpoints that are no longer among the newest, and write the policy."""
        checkpoints.prune(self.place / CHECKPOINTS, self.run.config.storage.keep)
        about = {"config": self.run.config.to_json(), "progress": progress, "logs": marks}
        checkpoints.write(self.place / POLICY, protagonist(state), about)

    def _marks(self) -> dict[str, Json]:
        return {name: log.sync() for name, log in self._logs.items()} | {LEVELS: self._snapshots.mark()}

    def _check_place(self) -> None:
        directory = self.run.directory
        if not directory.exists() or not os.path.samestat(directory.stat(), self._inode):
            raise InputError(f"{directory} was moved or deleted while it was written. Go on with it where it is now.")


def protagonist(state: State) -> Params:
    """The first student's parameters."""
    return jax.tree.map(lambda x: x[0], jax.device_get(state.students.params))


def say(sentence: str) -> None:
    """Tell the user something that is no error."""
    print(f"tutelage: {sentence}", file=sys.stderr, flush=True)


def _columns(names: Sequence[str]) -> dict[str, Sequence[str]]:
    return {METRICS: [*PROGRESS, *names], TIMING: TIMING_COLUMNS, EVALUATIONS: EVALUATION_COLUMNS}


def _move_in(directory: Path) -> None:
    begun = directory / BEGUN
    if not begun.exists():
        return
    for pattern in _LATER:
        for path in directory.glob(pattern):
            _remove(path)
    for path in sorted(begun.iterdir(), key=lambda path: path.name == CONFIG):  # the configuration last
        target = directory / path.name
        if path.is_dir() or target.is_dir():
            _remove(target)
        os.replace(path, target)
    begun.rmdir()


def _remove(path: Path) -> None:
    """Delete a file, a directory, or a link but not what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
