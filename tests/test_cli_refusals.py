"""Input that cannot be used: one sentence, exit code 2, nothing written. Most lines once ended in a traceback."""

import json
import os
from pathlib import Path

import pytest
from made_up_curricula import complete_run, entry, write_snapshot
from made_up_runs import write_run

from tutelage.cli import main

SEED = "A seed is a number from 0 to 4294967295, not"

CASES = {
    # the class of one's own environment
    "levels --domain :": "A domain of your own is named module:Class, as in my_maze:Setup; got ':'",
    "levels --domain .x:Y": "A domain of your own is named module:Class",
    "levels --domain json:": "A domain of your own is named module:Class",
    "levels --domain json:JSONDecoder": "json:JSONDecoder is not a Setup: it lacks name",
    "levels --domain no.such:Setup": "no.such",
    "levels --domain failing:Setup": "failing:Setup cannot be imported: ZeroDivisionError: division by zero (",
    "levels --domain labyrinth": "The domain 'labyrinth' does not come with tutelage",
    # where to write, before any work is done
    "eval RUN --out .": ". is a directory: give --out a file",
    "eval RUN --out FILE/x.csv": "FILE is not a directory. Give --out another place",
    "eval RUN --out LOCKED/x.csv": "you may not write to LOCKED",
    "play RUN --gif .": ". is a directory: give --gif a file",
    "play RUN --gif FILE/x.gif": "FILE is not a directory",
    "report RUN --out .": ". is a directory: give --out a file",
    "report RUN --out FILE/x.html": "FILE is not a directory",
    "compare RUN --out FILE": "FILE is not a directory",
    "levels --out .": ". is a directory: give --out a file",
    "levels --out mazes.gif": "mazes.gif should end with .png",
    "play RUN --gif video.png": "video.png should end with .gif",
    "eval SEALED": "you may not write to SEALED",
    "report SEALED": "you may not write to SEALED",
    "resume SEALED": "You may not write to SEALED, where this run continues",
    "train dr --preset tiny --out LOCKED/run": "you may not write to LOCKED",
    "play RUN --level nothing.json": "nothing.json cannot be read or written: No such file or directory",
    "train --config nothing.json": "nothing.json cannot be read or written: No such file or directory",
    # seeds, which JAX would alias or refuse
    "eval RUN --seed 100000000000000000000": f"{SEED} 100000000000000000000",
    "eval RUN --seed -1": f"{SEED} -1",
    "play RUN --seed 4294967296": f"{SEED} 4294967296",
    "levels --seed -5": f"{SEED} -5",
    # numbers without a meaning
    "train dr --preset tiny --devices 99": "There are 2 devices here, not 99: leave --devices out",
    "train dr --preset tiny --teacher-filters -3": "teacher_filters must be at least 1, not -3",
    "eval RUN --episodes 0": "at least one episode",
    "play RUN --max-frames 0": "A video has at least one frame, not 0",
    "play RUN --episode -1": "there is none with the number -1",
    "play RUN --episode 99999999999": "there is none with the number 99999999999",
    # names that are not known
    "eval RUN --suite papr": "copies, robustness. Did you mean paper?",
    "eval RUN --suite paper --levels labyrinth2": "Did you mean Labyrinth2?",
    "play RUN --level SixteenRoom": "Did you mean SixteenRooms",
    # directories that hold something else
    "report FILE": "FILE is not a run",
    "eval EMPTY": "EMPTY is not a run and contains none",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("place")
    complete_run(root / "RUN", "plr")
    (root / "FILE").write_text("")
    (root / "EMPTY").mkdir()
    (root / "failing.py").write_text("1 / 0")
    complete_run(root / "SEALED", "plr")
    (root / "SEALED").chmod(0o500)
    (root / "LOCKED").mkdir(mode=0o500)
    return root


@pytest.mark.parametrize("command", CASES)
def test_refusal(command, place, monkeypatch, capsys):
    if os.access(place / "LOCKED", os.W_OK):  # root may write anywhere
        monkeypatch.setattr("os.access", lambda path, mode: Path(path).name not in ("LOCKED", "SEALED"))
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    before = sorted(place.rglob("*"))
    assert CASES[command] in refused(command.split(), capsys)
    assert sorted(place.rglob("*")) == before


def refused(arguments: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    *progress, said = capsys.readouterr().err.splitlines()
    assert all(line.startswith("report: ") for line in progress)  # after ten seconds, on a busy machine
    assert said.startswith("tutelage: ")
    return said


GOOD = {"iteration": 1, "steps": 1, "updates": 1, "source": "buffer", "size": 1, "capacity": 1}

SNAPSHOTS = {
    "a list": [],
    "a number": 3,
    "no entries": GOOD,
    "entries that are none": GOOD | {"entries": [1]},
    "an empty entry": GOOD | {"entries": [{}]},
    "an entry without a level": GOOD | {"entries": [{"name": 1, "parent": -1, "generation": 0, "score": 0.5}]},
    "a text for a number": GOOD | {"iteration": "1", "entries": []},
}


@pytest.mark.parametrize("content", SNAPSHOTS)
def test_snapshots_with_other_content(content, tmp_path, capsys):
    run = write_run(tmp_path / "run", "plr")
    (run.directory / "levels").mkdir()
    (run.directory / "levels" / "00000001.json").write_text(json.dumps(SNAPSHOTS[content]))
    assert "is not a snapshot of a curriculum" in refused(["report", str(run.directory), "--no-videos"], capsys)


def test_a_snapshot_with_a_level_that_is_none(tmp_path, capsys):
    run = write_run(tmp_path / "run", "plr")
    write_snapshot(run, 1, [entry(run, 1, 0.5) | {"level": ["#"]}])
    assert "The maze has no agent" in refused(["report", str(run.directory), "--no-videos"], capsys)


@pytest.mark.parametrize("content", ["policy\nx\n", "\n\n", "policy,steps\n1,2\n"])
def test_evaluations_with_other_content(content, tmp_path, capsys):
    run = write_run(tmp_path / "run", "plr")
    (run.directory / "eval-paper.csv").write_text(content)
    said = refused(["report", str(run.directory), "--no-videos"], capsys)
    assert "eval-paper.csv is damaged, or another version wrote it" in said
