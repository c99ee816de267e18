"""How a run is written, such that it can be resumed after a kill at any time.

A new run is staged inside `.tutelage-staged/`: its configuration, empty logs and a checkpoint of iteration 0. After its
first iteration that directory is renamed to `.tutelage-published/`. With this rename the new run replaces an old one:
then the old files are deleted and the new ones move up. If a kill interrupts that, the next writer
completes it; a run that was only staged is deleted.

A checkpoint records the length and digest of each log. After a kill the logs are cut to that length. Logs that do not
hold what was recorded are an error, until the user asks to repair them.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from tutelage.curriculum.step import State
from tutelage.files import LOCK, DamagedError, Log, marked, numbered, read, sole_writer, write_atomically
from tutelage.learning.network import Params
from tutelage.training import checkpoints
from tutelage.training.config import Config
from tutelage.training.run import (
    ARCHIVE,
    CHECKPOINTS,
    CONFIG,
    CRC,
    LEVELS,
    POLICY,
    PUBLISHED,
    REPORT,
    TIMING,
    Progress,
    Run,
    Saved,
    log_columns,
    parse_log,
    read_snapshot,
    read_snapshots,
    repaired_log,
    row_crc,
    snapshots_tally,
    write_config,
)
from tutelage.training.serialization import differences
from tutelage.training.trackers import TENSORBOARD, WANDB, WANDB_ID
from tutelage.types import InputError, Json

STAGED = ".tutelage-staged"

_OLD = (LEVELS, ARCHIVE, TENSORBOARD, WANDB_ID, REPORT, "eval-*.csv", "episodes-*.csv", "*.gif", "*.damaged-*")
"""Files that a run does not have yet when it is published, so they belong to the old run."""


def check_free(directory: Path, *, overwrite: bool = False) -> None:
    """Refuse a directory that is not empty, unless it is a run and may be overwritten."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise InputError(f"{directory} is a file; choose a directory.")
    found = {path.name for path in directory.iterdir() if not path.match(".*.unfinished")} - {LOCK, STAGED}
    published = directory / PUBLISHED
    if PUBLISHED in found and published.is_dir() and not any(published.iterdir()):
        found.remove(PUBLISHED)
    if found and not found & {CONFIG, PUBLISHED}:
        raise InputError(f"{directory} is not empty and holds no run; choose another directory.")
    if found and not overwrite:
        raise InputError(f"{directory} already holds a run: resume it, replace it (--overwrite), or choose another.")


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Lock a run for writing, and complete what a kill interrupted."""
    own = (LEVELS, CHECKPOINTS, ARCHIVE, TENSORBOARD, WANDB)
    for name in (STAGED, PUBLISHED, *own, *(f"{PUBLISHED}/{name}" for name in own)):
        if (path := directory / name).is_symlink():
            raise InputError(f"{path} is a symbolic link, and a run is written inside its directory only: remove it.")
    with sole_writer(directory):
        _remove(directory / STAGED)
        _complete_publishing(directory)
        try:
            yield
        finally:
            _remove(directory / STAGED)  # if the first iteration did not work


def _newest(run: Run) -> tuple[checkpoints.Checkpoint, Saved]:
    found = [path for name in (CHECKPOINTS, ARCHIVE) for path in checkpoints.saved(run.directory / name)]
    again = f"or train from the start: {run.command('train', '--config', str(run.directory / CONFIG))}"
    if not found:
        raise InputError(f"{run.directory} has no checkpoint to resume from. Put one there, {again}")
    for path in sorted(found, key=lambda path: -int(path.stem)):
        try:
            checkpoint = checkpoints.read(path)
            saved = Saved.parse(path, checkpoint.about)
            if saved.progress.iteration != int(path.stem) or not isinstance(checkpoint.about.get("learning"), dict):
                raise DamagedError(f"{path} does not belong to the iteration in its name.")
        except DamagedError as error:
            say(f"{error} Looking for the checkpoint before it.")
            continue
        if unlike := differences(checkpoint.about["learning"], run.config.learning()):
            both = f"{path} belongs to another configuration than {run.directory / CONFIG}."
            raise InputError(f"{both} They differ in {'; '.join(unlike)}.")
        return checkpoint, saved
    raise InputError(f"All {len(found)} checkpoints of {run.directory} are damaged. Put a whole one there, {again}")


def _kept_logs(run: Run, names: Sequence[str], saved: Saved, repair: bool) -> tuple[dict[str, bytes], list[Path]]:
    """What each log held at a checkpoint, and which logs and snapshots are damaged and to be repaired."""
    logs, damaged, snapshots = {}, list[Path](), run.directory / LEVELS
    with run.advising():
        for name, columns in log_columns(names, run.domain.measures).items():
            path = run.directory / name
            try:
                logs[name] = marked(path, read(path, b""), saved.logs[name])
                parse_log(path, logs[name])
            except DamagedError:
                if not repair:
                    raise
                logs[name] = repaired_log(path, columns, saved.progress.iteration)
                damaged.append(path)
        try:
            read_snapshots(snapshots, saved)
        except DamagedError:
            if not repair:
                raise
            for path in numbered(snapshots, ".json").values():
                try:
                    read_snapshot(path)
                except DamagedError:
                    damaged.append(path)
            damaged.append(snapshots)
    return logs, damaged


class RunWriter:
    """Writes a run that `create` or `reopen` opened."""

    def __init__(self, run: Run, place: Path, names: Sequence[str], logs: Mapping[str, bytes], iteration: int) -> None:
        """`place` is where the files are now; `names` are those of the metrics."""
        self.run, self.place, self._inode = run, place, run.directory.stat()
        self._logs = {
            name: Log(place / name, columns, logs.get(name, b""), exact=name != TIMING)
            for name, columns in log_columns(names, run.domain.measures).items()
        }
        self._snapshots = snapshots_tally(place / LEVELS, iteration)

    @classmethod
    def create(cls, run: Run, names: Sequence[str], state: State) -> RunWriter:
        """Stage a new run, for `publish`."""
        place = run.directory / STAGED
        write_config(place, run.config)
        writer = cls(run, place, names, {}, 0)
        writer.checkpoint(state, Progress())
        return writer

    @classmethod
    def reopen(
        cls, run: Run, config: Config[Any], names: Sequence[str], like: State, *, repair_logs: bool
    ) -> tuple[RunWriter, State, Progress]:
        """Continue a run from its newest whole checkpoint, with a `config` that may be longer.

        `like` has the shapes of a state. With `repair_logs`, the intact rows of damaged logs are kept. Files of later
        iterations are deleted, since these are run again.

        Raises:
            InputError: if there is no checkpoint, if it belongs to another configuration or is beyond the end of this
                one, or if logs are damaged. Nothing has been written then.
        """
        directory, (checkpoint, saved) = run.directory, _newest(run)
        state, progress = checkpoints.fit(checkpoint.arrays, like, checkpoint.path), saved.progress
        logs, damaged = _kept_logs(run, names, saved, repair_logs)
        if config != run.config:
            if progress.beyond(config):
                raise InputError(
                    f"{directory} has come to {progress.steps:,} steps and {progress.updates:,} updates already, "
                    "beyond what is asked for: ask for more, or train again."
                )
            write_config(directory, config)
        suffixes = {CHECKPOINTS: checkpoints.SUFFIX, ARCHIVE: checkpoints.SUFFIX, LEVELS: ".json"}
        found = [each for name, suffix in suffixes.items() for each in numbered(directory / name, suffix).items()]
        later = [path for number, path in found if number > progress.iteration]
        if any(path.suffix == checkpoints.SUFFIX for path in later):  # damaged ones, and the policy may be theirs
            later.insert(0, directory / POLICY)
        for path in later:
            path.unlink(missing_ok=True)
        for path in filter(Path.is_file, damaged):
            copies = (path.with_name(f"{path.name}.damaged-{i}") for i in itertools.count(1))
            write_atomically(next(copy for copy in copies if not copy.exists()), path.read_bytes())
            if path.parent.name == LEVELS:
                path.unlink()
        if checkpoint.path.parent.name == ARCHIVE:
            checkpoints.also_in(directory / CHECKPOINTS, checkpoint.path)
        writer = cls(Run(directory, config), directory, names, logs, progress.iteration)
        if damaged:
            writer.checkpoint(state, progress)
        else:
            writer._export(state, progress, writer._marks())
        return writer, state, progress

    def publish(self) -> None:
        """Replace what is in the directory by the staged run, unless this has been done."""
        if self.place == self.run.directory:
            return
        self._check_place()
        os.rename(self.place, self.run.directory / PUBLISHED)
        _complete_publishing(self.run.directory)
        self.place = self.run.directory
        for name, log in self._logs.items():
            log.path = self.place / name

    def append(self, name: str, *rows: Mapping[str, Any]) -> None:
        self._logs[name].append(*({**row, CRC: row_crc(row)} if name == TIMING else row for row in rows))

    def snapshot(self, progress: Progress, content: Mapping[str, Json]) -> None:
        self._check_place()
        path = self.place / LEVELS / f"{progress.iteration:08}.json"
        data = json.dumps(progress._asdict() | dict(content)).encode()
        write_atomically(path, data)
        self._snapshots.add(path.name.encode() + data)

    def checkpoint(self, state: State, progress: Progress, *, archive: bool = False) -> None:
        """Save everything that resume needs; with `archive` the checkpoint is never deleted."""
        self._check_place()
        marks = self._marks()
        about = {"learning": self.run.config.learning(), "progress": progress, "logs": marks}
        # the archive first: after a kill between both, the run resumes from there and writes both
        path = checkpoints.file_of(self.place / (ARCHIVE if archive else CHECKPOINTS), progress.iteration)
        checkpoints.write(path, state, about)
        if archive:
            checkpoints.also_in(self.place / CHECKPOINTS, path)
        self._export(state, progress, marks)

    def close(self) -> None:
        for log in self._logs.values():
            log.close()

    def _export(self, state: State, progress: Progress, marks: Json) -> None:
        """Delete checkpoints that are no longer among the newest, and write the policy."""
        for old in checkpoints.saved(self.place / CHECKPOINTS)[self.run.config.storage.keep :]:
            old.unlink()
        about = {"config": self.run.config.to_json(), "progress": progress, "logs": marks}
        checkpoints.write(self.place / POLICY, protagonist(state), about)

    def _marks(self) -> dict[str, Json]:
        return {name: log.sync() for name, log in self._logs.items()} | {LEVELS: self._snapshots.mark()}

    def _check_place(self) -> None:
        directory = self.run.directory
        if not directory.exists() or not os.path.samestat(directory.stat(), self._inode):
            raise InputError(f"{directory} was moved or deleted while it was written. Resume it where it is now.")


def protagonist(state: State) -> Params:
    """The first student's parameters."""
    return jax.tree.map(lambda x: x[0], jax.device_get(state.students.params))


def say(sentence: str) -> None:
    """Print a message on standard error."""
    print(f"tutelage: {sentence}", file=sys.stderr, flush=True)


def _complete_publishing(directory: Path) -> None:
    published = directory / PUBLISHED
    if not published.exists():
        return
    if any(published.iterdir()):  # else all of it has moved up, and what is there is the new run's
        for path in itertools.chain.from_iterable(map(directory.glob, _OLD)):
            _remove(path)
    for path in sorted(published.iterdir(), key=lambda path: path.name == CONFIG):  # the configuration last
        target = directory / path.name
        if path.is_dir() or target.is_dir():
            _remove(target)
        os.replace(path, target)
    published.rmdir()


def _remove(path: Path) -> None:
    """Delete a file, a directory, or a link but not what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
