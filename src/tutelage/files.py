"""Files that are never half written, and directories that have one writer at a time."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tutelage.types import InputError


def write_atomically(path: str | Path, content: bytes | str) -> None:
    """Write a file beside its place and move it there, so that no kill and no full disk leaves half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    data = content.encode() if isinstance(content, str) else content
    try:
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def sole_writer(directory: Path) -> Iterator[None]:
    """Be the only one who writes to a directory. The kernel lifts the lock when a process ends, however it ends."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{directory} is in use by another process. Wait until that has ended, or choose another directory."
            ) from None
        for left in directory.rglob(".*.unfinished"):  # by one that was killed
            left.unlink()
        yield


def csv_text(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows as CSV with a head; a value that is missing, None or NaN leaves its cell empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in columns])
    return text.getvalue()


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; a last line that is still being written is left out."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return list(csv.DictReader(io.StringIO(whole)))


class Log:
    """A CSV file that grows row by row. Rows are numbered by their first column, which never falls."""

    def __init__(self, path: Path, columns: Sequence[str], until: int = 0) -> None:
        """Begin a log, or go on with one after dropping all rows whose number is above `until`."""
        self.path, self.columns = path, list(columns)
        kept = [row for row in read_csv(path) if int(row[self.columns[0]]) <= until]
        write_atomically(path, csv_text(kept, self.columns))

    def append(self, *rows: Mapping[str, Any]) -> None:
        """Add rows. If the disk is full none of them is left behind in part."""
        text = csv_text(rows, self.columns).partition("\n")[2]
        with self.path.open("ab", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            try:
                _write_all(file, text.encode())
            except OSError:
                file.truncate(size)
                raise

    def sync(self) -> None:
        """Wait until all rows are on the disk itself, where a power cut does not reach them."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())


def _write_all(file: Any, data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def _cell(value: Any) -> Any:
    return "" if value is None or value != value else value
