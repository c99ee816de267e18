"""What is damaged is noticed, said in a sentence, and made no worse."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import pytest
from short_runs import CONFIG, content, short_programs

from tutelage import files
from tutelage.analysis.results import Results
from tutelage.cli import main
from tutelage.files import sole_writer
from tutelage.training import checkpoints
from tutelage.training.run import PUBLISHED, Run, snapshots_tally
from tutelage.training.run_writer import STAGED
from tutelage.training.train import Stopped, resume, stop_requests, train
from tutelage.types import InputError


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(CONFIG, tmp_path_factory.mktemp("runs") / "whole", programs=short_programs(), quiet=True).directory


@pytest.fixture
def run(whole, tmp_path):
    """One to do harm to."""
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def go_on(run, **options):
    return resume(run, programs=short_programs(), quiet=True, **options)


# ---------------------------------------------------------------- damage × verb → sentence


def delete(path):
    path.unlink()


def empty(path):
    path.write_bytes(b"")


def halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zero(path):
    path.write_bytes(bytes(path.stat().st_size))


def garbage_row(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"x" * (len(lines[2]) - 1) + b"\n", *lines[3:]]))


def bad_utf8(path):
    data = bytearray(path.read_bytes())
    data[data.index(b"\n") + 4] = 0xFF
    path.write_bytes(data)


def flipped_head(path):
    data = bytearray(path.read_bytes())
    data[2] ^= 1
    path.write_bytes(data)


def flipped_number(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\n1,", b"\n7,", 1).replace(b"\n4,", b"\n7,", 1))


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def said(text):
    def write(path):
        path.write_text(text)

    return write


def said_in(**changes):
    def write(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return write


def rewritten(**changes):
    """A checkpoint with a valid digest that says something else."""

    def write(path):
        found = checkpoints.read(path)
        about = {name: value for name, value in (found.about | changes).items() if value is not None}
        checkpoints.write(path, found.arrays, about)

    return write


def newest_snapshot(run):
    return max((run / "levels").glob("*.json"))


def all_checkpoints(damage, run):
    for name in ("checkpoints", "archive"):
        for path in checkpoints.saved(run / name):
            damage(path)


VERBS = {
    "resume": go_on,
    "load": Run.load,
    "metrics": lambda run: Run.load(run).metrics(),
    "timing": lambda run: Run.load(run).timing(),
    "evaluations": lambda run: Run.load(run).evaluations(),
    "episodes": lambda run: Run.load(run).episodes(),
    "snapshots": lambda run: Run.load(run).snapshots(),
    "compare": lambda run: Results([Run.load(run)]).evaluation_table(),
    "policy": lambda run: Run.load(run).params,
}

READERS = {f"{name}.csv": name for name in ("metrics", "timing", "evaluations", "episodes")}

LOST = "of the .* lines that were saved.* tutelage resume .* --repair-logs"
OTHER = "does not hold what was saved.* tutelage resume .* --repair-logs"
LOGS = [
    (name, damage, verb, sentence if name != "timing.csv" else timing)
    for damage, sentence, timing in [
        (delete, LOST, LOST),
        (empty, LOST, LOST),
        (halve, LOST, LOST),
        (zero, LOST, LOST),
        (pipe, "is not a regular file", "is not a regular file"),
        (garbage_row, OTHER, "is damaged in line 3: it has 1 of 4 cells"),
        (bad_utf8, OTHER, "is damaged: 'utf-8' codec can't decode"),
        (flipped_head, OTHER, "is damaged in line 2: '?its checksum|is damaged in line 2: KeyError"),
    ]
    for name, reader in READERS.items()
    for verb in ("resume", reader)
]
OTHERS = [
    ("evaluations.csv", halve, "compare", LOST),
    ("metrics.csv", flipped_number, "metrics", OTHER),
    ("evaluations.csv", flipped_number, "compare", OTHER),
    ("timing.csv", flipped_number, "timing", "is damaged in line 2: .*its checksum does not match.* --repair-logs"),
    ("timing.csv", flipped_number, "resume", "is damaged in line 2: .*its checksum does not match.* --repair-logs"),
    (newest_snapshot, delete, "resume", "has . of the . snapshots that were saved.* --repair-logs"),
    (newest_snapshot, delete, "snapshots", "has . of the . snapshots that were saved.* --repair-logs"),
    (newest_snapshot, halve, "resume", "does not hold the snapshots that were saved"),
    (newest_snapshot, halve, "snapshots", "does not hold the snapshots that were saved"),
    ("policy.safetensors", halve, "metrics", "policy.safetensors cannot be read as a checkpoint"),
    ("policy.safetensors", halve, "policy", "policy.safetensors cannot be read as a checkpoint"),
    ("policy.safetensors", rewritten(logs={"metrics.csv": 3}), "metrics", "does not say how far its run had come"),
    (None, partial(all_checkpoints, halve), "resume", r"All \d+ checkpoints of .* are damaged"),
    (None, partial(all_checkpoints, delete), "resume", "has no checkpoint to resume from"),
    (None, partial(all_checkpoints, rewritten(progress=[1, 2])), "resume", r"All \d+ checkpoints of .* are damaged"),
    (None, partial(all_checkpoints, rewritten(progress="far")), "resume", r"All \d+ checkpoints of .* are damaged"),
    (None, partial(all_checkpoints, rewritten(logs=None)), "resume", r"All \d+ checkpoints of .* are damaged"),
    (None, partial(all_checkpoints, rewritten(learning=5)), "resume", r"All \d+ checkpoints of .* are damaged"),
    ("config.json", delete, "load", "is not a run: it has no config.json"),
    ("config.json", halve, "load", "config.json is not JSON"),
    ("config.json", zero, "load", "config.json is not JSON"),
    ("config.json", said("[" * 100_000), "load", "config.json is not JSON that can be read: it is nested too deeply"),
    ("config.json", said("[" * 100_000), "resume", "it is nested too deeply"),
    ("config.json", said("[]"), "resume", "A saved configuration is a file with the entry"),
    ("config.json", said_in(packages=["jax"]), "load", 'The entry "packages" of a saved configuration'),
    ("config.json", pipe, "load", "is not a regular file"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("what", "damage", "verb", "sentence"), LOGS + OTHERS)
def test_damage_gets_a_sentence_and_stays_as_it_is(run, what, damage, verb, sentence):
    damage(run if what is None else what(run) if callable(what) else run / what)
    before = {name: data for name, data in content(run).items() if name != "lock"}
    with pytest.raises(InputError, match=f"(?s){sentence}"):
        VERBS[verb](run)
    assert {name: data for name, data in content(run).items() if name != "lock"} == before


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        json.dumps({"iteration": 1, "steps": 2, "updates": 3, "entries": [5]}),
        json.dumps({"iteration": 1, "steps": 2, "updates": 3, "entries": [{"name": 1}]}),
        json.dumps({"iteration": "one", "steps": 2, "updates": 3, "entries": []}),
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_snapshot_is_named(run, text):
    (run / "policy.safetensors").unlink()  # which knows what the snapshots were, as checkpoints do
    shutil.rmtree(run / "checkpoints")
    newest_snapshot(run).write_text(text)
    with pytest.raises(InputError, match=r"\d{8}\.json is (not a snapshot|not JSON that can be read)"):
        Run.load(run).snapshots()


# ---------------------------------------------------------------- doing without what is lost


@pytest.mark.parametrize("damage", [delete, empty, halve, zero, garbage_row, bad_utf8, flipped_head])
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_log_is_copied_and_its_whole_rows_are_kept(run, whole, name, damage):
    damage(run / name)
    damaged = (run / name).read_bytes() if (run / name).exists() else None
    go_on(run, repair_logs=True)
    aside = run / f"{name}.damaged-1"
    assert (aside.read_bytes() if aside.exists() else None) == damaged
    kept, before = ((place / name).read_bytes().splitlines() for place in (run, whole))
    assert kept[0] == before[0]
    assert set(kept) <= set(before)
    if damage in (garbage_row, bad_utf8):
        assert len(kept) == len(before) - 1
    if damage is flipped_head:
        assert kept == before
    for verb in READERS.values():
        VERBS[verb](run)
    go_on(run)  # all is as it was saved


def test_snapshots_that_are_lost_can_be_done_without(run):
    newest = newest_snapshot(run)
    newest.write_text("{")
    next((run / "levels").glob("*.json")).unlink()
    go_on(run, repair_logs=True)
    assert newest not in (run / "levels").glob("*.json")
    assert len(Run.load(run).snapshots()) == len(list((run / "levels").glob("*.json")))
    go_on(run)


def test_a_snapshot_that_was_saved_with_other_content_can_be_done_without(run):
    """As a program of another version may write it: its digest is right."""
    newest_snapshot(run).write_text("{}")
    policy = run / "policy.safetensors"
    for path in (policy, *checkpoints.saved(run / "checkpoints"), *checkpoints.saved(run / "archive")):
        about = checkpoints.read(path).about
        mark = snapshots_tally(run / "levels", about["progress"][0]).mark()
        rewritten(logs=about["logs"] | {"levels": mark})(path)
    for verb in ("snapshots", "resume"):
        with pytest.raises(InputError, match=r"is not a snapshot of a curriculum\..* --repair-logs"):
            VERBS[verb](run)
    go_on(run, repair_logs=True)
    VERBS["snapshots"](run)


def test_levels_that_may_not_be_read_are_not_called_missing(run, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(PermissionError, match="levels"):
        Run.load(run).snapshots()


def test_rows_after_the_last_checkpoint_are_not_missed(run, whole):
    """A power cut may leave zeros where rows were being written; they are written again."""
    checkpoints.saved(run / "checkpoints")[0].unlink()
    for name in READERS:
        with (run / name).open("ab") as file:
            file.write(bytes(100) + b"\n" + bytes(7))
    go_on(run)
    assert content(run) == content(whole)


def test_a_policy_that_is_damaged_is_written_again(run, whole):
    halve(run / "policy.safetensors")
    go_on(run)
    assert content(run) == content(whole)


# ---------------------------------------------------------------- links out of the run


@pytest.mark.parametrize("name", ["levels", "checkpoints", "archive", "tensorboard", "wandb", STAGED])
@pytest.mark.parametrize("verb", ["resume", "overwrite"])
def test_no_directory_of_a_run_is_followed_out_of_it(run, tmp_path, name, verb):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "20261116.json").write_text("long work")
    if (run / name).exists():
        shutil.rmtree(run / name)
    (run / name).symlink_to(mine)
    with pytest.raises(InputError, match=f"{name} is a symbolic link"):
        go_on(run) if verb == "resume" else train(CONFIG, run, overwrite=True, programs=short_programs(), quiet=True)
    assert {path.name: path.read_text() for path in mine.iterdir()} == {"20261116.json": "long work"}


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
@pytest.mark.parametrize("verb", ["resume", "overwrite"])
def test_no_file_of_a_run_is_followed_out_of_it(run, whole, tmp_path, link, verb):
    mine = tmp_path / "mine"
    mine.mkdir()
    for path in [path for path in run.rglob("*") if path.is_file() and path.name != "lock"]:
        target = mine / str(path.relative_to(run)).replace("/", "-")
        os.replace(path, target)
        getattr(path, link)(target)
    unfinished = run / "levels" / f".00000004.json.{os.getpid()}.unfinished"
    getattr(unfinished, link)(mine / "config.json")
    before = {path: path.read_bytes() for path in mine.iterdir()}
    if verb == "resume":
        go_on(run, total_steps=CONFIG.total_steps + 512)
    else:
        train(CONFIG, run, overwrite=True, programs=short_programs(), quiet=True)
    assert {path: path.read_bytes() for path in mine.iterdir()} == before


def test_a_linked_lock_is_not_opened(run, tmp_path):
    mine = tmp_path / "thesis.txt"
    mine.write_text("long work")
    (run / "lock").unlink()
    (run / "lock").symlink_to(mine)
    with pytest.raises(InputError, match="lock is a symbolic link"):
        go_on(run)
    assert mine.read_text() == "long work"
    (run / "lock").unlink()
    (run / "lock").hardlink_to(mine)
    go_on(run)
    assert mine.read_text() == "long work"


@pytest.mark.parametrize("name", ["levels", "checkpoints"])
def test_no_link_is_followed_out_of_a_run_that_is_being_published(run, tmp_path, name):
    published, mine = run / ".tutelage-published", tmp_path / "mine"
    published.mkdir()
    shutil.copy(run / "config.json", published)
    shutil.copytree(run / name, mine)
    suffix = ".json" if name == "levels" else ".safetensors"
    (mine / f"20261116{suffix}").write_text("long work")
    (published / name).symlink_to(mine)
    before = content(mine)
    with pytest.raises(InputError, match="is a symbolic link"):
        go_on(run)
    assert content(mine) == before


def test_logs_are_checked_against_a_checkpoint_if_the_policy_is_gone(run):
    (run / "policy.safetensors").unlink()
    Run.load(run).evaluations()
    halve(run / "evaluations.csv")
    with pytest.raises(InputError, match=r"of the .* lines that were saved"):
        Run.load(run).evaluations()


def test_the_run_itself_may_be_reached_by_a_link(run, whole, tmp_path):
    (tmp_path / "link").symlink_to(run)
    checkpoints.saved(run / "checkpoints")[0].unlink()
    go_on(tmp_path / "link")
    assert content(run) == content(whole)


def test_files_whose_names_look_nearly_like_ours_are_left_alone(run):
    for name in ("2026-notes.json", "99999999.json.txt", "9.json"):
        (run / "levels" / name).write_text("mine")
    (run / "checkpoints" / "99999999.safetensors").mkdir()
    go_on(run)
    assert {path.name for path in (run / "levels").iterdir()} >= {"2026-notes.json", "99999999.json.txt", "9.json"}


# ---------------------------------------------------------------- one writer


def test_deleting_the_lock_lets_nobody_in(run):
    with sole_writer(run):
        (run / "lock").unlink()
        with pytest.raises(InputError, match="in use by another process"):
            go_on(run)


def interrupted(monkeypatch, iteration, act):
    """Do something in the middle of an iteration, counted from 0."""
    dispatch, count = short_programs().curriculum.dispatch, iter(range(1000))

    def iterated(state, key, replay):
        if next(count) == iteration:
            act()
        return dispatch(state, key, replay)

    monkeypatch.setattr(short_programs().curriculum, "dispatch", iterated)


def test_a_run_that_is_moved_away_does_not_write_into_its_successor(tmp_path, monkeypatch):
    def move():
        os.rename(tmp_path / "run", tmp_path / "moved")
        (tmp_path / "run").mkdir()

    interrupted(monkeypatch, 3, move)
    with pytest.raises(InputError, match="was moved or deleted while it was written"):
        train(CONFIG, tmp_path / "run", programs=short_programs(), quiet=True)
    assert not list((tmp_path / "run").iterdir())
    monkeypatch.undo()
    go_on(tmp_path / "moved")


@pytest.mark.parametrize("damage", [delete, empty])
def test_a_log_that_another_process_changes_is_noticed_at_the_next_checkpoint(tmp_path, monkeypatch, damage):
    interrupted(monkeypatch, 3, lambda: damage(tmp_path / "run" / "metrics.csv"))
    with pytest.raises(InputError, match=r"Another process has changed or deleted .*metrics\.csv"):
        train(CONFIG, tmp_path / "run", programs=short_programs(), quiet=True)


# ---------------------------------------------------------------- overwriting


def test_an_old_run_stays_until_the_new_one_has_done_an_iteration(run, monkeypatch):
    def fail():
        assert content(run).items() >= before.items()
        raise MemoryError

    before = content(run)
    interrupted(monkeypatch, 0, fail)
    with pytest.raises(MemoryError):
        train(CONFIG, run, overwrite=True, programs=short_programs(), quiet=True)
    assert content(run) == before


def test_an_old_run_stays_if_there_is_no_space_for_the_new_one(run, monkeypatch):
    before, write = content(run), os.write

    def full(descriptor, data):
        if len(data) > 10_000:  # a checkpoint, and not a line of a test's output
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(OSError, match=r"No space left on device: .*safetensors"):
        train(CONFIG, run, overwrite=True, programs=short_programs(), quiet=True)
    monkeypatch.undo()
    assert content(run) == before


@pytest.mark.parametrize(
    "options",
    [
        ("--seed", "99999999999999999999"),
        ("--seed", "-1"),
        ("--seed", str(2**32 - 1), "--seeds", "2"),
        ("--head", "-1"),
        ("--hidden", "0"),
        ("--size", "100000"),
        ("--total-steps", "0"),
    ],
)
def test_nothing_is_touched_if_the_new_run_cannot_begin(run, options):
    if "--seeds" in options:
        run = run.rename(run.parent / "seed-4294967295").parent
    before = content(run)
    try:
        main(["train", "dr", "--preset", "tiny", "--suite", "", *options, "--overwrite", "--out", str(run)])
    except (Exception, SystemExit):
        assert content(run) == before
    else:
        pytest.fail("This should not have worked.")


def test_a_kill_between_the_last_two_moves_of_publishing_deletes_nothing_of_the_new_run(run, whole):
    (run / PUBLISHED).mkdir()
    go_on(run)
    assert content(run) == content(whole)


@pytest.mark.parametrize("left", [".config.json.77.unfinished", "lock", STAGED, PUBLISHED])
def test_what_a_kill_in_the_first_moment_leaves_is_no_obstacle(whole, tmp_path, left):
    run = tmp_path / "run"
    run.mkdir()
    (run / left).mkdir() if left in (STAGED, PUBLISHED) else (run / left).write_text("{")
    with pytest.raises(InputError, match="is not a run"):
        go_on(run)
    train(CONFIG, run, programs=short_programs(), quiet=True)
    assert content(run).keys() == content(whole).keys()


# ---------------------------------------------------------------- stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_says_how_to_exit(tmp_path, monkeypatch, number):
    interrupted(monkeypatch, 1, lambda: os.kill(os.getpid(), number))
    # the tests themselves may run where it is ignored: under nohup, or in a shell's background
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(Stopped) as stopped:
            train(CONFIG, tmp_path / "run", programs=short_programs(), quiet=True)
    finally:
        signal.signal(number, before)
    assert stopped.value.exit_code == 128 + number
    assert checkpoints.saved(tmp_path / "run" / "checkpoints")[0].stem == "00000002"


def test_a_signal_that_comes_just_after_the_checkpoint_is_not_obeyed_without_another(tmp_path):
    class Late(list):
        def __bool__(self):
            self.asked = getattr(self, "asked", 0) + 1
            return self.asked > 1

    config = replace(CONFIG, storage=replace(CONFIG.storage, checkpoint_every=100, archive_every=0))
    with pytest.raises(Stopped):
        train(config, tmp_path / "run", programs=short_programs(), quiet=True, requests=Late([signal.SIGTERM]))
    newest = int(checkpoints.saved(tmp_path / "run" / "checkpoints")[0].stem)
    assert newest == len(Run.load(tmp_path / "run").metrics()["iteration"]) == 2


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requests() as requests:
            os.kill(os.getpid(), signal.SIGHUP)
        assert not requests
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_is_saved_when_stopped_is_kept_though_newer_checkpoints_were_damaged(run, monkeypatch):
    *newer, archived = [path for name in ("checkpoints", "archive") for path in checkpoints.saved(run / name)]
    for path in newer:
        halve(path)
    assert int(archived.stem) + 2 < int(newer[0].stem)
    interrupted(monkeypatch, 0, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Stopped):
        go_on(run)
    newest = checkpoints.saved(run / "checkpoints")[0]
    assert int(newest.stem) == int(archived.stem) + 1
    checkpoints.read(newest)


def test_one_checkpoint_too_many_is_deleted(run, whole):
    oldest = checkpoints.saved(run / "checkpoints")[-1]
    shutil.copy(oldest, oldest.with_name("00000001.safetensors"))
    go_on(run)
    assert content(run) == content(whole)


@pytest.mark.slow
def test_a_signal_in_a_seeds_last_iteration_stops_all_seeds(tmp_path):
    program = (
        "import os, signal\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core: one seed after the other\n"
        "from tutelage.curriculum.curriculum import Curriculum\n"
        "dispatch = Curriculum.dispatch\n"
        "def last(self, *args):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return dispatch(self, *args)\n"
        "Curriculum.dispatch = last\n"
        "from tutelage.cli import main\n"
        "main(['train', 'dr', '--preset', 'tiny', '--total-steps', '256', '--suite', '', '--snapshot-levels', '4',"
        f" '--seeds', '2', '--out', {str(tmp_path / 'runs')!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 143, done.stderr
    assert "seed 0: done" in done.stdout
    assert f"tutelage resume {tmp_path / 'runs'}" in done.stdout
    assert not (tmp_path / "runs" / "seed-1").exists()


# ---------------------------------------------------------------- disks and numbers


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    interrupted(monkeypatch, 1, lambda: monkeypatch.setattr(files.os, "write", full))
    with pytest.raises(OSError, match=r"No space left on device: '.*run/metrics\.csv'"):
        train(CONFIG, tmp_path / "run", programs=short_programs(), quiet=True)
    monkeypatch.undo()
    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/new\.txt'"):
        files.write_atomically(tmp_path / "new.txt", "words")


def test_a_checkpoint_that_may_not_be_read_is_not_called_damaged(run, monkeypatch, capsys):
    """And is not passed over: what follows would delete it."""
    newest, before = checkpoints.saved(run / "checkpoints")[0], content(run)
    really = type(newest).open

    def open_unless_forbidden(path, *arguments, **options):
        if path == newest:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return really(path, *arguments, **options)

    monkeypatch.setattr(type(newest), "open", open_unless_forbidden)
    with pytest.raises(PermissionError, match=r"Permission denied: .*\.safetensors"):
        go_on(run)
    assert "damaged" not in capsys.readouterr().err
    monkeypatch.undo()
    assert content(run) == before


@pytest.mark.parametrize("option", ["total_steps", "total_updates"])
def test_no_steps_at_all_are_not_taken_for_the_default(run, option):
    with pytest.raises(InputError, match=f"{option} must be at least 1, not 0"):
        go_on(run, **{option: 0})


@pytest.mark.parametrize("seed", [-1, 2**32, 2**63, 99999999999999999999])
def test_seeds_that_would_repeat_others_are_refused(tmp_path, seed):
    with pytest.raises(InputError, match=f"A seed is a number from 0 .*, not {seed}"):
        train(replace(CONFIG, seed=seed), tmp_path / "run", programs=short_programs(), quiet=True)
    assert not (tmp_path / "run").exists()


def test_seeds_that_are_allowed_differ():
    assert jax.random.key(0) == jax.random.key(2**32)
    assert jax.random.key(0) != jax.random.key(2**32 - 1)
