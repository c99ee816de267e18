"""Files that are never half written, logs in which lost rows are detected, directories with one writer at a time."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tutelage.types import InputError, Json

LOCK = "lock"


class DamagedError(InputError):
    """A file that is not, or no longer, what was saved."""


def write_atomically(path: str | Path, content: bytes | str) -> None:
    """Write a temporary file and rename it, so that neither a kill nor a full disk leaves half of it.

    A symbolic link at `path` is replaced, never followed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with _naming(path):
            unfinished.unlink(missing_ok=True)
            with _opened(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:  # EXCL: not through a link
                _write(file, content.encode() if isinstance(content, str) else content)
                os.fsync(file)
            os.replace(unfinished, path)
            with _opened(path.parent, os.O_RDONLY) as directory:
                os.fsync(directory)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def sole_writer(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory. The kernel releases it when the process ends, however it ends."""
    directory.mkdir(parents=True, exist_ok=True)
    # the directory's lock cannot be deleted; the file's also works between hosts that share a file system
    places = {directory: os.O_RDONLY | os.O_DIRECTORY, directory / LOCK: os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW}
    with ExitStack() as stack:
        for path, flags in places.items():
            if path.is_symlink() and path != directory:
                raise InputError(f"{path} is a symbolic link. Remove it: a lock is a file of the directory's own.")
            try:
                fcntl.flock(stack.enter_context(_opened(path, flags)), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{directory} is in use by another process: wait for it, or choose another.") from None
        for left in directory.rglob(".*.unfinished"):  # by a process that was killed
            if left.is_symlink() or not left.is_dir():
                left.unlink()
        yield


def read(path: Path, missing: bytes | None = None) -> bytes:
    """The bytes of a file, or `missing` if there is no such file."""
    if missing is not None and not path.exists():
        return missing
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise DamagedError(f"{path} is not a regular file.")
    return path.read_bytes()


def read_json(path: Path) -> Json:
    """The content of a JSON file, or a `DamagedError`."""
    try:
        return json.loads(read(path))
    except RecursionError:
        raise DamagedError(f"{path} is not JSON that can be read: it is nested too deeply.") from None
    except ValueError as error:
        raise DamagedError(f"{path} is not JSON: {error}.") from None


def numbered(directory: Path, suffix: str) -> dict[int, Path]:
    """The files of a directory that are named by a number of at least eight digits, the highest first."""
    paths = directory.iterdir() if directory.exists() else ()  # not `glob`, for which unreadable is empty
    named = ((re.fullmatch(r"(\d{8,})" + re.escape(suffix), path.name), path) for path in paths)
    found = {int(match[1]): path for match, path in named if match and path.is_file()}
    return dict(sorted(found.items(), reverse=True))


def csv_text(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows as CSV with a head; a value that is missing, None or NaN leaves its cell empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = map(row.get, columns)
        writer.writerow([None if cell != cell else cell for cell in cells])
    return text.getvalue()


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, or none if there is no such file."""
    return parse_csv(path, read(path, b""))


def parse_csv(path: Path, data: bytes) -> list[dict[str, str]]:
    """The rows of a CSV file that holds `data`, or a `DamagedError`; a last line that is not yet whole is left out."""
    try:
        head, *rows = list(csv.reader(io.StringIO(data[: data.rfind(b"\n") + 1].decode(), newline=""))) or [[]]
    except (csv.Error, UnicodeDecodeError) as error:
        raise DamagedError(f"{path} is damaged: {error}.") from None
    for line, row in enumerate(rows, start=2):
        if len(row) != len(head):
            raise DamagedError(f"{path} is damaged in line {line}: it has {len(row)} of {len(head)} cells.")
    return [dict(zip(head, row, strict=True)) for row in rows]


class Mark(NamedTuple):
    """The size and digest of a log or a directory when it was saved, by which later losses are detected."""

    size: int
    """How many lines or files."""
    digest: str | None
    """Of their bytes; None for timing, which differs between runs that are otherwise equal."""


class Tally:
    """Counts and digests what something is made of, piece by piece."""

    def __init__(self, data: bytes = b"", count: int = 0) -> None:
        self._count, self._hash = count, hashlib.blake2b(data, digest_size=16)

    def add(self, data: bytes, count: int = 1) -> None:
        self._count += count
        self._hash.update(data)

    def mark(self) -> Mark:
        return Mark(self._count, self._hash.hexdigest())


class Log:
    """A CSV file that grows row by row and stays open."""

    def __init__(self, path: Path, columns: Sequence[str], kept: bytes = b"", *, exact: bool = True) -> None:
        """Begin a log, or continue after the lines that are `kept` of it.

        The file is replaced, so that no link to it or from it is written through. A kept log gains the columns that it
        lacks, and loses none. An `exact` log is the same each time that a run is repeated.
        """
        self.path, self._exact = path, exact
        rows = parse_csv(path, kept)
        before = list(rows[0]) if rows else []
        self.columns = [*before, *(column for column in columns if column not in before)]
        if self.columns != before:
            kept = csv_text(rows, self.columns).encode()
        write_atomically(path, kept)
        self._size, self._tally = len(kept), Tally(kept, kept.count(b"\n"))
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)

    def append(self, *rows: Mapping[str, Any]) -> None:
        """Add rows. If the disk is full, none of them is written in part."""
        data = csv_text(rows, self.columns).partition("\n")[2].encode()
        with _naming(self.path):
            try:
                _write(self._descriptor, data)
            except OSError:
                os.ftruncate(self._descriptor, self._size)
                raise
        self._size += len(data)
        self._tally.add(data, data.count(b"\n"))

    def sync(self) -> Mark:
        """Flush all rows to the disk, and return their mark. Notices if another process has changed the file."""
        with _naming(self.path):
            os.fsync(self._descriptor)
        mine = os.fstat(self._descriptor)
        found = os.lstat(self.path) if os.path.lexists(self.path) else None
        if found is None or not os.path.samestat(found, mine) or mine.st_size != self._size:
            raise InputError(f"Another process has changed or deleted {self.path}, which this one was writing.")
        mark = self._tally.mark()
        return mark if self._exact else mark._replace(digest=None)

    def close(self) -> None:
        os.close(self._descriptor)


def marked(path: Path, data: bytes, mark: Mark) -> bytes:
    """The lines that a log held when it was marked, or a `DamagedError`."""
    lines = data.split(b"\n", min(mark.size, len(data) + 1))  # a damaged mark may have any size
    if len(lines) <= mark.size:
        raise DamagedError(f"{path} has {len(lines) - 1:,} of the {mark.size:,} lines that were saved.")
    kept = b"".join(line + b"\n" for line in lines[: mark.size])
    if mark.digest is not None and Tally(kept, mark.size).mark() != mark:
        raise DamagedError(f"{path} does not hold what was saved: its digest does not match.")
    return kept


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file's name to errors of the file system; that of a full disk lacks it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
