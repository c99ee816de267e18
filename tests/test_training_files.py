"""Files are whole or not there, and a directory has one writer."""

import errno
import multiprocessing

import pytest

from tutelage import files
from tutelage.files import Log, csv_text, read_csv, sole_writer, write_atomically
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


def test_a_log_goes_on_after_the_rows_it_is_told_to_keep(tmp_path):
    path = tmp_path / "log.csv"
    log = Log(path, ["iteration", "x"])
    log.append(*({"iteration": i, "x": i / 3} for i in range(1, 6)))
    before = path.read_text()
    log = Log(path, ["iteration", "x"], until=3)
    log.append(*({"iteration": i, "x": i / 3} for i in range(4, 6)))
    assert path.read_text() == before


def test_a_last_row_that_is_half_written_is_not_read_and_then_dropped(tmp_path):
    path = tmp_path / "log.csv"
    Log(path, ["iteration", "x"]).append({"iteration": 1, "x": 1.5})
    with path.open("a") as file:
        file.write("2,0.2")
    assert read_csv(path) == [{"iteration": "1", "x": "1.5"}]
    Log(path, ["iteration", "x"], until=2)
    assert path.read_text() == "iteration,x\n1,1.5\n"


def test_a_full_disk_leaves_no_half_row(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    log = Log(path, ["iteration", "x"])
    log.append({"iteration": 1, "x": 1.5})
    before = path.read_text()

    def half(file, data):
        file.write(data[: len(data) // 2])
        full_disk()

    monkeypatch.setattr(files, "_write_all", half)
    with pytest.raises(OSError, match="No space left"):
        log.append({"iteration": 2, "x": 2.5})
    assert path.read_text() == before


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
