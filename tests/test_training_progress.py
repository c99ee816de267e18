"""The progress bar: 80 columns, new and replayed levels apart, and plain lines where there is no terminal."""

import io
import re

import pytest
from rich.console import Console

from tutelage.training import progress
from tutelage.training.progress import ProgressBar, duration, latest, shortened


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def on_a_terminal(bar: ProgressBar, width: int = 80) -> str:
    bar._console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system="standard")
    with bar._console.capture() as captured:
        bar._console.print(bar._drawn())
    return re.sub(r"\x1b\[[0-9;]*m", "", captured.get())


def test_a_bar_fits_80_columns(clock):
    bar = ProgressBar("plr-perp, seed 12", 250_000_000)
    clock[0] = 10
    bar.update(1_234_567, {"replay": 0.0, "new/solved": 0.25, "new/return": 0.21})
    bar.update(65_433, {"replay": 1.0, "replayed/solved": 0.5, "replayed/return": 0.4, "replayed/score": 0.1})
    first, second, *_ = on_a_terminal(bar).splitlines()
    assert max(len(first), len(second)) <= 80
    assert "━" * 8 in first
    assert "1.30M/250M steps, 130k/s, 31 min 53 s left" in first
    assert second.strip() == "new: solved 0.25, return 0.21 · replayed: solved 0.50, return 0.40, score 0.10"


def test_facts_of_one_kind_do_not_touch_the_other(clock):
    assert latest({"replay": 1.0, "replayed/solved": 0.5, "new/solved": 0.9}) == {"replayed": "solved 0.50"}
    assert latest({"replay": 0.0, "new/return": 3.0}) == {"new": "return 3.00"}
    assert latest({"replay": 0.0}) == {}


def test_elsewhere_a_plain_line_now_and_then(clock, capsys):
    with ProgressBar("dr, seed 0", 1000) as bar:
        for second in range(0, 200, 5):
            clock[0] = second
            bar.update(10 if second else 0, {"replay": 0.0, "new/solved": 0.1})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4  # after 10, 70, 130 and 190 seconds
    assert lines[1] == "dr, seed 0: 140 of 1,000 steps (14%), 2 steps/s, 7 min 10 s left; new: solved 0.10"
    assert "\x1b" not in "".join(lines)


def test_a_stage_is_shown_until_the_next_update(clock, capsys):
    bar = ProgressBar("dr", 1000)
    bar.stage("compiling …")
    assert capsys.readouterr().err == "dr: compiling …\n"
    assert "0/1.00k steps, compiling …" in on_a_terminal(bar)
    clock[0] = 10
    bar.update(10)
    assert "compiling" not in on_a_terminal(bar)


def test_sentences_are_printed_unless_quiet(capsys):
    with ProgressBar("dr", 10) as bar:
        bar.write("on the suite [bold]paper[/], mean solved 0.100")
    assert capsys.readouterr().err == "on the suite [bold]paper[/], mean solved 0.100\n"
    with ProgressBar("dr", 10, quiet=True) as bar:
        bar.write("nothing")
        bar.update(5)
    assert capsys.readouterr().err == ""


def test_a_resumed_run_does_not_count_what_was_done_before(clock):
    bar = ProgressBar("dr", 1000, done=900)
    clock[0] = 10
    bar.update(10)
    assert "1 steps/s, 1 min 30 s left" in bar.line()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (45.4, "45 s"), (144, "2 min 24 s"), (3600, "1 h"), (11130, "3 h 5 min"), (187201, "2 d 4 h")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("x", "text"),
    [(0, "0"), (0.5, "0.5"), (950, "950"), (1000, "1.00k"), (35_100, "35.1k"), (999_999, "1.00M"), (250e6, "250M")],
)
def test_short_numbers(x, text):
    assert shortened(x) == text
