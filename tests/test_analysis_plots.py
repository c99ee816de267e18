"""Figures: what they show, one color for each method, the same bytes each time."""

import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from made_up_runs import LEVELS, made_up_config, write_run
from matplotlib import colors
from matplotlib.figure import Figure
from PIL import Image

from tutelage.analysis import plots, style
from tutelage.analysis.compare import ALL, Comparison
from tutelage.analysis.compare import compare as compare_study
from tutelage.analysis.results import NAMES, EvaluationTable, Results, display
from tutelage.curriculum.methods import METHODS
from tutelage.files import csv_text
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.run import METRICS, Run
from tutelage.training.train import Programs
from tutelage.types import InputError

ENTRIES = [
    {"score": 0.1 * i, "return": 0.5, "optimal_return": 0.5 + 0.05 * i**2} for i in range(6)
]  # of unequal steps, but in order


def study(runs: list[Run], metric=None) -> EvaluationTable:
    return Results(runs).evaluation_table(metric=metric)


def compare(runs: list[Run], at="steps") -> Comparison:
    return compare_study(study(runs), at)


def training_curves(runs: list[Run], *options) -> Figure:
    return plots.training_curves(Results(runs), *options)


def levels_over_time(runs: list[Run]) -> Figure:
    return plots.levels_over_time(study(runs))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    root = tmp_path_factory.mktemp("runs")
    skills = {"dr": 0.4, "plr-perp": 0.8}
    return [
        write_run(root / f"{method}{seed}", method, seed, skill=skill)
        for method, skill in skills.items()
        for seed in range(3)
    ]


FIGURES: dict[str, Callable[[list[Run]], Figure]] = {
    "training curves": lambda runs: training_curves(runs, ["entropy", "new/return", "replayed/return"]),
    "one training curve": lambda runs: training_curves(runs, ["entropy"], "updates"),
    "levels": levels_over_time,
    "levels by updates": lambda runs: plots.levels_over_time(study(runs, "return"), "updates"),
    "bars": lambda runs: plots.bars(compare(runs)),
    "iqm": lambda runs: plots.iqm_intervals(compare(runs), compare(runs, "updates")),
    "improvements": lambda runs: plots.improvements(compare(runs)),
    "regret": lambda runs: plots.score_against_regret(ENTRIES, "dr, seed 0"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_files_are_whole_and_always_the_same(name: str, runs: list[Run]):
    before = dict(mpl.rcParams)
    figure, again = FIGURES[name](runs), FIGURES[name](runs)
    text = plots.svg(figure)
    assert text == plots.svg(figure) == plots.svg(again)
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert "<dc:date>" not in text
    assert float(root.get("width", "").removesuffix("pt")) <= 9 * 72
    with Image.open(io.BytesIO(plots.png(figure))) as image:
        assert 900 <= image.width <= 1500
    assert dict(mpl.rcParams) == before


def test_a_method_has_its_own_color_wherever_it_is_drawn(runs: list[Run]):
    drawn = plots.bars(compare(runs)).axes[0].patches
    assert {colors.to_hex(bar.get_facecolor()) for bar in drawn} == {style.COLORS["dr"], style.COLORS["plr-perp"]}
    for figure in (levels_over_time(runs), training_curves(runs, ["entropy"])):
        assert [line.get_color() for line in figure.axes[0].lines] == [style.COLORS["dr"], style.COLORS["plr-perp"]]


def test_every_method_has_a_color_and_a_name():
    assert [*style.COLORS] == [*NAMES] == [*METHODS]
    assert len({*style.COLORS.values()}) == len(METHODS)
    assert display("plr-perp, replay_rate=0.8") == "PLR⊥, replay_rate=0.8"
    assert display("mine") == "mine"


def test_settings_of_one_method_are_told_apart():
    looks = style.looks(["plr, staleness=0.1", "plr, staleness=0.2", "plr, staleness=0.3", "dr"])
    assert looks["plr, staleness=0.1"]["color"] == style.COLORS["plr"]
    assert len({look["color"] for look in looks.values()}) == 4
    assert len({looks[label]["linestyle"] for label in [*looks][:3]}) == 3


def test_curves_are_means_with_a_band(runs: list[Run]):
    [axes] = training_curves(runs, ["entropy"]).axes
    line, _ = axes.lines
    values = np.stack([run.metrics()["entropy"] for run in runs[:3]])
    assert line.get_xdata().tolist() == [1000 * i for i in range(1, 21)]
    assert line.get_ydata() == pytest.approx(values.mean(axis=0))
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx((values.mean(axis=0) + values.std(axis=0, ddof=1) / np.sqrt(3)).max())


def test_percentiles_are_dotted_lines_beside_what_they_are_of(tmp_path: Path):
    run = write_run(tmp_path)
    rows = [
        {"iteration": 1, "steps": 1, "updates": 0, "score": 0.5, "score_p10": 0.1, "score_p90": 0.8},
        {"iteration": 2, "steps": 2, "updates": 0, "score": 0.6, "score_p10": 0.2, "score_p90": 0.9},
    ]
    (tmp_path / METRICS).write_text(csv_text(rows, [*rows[0]]))
    [axes] = training_curves([run], ["score"]).axes
    middle, low, high = axes.lines
    assert [line.get_ydata().tolist() for line in (middle, low, high)] == [[0.5, 0.6], [0.1, 0.2], [0.8, 0.9]]
    assert (middle.get_linestyle(), low.get_linestyle(), high.get_linestyle()) == ("-", ":", ":")


def test_long_names_are_folded_in_their_middle():
    assert style.folded("Labyrinth2") == "Labyrinth2"
    assert style.folded("NineRoomsFewerDoors") == "NineRooms\nFewerDoors"
    assert style.folded("perfectlyunbreakable") == "perfectlyunbreakable"


def test_small_multiples_show_every_level_and_all(runs: list[Run]):
    figure = levels_over_time(runs)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [ALL, *LEVELS]
    # the last point of the line for all levels is what a comparison at equal steps finds
    assert figure.axes[0].lines[0].get_ydata()[-1] == pytest.approx(compare(runs).summaries["dr"][ALL].mean)


@pytest.mark.parametrize("center", ["median", "mean"])
def test_bars_are_medians_with_quartiles_or_means_with_standard_errors(runs: list[Run], center: plots.Center):
    comparison = compare(runs)
    axes = plots.bars(comparison, center=center).axes[0]
    heights = [bar.get_height() for bar in axes.patches]
    summaries = [comparison.summaries[m][level] for m in ("dr", "plr-perp") for level in (ALL, *LEVELS)]
    assert heights == pytest.approx([getattr(summary, center) for summary in summaries])
    first, _ = (bars for bars in axes.collections)  # the lines on DR's bars
    low, high = np.array(first.get_segments())[0, :, 1]
    s = summaries[0]
    expected = (
        (s.lower_quartile, s.upper_quartile)
        if center == "median"
        else (s.mean - s.standard_error, s.mean + s.standard_error)
    )
    assert (low, high) == pytest.approx(expected)
    assert [label.get_text() for label in axes.get_xticklabels()] == [ALL, *LEVELS]


def test_many_bars_take_several_rows(tmp_path: Path):
    levels = [f"Level{i}" for i in range(20)]
    figure = plots.bars(compare([write_run(tmp_path / m, m, levels=levels) for m in METHODS]))
    shown = [label.get_text() for axes in figure.axes for label in axes.get_xticklabels()]
    assert shown == [ALL, *levels]
    assert len(figure.axes) == 3


def test_single_runs_are_drawn_without_intervals(tmp_path: Path):
    runs = [write_run(tmp_path / method, method) for method in ("dr", "plr")]
    comparison = compare(runs)
    for figure in (plots.bars(comparison), plots.iqm_intervals(comparison), plots.improvements(comparison)):
        assert "nan" not in plots.svg(figure)
    assert not plots.iqm_intervals(comparison).axes[0].patches
    assert "nan" not in plots.svg(levels_over_time(runs))


@pytest.mark.slow
def test_long_names_of_settings_fit(tmp_path: Path):
    configs = [
        replace(made_up_config("plr", 0), ppo=replace(made_up_config("plr", 0).ppo, learning_rate=rate))
        for rate in (0.1, 0.2, 0.3, 0.4, 0.5)
    ]
    runs = [write_run(tmp_path / str(i), "plr", config=config) for i, config in enumerate(configs)]
    comparison = compare(runs)
    for figure in (levels_over_time(runs), plots.iqm_intervals(comparison), plots.improvements(comparison)):
        with Image.open(io.BytesIO(plots.png(figure))) as image:
            pixels = np.asarray(image.convert("L"))
        assert (pixels[[0, -1]] == 255).all()  # nothing is cut off at an edge
        assert (pixels[:, [0, -1]] == 255).all()


def test_the_rank_correlation_is_told():
    [axes] = plots.score_against_regret(ENTRIES).axes
    assert axes.get_title(loc="left") == "rank correlation 1.00, 6 levels"
    assert np.asarray(axes.collections[0].get_offsets()) == pytest.approx(
        np.array([[0.05 * i**2, 0.1 * i] for i in range(6)])
    )
    [axes] = plots.score_against_regret([*ENTRIES[:1], {**ENTRIES[0], "optimal_return": None}], "now").axes
    assert axes.get_title(loc="left") == "now: rank correlation not defined, 1 levels"


def test_what_cannot_be_drawn_is_refused(runs: list[Run]):
    with pytest.raises(InputError, match="no true regret"):
        plots.score_against_regret([{"score": None, "return": 0.5, "optimal_return": 1}])
    with pytest.raises(InputError, match="No run has measured 'joy'; they have: entropy, iteration, new/return"):
        training_curves(runs, ["joy"])
    with pytest.raises(InputError, match="name at least one metric"):
        training_curves(runs, [])
    with pytest.raises(InputError, match="only one method"):
        plots.improvements(compare(runs[:3]))


def test_a_name_with_dollars_is_no_formula(tmp_path: Path):
    runs = [write_run(tmp_path / "a", levels=[r"$\frac$", "Maze"])]
    for figure in (plots.bars(compare(runs)), levels_over_time(runs)):
        assert "<svg" in plots.svg(figure)
    assert [axes.get_title(loc="left") for axes in levels_over_time(runs).axes] == [ALL, r"$\frac$", "Maze"]


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("new/solved", "solved rate, new"),
        ("replayed/solved_shortest_path", "shortest path of solved levels, replayed"),
        ("value_loss", "value loss"),
        ("buffer/fill", "share of the buffer filled, buffer"),
        ("new/antagonist/return", "return, new, antagonist"),
    ],
)
def test_metrics_have_words(metric: str, words: str):
    assert style.words(metric) == words


def test_all_words_are_of_metrics_that_are_measured():
    """Once, they stood beside names that metrics no longer had."""
    measured = {name.rpartition("/")[2] for name in Programs(MazeSetup.preset("tiny", "repaired")).names}
    assert style.WORDS.keys() <= measured


def test_narrow_figures_have_fewer_panels_side_by_side(runs: list[Run]):
    figure = plots.levels_over_time(study(runs), width=style.NARROW)
    assert figure.axes[0].get_subplotspec().get_gridspec().ncols == 2
    assert figure.get_figwidth() == style.NARROW


@pytest.mark.parametrize("width", [style.WIDTH, style.NARROW])
def test_a_legend_of_many_long_names_fits(width):
    names = [
        "dr",
        "minimax",
        "paired",
        "plr",
        "plr-perp",
        "repaired",
        "accel",
        "plr-perp-true-regret",
        "half",
        "half-2",
    ]

    @style.drawn
    def draw() -> Figure:
        figure, _ = style.panels(1, 1, 2.0, width)
        style.legend(figure, names, "Mean ± standard error of runs; new levels dotted, where others are replayed")
        return figure

    figure = draw()
    [legend] = figure.legends
    assert legend.get_window_extent().x1 <= figure.bbox.x1
