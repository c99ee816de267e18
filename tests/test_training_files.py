"""Files are whole or not there, and a directory has one writer."""

import errno
import multiprocessing
import os
from contextlib import closing

import pytest

from tutelage import files
from tutelage.files import DamagedError, Log, csv_text, marked, read_csv, sole_writer, write_atomically
from tutelage.types import InputError


def test_a_file_is_replaced_at_once_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "new" / "a.txt"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_text() == "two"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_old_file_and_no_half_of_the_new(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_atomically(path, "old")
    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_missing_and_undefined_values_are_empty_cells(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(csv_text([{"i": 1, "x": 0.5}, {"i": 2, "x": float("nan")}, {"i": 3, "x": None}, {"i": 4}], "ix"))
    assert [row["x"] for row in read_csv(path)] == ["0.5", "", "", ""]


ROWS = [{"iteration": i, "x": i / 3} for i in range(1, 6)]


def test_a_log_goes_on_after_what_is_kept_of_it(tmp_path):
    path = tmp_path / "log.csv"
    with closing(Log(path, ["iteration", "x"])) as log:
        log.append(*ROWS[:3])
        mark = log.sync()
        log.append(*ROWS[3:])
        last = log.sync()
    before = path.read_bytes()
    with closing(Log(path, ["iteration", "x"], marked(path, before + b"6,0.", mark))) as log:
        assert log.sync() == mark
        log.append(*ROWS[3:])
        assert log.sync() == last
    assert path.read_bytes() == before


def test_a_log_that_lacks_a_column_gets_it_and_loses_none(tmp_path):
    path = tmp_path / "log.csv"
    with closing(Log(path, ["iteration", "new", "x"], b"iteration,x,old\n1,0.5,7\n")) as log:
        log.append({"iteration": 2, "x": 1.5, "new": 3})
    assert path.read_text() == "iteration,x,old,new\n1,0.5,7,\n2,1.5,,3\n"


def test_a_last_row_that_is_half_written_is_not_read(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("iteration,x\n1,1.5\n2,0.2")
    assert read_csv(path) == [{"iteration": "1", "x": "1.5"}]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "has 0 of the 6 lines"),
        (b"iteration,x\n1,2\n", "has 2 of the 6 lines"),
        (bytes(500), "has 0 of the 6 lines"),
        (b"iteration,x\n" + b"1,2\n" * 5, "its digest does not match"),
    ],
)
def test_what_a_log_has_lost_is_noticed(tmp_path, data, sentence):
    with closing(Log(tmp_path / "log.csv", ["iteration", "x"])) as log:
        log.append(*ROWS)
        mark = log.sync()
    with pytest.raises(DamagedError, match=sentence):
        marked(tmp_path / "log.csv", data, mark)


def test_a_full_disk_leaves_no_half_row(tmp_path, monkeypatch):
    path, write = tmp_path / "log.csv", os.write
    with closing(Log(path, ["iteration", "x"])) as log:
        log.append(*ROWS)
        before = path.read_text()

        def half(descriptor, data):
            if len(data) < 4:
                full_disk()
            return write(descriptor, data[: len(data) // 2])

        monkeypatch.setattr(files.os, "write", half)
        with pytest.raises(OSError, match=r"No space left on device: .*log\.csv"):
            log.append({"iteration": 2, "x": 2.5})
        monkeypatch.undo()
        assert path.read_text() == before
        log.append({"iteration": 6, "x": 2.5})
        log.sync()
    assert path.read_text() == before + "6,2.5\n"


def hold(directory, ready, done):
    with sole_writer(directory):
        ready.set()
        done.wait()


def test_a_second_writer_is_refused_until_the_first_has_ended_however_it_ends(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    first = context.Process(target=hold, args=(tmp_path, ready, done))
    first.start()
    assert ready.wait(60)
    with pytest.raises(InputError, match="in use by another process"), sole_writer(tmp_path):
        pass
    first.kill()
    first.join()
    (tmp_path / "levels").mkdir()
    (tmp_path / "levels" / ".1.json.77.unfinished").write_text("{")  # by the one who was killed
    with sole_writer(tmp_path):
        assert not list(tmp_path.rglob(".*"))
