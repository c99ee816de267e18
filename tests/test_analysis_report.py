"""The report: what it says of one run, of many, of methods without a curator and of domains without an oracle."""

import base64
import io
import math
import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from made_up_curricula import HOSTILE, complete_run, entry, hostile_run, write_curriculum, write_snapshot
from made_up_runs import LEVELS, made_up_config, write_run
from PIL import Image

from tutelage.analysis.policy_results import BASELINES, COLUMNS, PolicyResult
from tutelage.analysis.report import report
from tutelage.analysis.report.levels import chosen_tests, gif, lineages
from tutelage.analysis.report.sections import explained, overview
from tutelage.analysis.results import Results
from tutelage.analysis.statistics import Correlation, wilson
from tutelage.analysis.tables import number
from tutelage.cli import main
from tutelage.files import csv_text, read_csv
from tutelage.training.config import Config
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.run import EVALUATIONS, METRICS, Run, find_runs
from tutelage.types import Domain, InputError, TestLevel

VOID = {"meta", "img", "source", "br", "link"}


class Page(HTMLParser):
    """A page taken apart."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.content = path.read_text()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(self.content)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open[-1:] != ["style"]:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    @property
    def sections(self) -> list[str | None]:
        return [attributes["id"] for tag, attributes in self.tags if tag == "section"]

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def values(self, *names: str) -> list[str]:
        return [value for _, attributes in self.tags for name, value in attributes.items() if name in names and value]

    def plots(self) -> list[str | None]:
        return [*dict.fromkeys(attributes["aria-label"] for attributes in self.all("svg"))]


@pytest.fixture(scope="module")
def single(tmp_path_factory) -> tuple[Path, Page]:
    """ACCEL with all there can be."""
    directory = tmp_path_factory.mktemp("single")
    run = complete_run(directory / "run", "accel")
    main(["report", str(directory / "run")])
    return run.directory, Page(run.directory / "report.html")


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Page:
    """DR and PLR⊥ with two seeds each, but no videos."""
    directory = tmp_path_factory.mktemp("many")
    for method, skill in (("dr", 0.3), ("plr-perp", 0.9)):
        for seed in range(2):
            run = write_run(directory / method / f"seed-{seed}", method, seed, skill=skill)
            if method == "dr":
                write_snapshot(run, 20, [entry(run, i, None) for i in range(3)], "generator")
            else:
                write_curriculum(run)
    main(["report", str(directory), "--out", str(directory / "page.html"), "--no-videos"])
    return Page(directory / "page.html")


@pytest.mark.slow
def test_one_run(single):
    _, page = single
    assert page.sections == [
        "overview",
        "tests",
        "training",
        "complexity",
        "levels",
        "curriculum",
        "ancestry",
        "episodes",
        "calibration",
        "configuration",
    ]
    assert page.all("a") == [{"href": f"#{name}"} for name in page.sections]
    assert "ACCEL in maze" in page.words
    for level in LEVELS:
        assert level in page.words
    [complexity] = [label for label in page.plots() if label.startswith("Of new levels")]
    assert complexity.startswith(
        "Of new levels: action complexity (LZW codes), new; blocks, new; shortest path of solved levels, new"
    )


@pytest.mark.slow
def test_many_runs(many):
    assert many.sections == [
        "overview",
        "tests",
        "training",
        "levels",
        "curriculum",
        "ancestry",
        "calibration",
        "configuration",
    ]
    assert "DR, PLR⊥ in maze" in many.words
    assert "4 runs" in many.words
    assert "PLR⊥, seed 0, one of 2 runs" in many.words
    assert many.words.count("PLR⊥ − DR") == 2  # after equal steps, and after equal updates
    assert "new proposals" in many.words
    assert any("beats another" in label for label in many.plots())


@pytest.mark.parametrize("which", ["single", "many"])
def test_needs_nothing_from_elsewhere(which, request):
    page = request.getfixturevalue(which)
    page = page[1] if which == "single" else page
    assert not page.all("script")
    assert not page.all("link")
    addresses = page.values("src", "srcset", "href", "xlink:href", "poster")
    assert all(address.startswith(("data:", "#")) for address in addresses)
    [style] = re.findall(r"<style>(.*?)</style>", page.content, re.DOTALL)[:1]
    assert "@import" not in style
    assert "url(" not in style
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page.content))
    assert "default-src 'none'" in str(page.all("meta"))


@pytest.mark.parametrize("which", ["single", "many"])
def test_is_well_made(which, request):
    page = request.getfixturevalue(which)
    page = page[1] if which == "single" else page
    names = page.values("id")
    assert len(names) == len(set(names))
    targets = [value[1:] for value in page.values("href", "xlink:href") if value.startswith("#")]
    assert {*targets, *re.findall(r"url\(#([^)]*)\)", page.content)} <= {*names}
    assert page.all("img")
    for image in page.all("img"):
        assert image["alt"]
        with Image.open(io.BytesIO(base64.b64decode(image["src"].partition(",")[2]))) as picture:
            assert picture.width > 10
    assert all(label for label in page.plots())


def test_all_pictures_have_their_words(single):
    _, page = single
    assert "score 0.90" in page.words
    assert "return 0.25 / 0.90" in page.words
    assert "generation 2" in page.words
    assert "Iteration 10" in page.words


def test_videos(single):
    _, page = single
    videos = [image for image in page.all("img") if image["src"].startswith("data:image/gif")]
    assert videos
    for video in videos:
        with Image.open(io.BytesIO(base64.b64decode(video["src"].partition(",")[2]))) as frames:
            assert frames.n_frames > 1
    assert len(page.all("source")) == len(videos)  # a still for those who prefer less motion


def test_a_video_keeps_to_its_size():
    noise = np.random.default_rng(0).integers(0, 256, (64, 40, 40, 3), np.uint8)
    whole, short = (frames_of(gif(noise, 50, size)) for size in (10**9, 50_000))
    assert len(whole) == 64
    assert 4 < len(short) < 40
    assert sum(short) == pytest.approx(sum(whole), rel=0.1)  # it plays as long
    assert len(gif(noise, 50, 50_000)) <= 50_000


def frames_of(uri: str) -> list[int]:
    """How long each frame of a video is shown."""
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as video:
        return [video.seek(i) or video.info["duration"] for i in range(video.n_frames)]


def add_evaluation(run, *, steps: int, levels=LEVELS, baselines=BASELINES) -> None:
    """What `tutelage eval` with baselines would write: the run solves 7 of 20, untrained and random none."""
    rates = {str(run.directory): 0.35, "untrained": 0.0, "random": 0.0, "optimal": 1.0}
    rows = [
        PolicyResult(
            name,
            steps if rate == 0.35 else None,
            "maze",
            level,
            20,
            False,
            rate,
            *wilson(rate, 20)[1:],
            rate,
            0,
            9,
            None,
            None,
            None,
            None,
        )
        for name, rate in rates.items()
        if name not in BASELINES or name in baselines
        for level in levels
    ]
    text = csv_text([row.row() for row in rows], [*COLUMNS.values()])
    (run.directory / "eval-maze.csv").write_text(text)


@pytest.mark.slow
def test_an_evaluation_is_shown_with_its_baselines(tmp_path):
    """Once, the page ignored what `tutelage eval` had found."""
    run, other = write_run(tmp_path / "run", "plr"), write_run(tmp_path / "other", "dr")
    add_evaluation(run, steps=20_000)
    add_evaluation(other, steps=5_000, baselines=())
    page = Page(report([run, other], tmp_path / "page.html"))
    assert "By tutelage eval, suite maze: 20 episodes on each level, sampled actions" in page.words
    # DR was evaluated before its training went on
    assert "solved DR, seed 0 after 5,000 steps PLR, seed 0 untrained random optimal SixteenRooms" in page.words
    cells = "0.35 [0.18, 0.57] 0.35 [0.18, 0.57] 0.00 [0.00, 0.16] 0.00 [0.00, 0.16] 1.00 [0.84, 1.00]"
    assert f"SixteenRooms {cells}" in page.words
    assert "solved, suite maze, 20 episodes a level, by eval" in page.words  # also at a glance
    assert "mean of 3 0.35 [0.24, 0.48]" in page.words


def test_each_suite_has_a_mean_of_its_own(tmp_path):
    """Once, the mean of a run evaluated on several was that of them all, under the name of the first."""
    run = write_run(tmp_path / "run", "plr")
    path = run.directory / EVALUATIONS
    both = [
        row | {"suite": suite, "solved": rate} for row in read_csv(path) for suite, rate in (("paper", 0), ("f", 1))
    ]
    path.write_text(csv_text(both, [*both[0]]))
    [row] = overview(Results([run])).blocks[0].records()
    means = {suite: row[f"solved, suite {suite}, 10 episodes a level, in training"] for suite in ("paper", "f")}
    assert means == {"paper": "0.00 [0.00, 0.11]", "f": "1.00 [0.89, 1.00]"}


@pytest.mark.slow
def test_evaluations_of_other_levels_have_a_table_of_their_own(tmp_path):
    run, other = write_run(tmp_path / "run", "plr"), write_run(tmp_path / "other", "dr")
    add_evaluation(run, steps=20_000)
    add_evaluation(other, steps=20_000, levels=LEVELS[:1])
    page = Page(report([run, other], tmp_path / "page.html"))
    assert page.words.count("By tutelage eval, suite maze") == 2


@pytest.mark.slow
def test_every_file_is_read_once(tmp_path, monkeypatch):
    """A report of four runs once read metrics.csv twenty times."""
    runs = [write_run(tmp_path / f"{m}{seed}", m, seed) for m in ("dr", "plr") for seed in range(2)]
    for run in runs:
        write_curriculum(run)
    read = []
    for name in ("metrics", "evaluations", "snapshots"):
        original = getattr(Run, name)
        monkeypatch.setattr(
            Run, name, lambda run, name=name, original=original: [read.append((name, run.directory)), original(run)][1]
        )
    report(runs, tmp_path / "page.html")
    assert len(read) == len({*read})
    assert {*read} >= {(name, run.directory) for run in runs for name in ("metrics", "evaluations")}


def test_videos_are_a_fair_choice_and_say_what_is_left_out():
    """Once, the first levels were shown, and solved ones were left out while eight unsolved ones were not."""
    tests = [TestLevel(f"L{i:02}", None, None) for i in range(16)]
    solved = {"L03": 0.4, "L14": 1.0, "L15": 0.9}
    rates = {test.name: solved.get(test.name, 0.0) for test in tests}
    shown, note = chosen_tests(tests, rates, 11)
    assert len(shown) == 11
    assert {*solved} <= {test.name for test in shown}
    assert shown == sorted(shown, key=lambda test: test.name)
    assert note.startswith("Shown are 11 of 16 test levels, the 6 with the best results and the 5 with the worst.")
    left_out = note.partition("Left out: ")[2].rstrip(".").split(", ")
    assert {*left_out} == {test.name for test in tests} - {test.name for test in shown}
    assert chosen_tests(tests, rates, 16) == (tests, "")
    assert len(chosen_tests(tests, {}, 1)[0]) == 1


@pytest.mark.parametrize(
    ("correlation", "levels", "words"),
    [
        (
            (-0.04, 0.75),
            64,
            "-0.04 over 64 levels: chance alone gives one as far from 0 in 75% of cases, so there is no",
        ),
        ((0.7, 0.001), 64, "agrees strongly"),
        ((-0.5, 0.001), 64, "tend to have a low true regret"),
        ((1.0, 0.0), 3, "too few"),
        ((math.nan, math.nan), 5, "there is no rank correlation"),
    ],
)
def test_a_rank_correlation_is_explained(correlation, levels, words):
    assert words in explained(Correlation(*correlation), levels)


@pytest.mark.slow
def test_options_that_were_left_to_the_method_have_the_values_used(tmp_path):
    """Once, a run of one's own environment showed "score –, replay_rate –"."""
    config = endless_config("plr")
    page = Page(report([write_run(tmp_path / "run", "plr", config=config)], tmp_path / "page.html"))
    assert "score max-mc" in page.words
    assert "replay rate 0.5" in page.words
    own = f"--allow {Endless.__module__}"
    assert f"Train again with: tutelage train --config {tmp_path / 'run' / 'config.json'} {own}" in page.words


@pytest.mark.slow
def test_durations_are_for_people(tmp_path):
    run = write_run(tmp_path / "run", "dr")
    (run.directory / "timing.csv").write_text("iteration,seconds,steps_per_second\n1,144,7\n")
    assert "2 min 24 s" in Page(report([run], tmp_path / "page.html")).words


@pytest.mark.slow
def test_a_domain_that_does_not_draw_its_levels(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", "plr")
    write_curriculum(run)
    monkeypatch.setattr(type(run.domain.design), "image", None)
    page = Page(report([run], tmp_path / "page.html"))
    assert "levels" not in page.sections
    assert "calibration" in page.sections


@pytest.mark.slow
def test_is_the_same_each_time(many, tmp_path):
    run = write_run(tmp_path / "run", "plr")
    first = report([run], tmp_path / "a.html").read_bytes()
    assert report([run], tmp_path / "b.html").read_bytes() == first


def test_leaves_out_what_is_not_there(tmp_path):
    """A run that has just begun."""
    run = write_run(tmp_path / "run", "dr")
    for name in (METRICS, EVALUATIONS):
        (run.directory / name).unlink()
    page = Page(report([run], tmp_path / "page.html"))
    assert page.sections == ["overview", "configuration"]


def test_runs_that_cannot_be_compared(tmp_path):
    runs = [write_run(tmp_path / "a", "dr", levels=LEVELS), write_run(tmp_path / "b", "plr", levels=LEVELS[:2])]
    page = Page(report(runs, tmp_path / "page.html"))
    assert "There is no comparison on the suite paper." in page.words
    assert "training" in page.sections


@dataclass(frozen=True)
class Endless(MazeSetup):
    """A domain in which nothing is solved, and whose optimal return is not known."""

    name: ClassVar[str] = "endless"

    def domain(self) -> Domain:
        return replace(super().domain(), solved_above=None, optimal_return=None)


def endless_config(method: str) -> Config[Endless]:
    config = made_up_config(method, 0)
    return replace(config, setup=Endless(**vars(config.setup)))


@pytest.mark.slow
def test_a_domain_where_nothing_is_solved(tmp_path):
    run = write_run(tmp_path / "run", "plr", solvable=False, config=endless_config("plr"))
    write_snapshot(run, 10, [entry(run, 1, 0.5, oracle=False)])
    write_snapshot(run, 20, [entry(run, 1, 0.4, oracle=False), entry(run, 2, 0.3, oracle=False)])
    page = Page(report([run], tmp_path / "page.html"))
    assert page.sections == ["overview", "tests", "training", "levels", "curriculum", "configuration"]
    assert "return, suite paper, 10 episodes a level, in training" in page.words
    assert "return 0.05" in page.words
    assert "solved rate" not in page.words


@pytest.mark.slow
def test_hostile_strings_stay_strings(tmp_path):
    page = Page(report([hostile_run(tmp_path / "run")], tmp_path / "page.html"))
    assert not page.all("script")
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert all(image["src"].startswith("data:") for image in page.all("img"))
    assert page.words.count(HOSTILE) >= 4


@pytest.mark.slow
def test_a_failure_leaves_the_old_page(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", "dr")
    out = tmp_path / "page.html"
    out.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left"):
        report([run], out, with_videos=False)
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["page.html"]


def test_refusals(tmp_path, capsys):
    run = write_run(tmp_path / "run", "dr")
    with pytest.raises(InputError, match="is a directory: name a file"):
        report([run], tmp_path)
    with pytest.raises(InputError, match="give at least one"):
        report([], tmp_path / "page.html")
    other = write_run(tmp_path / "other", "plr", config=endless_config("plr"))
    with pytest.raises(InputError, match="were trained on maze and endless: make a report for each"):
        report([run, other], tmp_path / "page.html")
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path / "nowhere")])
    assert "nowhere is not a run" in capsys.readouterr().err


def test_runs_are_found_in_directories(tmp_path):
    for place in ("a/seed-0", "a/seed-1", "b"):
        write_run(tmp_path / place, "dr")
    assert [run.directory for run in find_runs([tmp_path])] == [
        tmp_path / place for place in ("a/seed-0", "a/seed-1", "b")
    ]
    assert [run.directory.name for run in find_runs([tmp_path / "b", tmp_path / "a" / "seed-1"])] == ["b", "seed-1"]


def named(name: int, parent: int = -1) -> dict:
    return {"id": name, "parent": parent}


def names(chains: list[list[dict]]) -> list[list[int]]:
    return [[each["id"] for each in chain] for chain in chains]


def test_lineages_lead_through_all_snapshots():
    before = {"entries": [named(1), named(2, 1)]}
    after = {"entries": [named(4, 3), named(3, 2), named(9)]}
    assert names(lineages([before, after], 5, 5)) == [[1, 2, 3, 4]]
    assert names(lineages([after], 5, 5)) == [[3, 4]]
    assert lineages([before, after], 5, 0) == []
    assert lineages([], 5, 5) == []


def test_lineages_show_every_family_before_another_branch_of_one():
    entries = [named(5, 1), named(6, 1), named(7, 8), named(8, 1), named(12, 11), named(1), named(11)]
    assert names(lineages([{"entries": entries}], 5, 7)) == [[1, 5], [11, 12], [1, 8, 7]]
    assert names(lineages([{"entries": entries}], 1, 7)) == [[1, 5]]


def test_a_ring_of_parents_ends():
    entries = [named(1, 2), named(2, 1), named(3, 3)]
    assert names(lineages([{"entries": entries}], 5, 3)) == [[2, 1]]


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (True, "yes"),
        (12345, "12,345"),
        (0.125, "0.12"),
        (123.456, "123"),
        (-1234.5, "-1,234"),
        ("a", "a"),
    ],
)
def test_numbers_for_people(x, text):
    assert number(x) == text


def test_evaluations_are_only_read(many, single):
    directory, _ = single
    assert len(read_csv(directory / EVALUATIONS)) == 4 * len(LEVELS)
