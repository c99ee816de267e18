"""Comparing runs: which evaluation counts, who belongs together, what the tables say, what is refused."""

import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from made_up_runs import LEVELS, made_up_config, write_evaluations, write_run

from tutelage.analysis.compare import ALL, Comparison
from tutelage.analysis.compare import compare as compare_study
from tutelage.analysis.results import Results, align, by_method
from tutelage.analysis.tables import text
from tutelage.files import csv_text
from tutelage.training.run import Run
from tutelage.types import InputError


def compare(runs: list[Run], at="steps", suite=None, metric=None, **options) -> Comparison:
    return compare_study(Results(runs).evaluation_table(suite, metric), at, **options)


def printed(comparison: Comparison) -> str:
    return "\n\n".join(map(text, comparison.tables()))


@pytest.fixture
def pair(tmp_path: Path) -> list[Run]:
    """DR learns in each iteration, PLR⊥ in every other; two seeds, two levels."""
    dr = [
        write_evaluations(tmp_path / f"dr{i}", "dr", i, {(100, 10): (0.1, 0.1), (200, 20): (a, b)})
        for i, (a, b) in enumerate([(0.2, 0.4), (0.4, 0.6)])
    ]
    perp = [
        write_evaluations(
            tmp_path / f"perp{i}", "plr-perp", i, {(100, 5): (0.3, 0.3), (200, 12): (0.6, 0.8), (300, 15): (1, 1)}
        )
        for i in range(2)
    ]
    return [*perp, *dr]


def test_equal_steps_are_the_last_that_all_have_reached(pair: list[Run]):
    comparison = compare(pair, "steps")
    assert comparison.times == {"dr": 200, "plr-perp": 200}
    assert comparison.evaluations.levels == LEVELS[:2]
    assert comparison.values["dr"].tolist() == [[0.2, 0.4], [0.4, 0.6]]
    assert comparison.values["plr-perp"].tolist() == [[0.6, 0.8], [0.6, 0.8]]
    assert comparison.title == "maze, suite paper: solved rate after 200 environment steps"


def test_equal_updates_are_others_than_equal_steps(pair: list[Run]):
    comparison = compare(pair, "updates")
    assert comparison.times == {"dr": 15, "plr-perp": 15}
    # DR was evaluated at 10 and at 20: half-way between (0.1, 0.1) and (0.2, 0.4), or (0.4, 0.6)
    assert comparison.values["dr"] == pytest.approx(np.array([[0.15, 0.25], [0.25, 0.35]]))
    assert comparison.values["plr-perp"].tolist() == [[1, 1], [1, 1]]
    assert comparison.title == "maze, suite paper: solved rate after 15 gradient updates"


def test_each_method_at_its_own_end(pair: list[Run]):
    comparison = compare(pair, ends=True)
    assert comparison.times == {"dr": 200, "plr-perp": 300}
    assert comparison.values["plr-perp"].tolist() == [[1, 1], [1, 1]]
    assert comparison.title == "maze, suite paper: solved rate after 200 to 300 environment steps"


def test_levels_by_themselves_and_together(pair: list[Run]):
    summaries = compare(pair).summaries
    assert [*summaries["dr"]] == [*LEVELS[:2], ALL]
    assert summaries["dr"][LEVELS[0]].mean == pytest.approx(0.3)
    assert summaries["dr"][LEVELS[0]].standard_error == pytest.approx(0.1)  # 0.2 apart, two runs
    assert summaries["dr"][ALL].mean == pytest.approx(0.4)
    assert summaries["dr"][ALL].iqm == pytest.approx(0.4)  # 0.4 and 0.4 are left of four scores
    assert summaries["plr-perp"][ALL].standard_error == pytest.approx(0)


def test_tests_of_pairs(pair: list[Run]):
    tests = compare(pair).tests
    assert [(test.first, test.second, test.level) for test in tests] == [
        ("plr-perp", "dr", level) for level in (*LEVELS[:2], ALL)
    ]
    assert tests[-1].welch.difference == pytest.approx(0.3)
    assert tests[-1].welch.t == pytest.approx(3)  # 0.3 over the error of DR, 0.1; PLR⊥ has none
    assert tests[-1].welch.degrees == pytest.approx(1)
    assert tests[-1].corrected_p == pytest.approx(tests[-1].welch.p)
    assert tests[-1].improvement.value == 1
    # PLR⊥ does not vary, so the pooled variance is half of DR's, 0.02: 0.3 / 0.1 · (1 − 3/7)
    assert tests[-1].effect == pytest.approx(3 * 4 / 7)


def test_p_values_are_corrected_for_the_number_of_pairs(tmp_path: Path):
    runs = [
        write_run(tmp_path / f"{method}{seed}", method, seed, skill=skill)
        for method, skill in (("dr", 0.2), ("plr", 0.5), ("accel", 0.9))
        for seed in range(4)
    ]
    tests = [test for test in compare(runs).tests if test.level == ALL]
    assert [(test.first, test.second) for test in tests] == [("plr", "dr"), ("accel", "dr"), ("accel", "plr")]
    least = min(tests, key=lambda test: test.welch.p)
    assert least.corrected_p == pytest.approx(3 * least.welch.p)


def test_the_return_is_compared_where_nothing_is_solved(tmp_path: Path):
    runs = [write_run(tmp_path / str(seed), seed=seed, solvable=False) for seed in range(2)]
    assert compare(runs).evaluations.metric == "return"
    with pytest.raises(InputError, match="Episodes of maze do not count as solved: compare the return"):
        compare(runs, metric="solved")
    solvable = [write_run(tmp_path / f"s{seed}", seed=seed) for seed in range(2)]
    assert compare(solvable).evaluations.metric == "solved"
    assert compare(solvable, metric="return").values["dr"] == pytest.approx(0.7 * compare(solvable).values["dr"])


def test_a_run_that_is_still_going_on(tmp_path: Path):
    runs = [write_run(tmp_path / str(seed), seed=seed) for seed in range(2)]
    path = tmp_path / "1" / "evaluations.csv"
    whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join(whole[:-1]) + whole[-1][:-3])  # of the last evaluation a row is not whole
    assert compare(runs).times == {"dr": 15000}


def test_one_interval_does_not_depend_on_the_others(tmp_path: Path):
    dr = [write_run(tmp_path / f"dr{seed}", "dr", seed) for seed in range(3)]
    plr = [write_run(tmp_path / f"plr{seed}", "plr", seed) for seed in range(3)]
    assert compare([*dr, *plr]).rows() == compare([*dr, *plr]).rows()
    assert compare(dr).summaries["dr"] == compare([*plr, *dr]).summaries["dr"]
    narrow, wide = compare(dr).summaries["dr"][ALL], compare(dr, whole_runs=True).summaries["dr"][ALL]
    assert (narrow.iqm_low, narrow.iqm_high) != (wide.iqm_low, wide.iqm_high)


# Who belongs together


def test_methods_come_in_the_papers_order(tmp_path: Path):
    names = ["accel", "repaired", "dr", "plr-perp"]
    runs = [write_run(tmp_path / name, name) for name in names]
    assert [*by_method(runs)] == ["dr", "plr-perp", "repaired", "accel"]


def test_settings_that_differ_are_named(tmp_path: Path):
    base = made_up_config("plr", 0)
    faster = replace(base, ppo=replace(base.ppo, learning_rate=0.5))
    runs = [
        write_run(tmp_path / "a", "plr", 0, config=base),
        write_run(tmp_path / "b", "plr", 1, config=replace(base, seed=1, total_steps=9 * base.total_steps, devices=1)),
        write_run(tmp_path / "c", "plr", 0, config=faster),
        write_run(tmp_path / "d", "dr", 0),
    ]
    usual = base.ppo.learning_rate
    groups = by_method(runs)
    # neither the seed, nor how long a run is, nor how many devices shared it make it another method
    assert {label: len(group) for label, group in groups.items()} == {
        "dr": 1,
        f"plr, learning_rate={usual}": 2,
        "plr, learning_rate=0.5": 1,
    }
    both = replace(faster, teacher_ppo=replace(base.teacher_ppo, learning_rate=0.1))
    assert "plr, ppo.learning_rate=0.5, teacher_ppo.learning_rate=0.1" in by_method(
        [runs[0], write_run(tmp_path / "e", "plr", config=both)]
    )


def test_one_seed_run_for_two_lengths_is_two_groups(tmp_path: Path):
    base = made_up_config("plr-perp", 0)
    longer = replace(base, total_steps=2 * base.total_steps)
    runs = [
        write_run(tmp_path / "a", "plr-perp", config=base),
        write_run(tmp_path / "b", "plr-perp", config=longer, iterations=40),
    ]
    assert [*by_method(runs)] == [f"plr-perp, total_steps={x.total_steps}" for x in (base, longer)]
    assert [*compare(runs, ends=True).times.values()] == [20_000, 40_000]


def test_ends_are_each_runs_own(tmp_path: Path):
    """Iterations of ACCEL have one or two rollouts, so that its runs end after different steps."""
    runs = [write_run(tmp_path / f"{n}", seed=n, iterations=n, every=n) for n in (10, 12)]
    with pytest.raises(InputError, match="first evaluated after 12,000 steps"):
        compare(runs)
    (values,) = compare(runs, ends=True).values.values()
    last = [[row["solved"] for row in run.evaluations()] for run in runs]
    np.testing.assert_array_equal(values, last)


def test_one_run_counts_once(tmp_path: Path):
    run = write_run(tmp_path / "a")
    with pytest.raises(InputError, match=r"a and .*b are the same run, dr, seed 0: two runs of one seed"):
        compare([run, write_run(tmp_path / "b")])
    with pytest.raises(InputError, match="no runs to show or to compare"):
        compare([])


# What is refused


@dataclass(frozen=True)
class OtherSetup:
    name: ClassVar[str] = "elsewhere"


def test_other_domains_are_refused(tmp_path: Path):
    here = write_run(tmp_path / "here")
    there = Run(write_run(tmp_path / "there").directory, replace(made_up_config("plr", 0), setup=OtherSetup()))
    with pytest.raises(InputError, match=r"here trained on maze, .*there trained on elsewhere: compare"):
        compare([here, there])


def test_suites(tmp_path: Path):
    one, other = write_run(tmp_path / "a", suite="paper"), write_run(tmp_path / "b", "plr", suite="maze")
    with pytest.raises(InputError, match="several suites: choose one of maze, paper"):
        compare([one, other])
    with pytest.raises(InputError, match="b was not evaluated on the suite 'paper': leave"):
        compare([one, other], suite="paper")
    assert compare([one], suite="paper").evaluations.suite == "paper"


def test_other_levels_are_refused(tmp_path: Path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", "plr", levels=LEVELS[:2])]
    with pytest.raises(InputError, match=r"b was tested on .*compare runs with equal tests"):
        compare(runs)


def test_the_order_of_levels_does_not_matter(tmp_path: Path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", "plr", levels=LEVELS[::-1])]
    assert compare(runs).values["plr"] == pytest.approx(compare(runs[1:]).values["plr"][:, ::-1])


def test_other_actions_are_refused(tmp_path: Path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", "plr", greedy=True)]
    with pytest.raises(InputError, match=r"a was tested with sampled actions, .*b was tested with greedy actions"):
        compare(runs)


def test_runs_without_evaluations_are_refused(tmp_path: Path):
    run = write_run(tmp_path / "a", every=50)
    with pytest.raises(InputError, match="None of the 1 runs was evaluated"):
        compare([run])
    with pytest.raises(InputError, match="a was not evaluated on the suite 'paper'"):
        compare([run, write_run(tmp_path / "b", "plr")])


def test_runs_that_never_meet_are_refused(tmp_path: Path):
    runs = [write_run(tmp_path / "a", iterations=4, every=2), write_run(tmp_path / "b", "plr")]
    with pytest.raises(InputError, match=r"b was first evaluated after 5,000 steps, but .*a last after 4,000"):
        compare(runs)


# What is said


def test_table(pair: list[Run]):
    lines = printed(compare(pair)).splitlines()
    assert lines[0].startswith("maze, suite paper: solved rate after 200 environment steps")
    assert lines[1].split() == ["mean", "[95", "%", "interval]", "dr", "(2)", "plr-perp", "(2)"]
    # the difference of 0.2 and 0.4 is worth 21 episodes, but there were 20
    assert lines[2].split() == [LEVELS[0], "0.30", "[0.15,", "0.52]", "0.60", "[0.39,", "0.78]"]
    assert len({len(line) for line in lines[1:5]}) == 1  # aligned
    [dr] = [line for line in lines[6:] if line.startswith("dr ")]
    assert dr.split()[:6] == ["dr", "2", "0.40", "±", "0.10", "0.40"]
    assert any(line.startswith("plr-perp − dr") and "+0.30" in line and "3.00" in line for line in lines)


def test_never_solved_is_not_certain(tmp_path: Path):
    """0 of 20 episodes once read 0.00 ± 0.00."""
    runs = [write_evaluations(tmp_path / str(i), "dr", i, {(100, 10): (0, 1)}) for i in range(2)]
    lines = printed(compare(runs)).splitlines()
    assert lines[2].split()[1:] == ["0.00", "[0.00,", "0.16]"]
    assert lines[3].split()[1:] == ["1.00", "[0.84,", "1.00]"]
    [row] = [row for row in compare(runs).rows() if row["level"] == LEVELS[0]]
    assert row["wilson_high"] == pytest.approx(0.161, abs=1e-3)


def test_a_table_of_one_run_has_dashes_where_nothing_is_known(tmp_path: Path):
    table = printed(compare([write_run(tmp_path / "a")]))
    assert "± –" in table
    assert "[–, –]" in table
    assert "nan" not in table
    assert "first − second" not in table


def test_a_wide_table_is_broken_between_methods(tmp_path: Path):
    runs = [
        write_run(tmp_path / f"{name}{seed}", name, seed)
        for name in ("dr", "minimax", "paired", "plr", "plr-perp", "repaired", "accel")
        for seed in range(2)
    ]
    table = printed(compare(runs))
    assert table.count("mean [95 % interval]") == 2
    assert max(map(len, table.splitlines()[1:])) <= 100


def test_rows_are_tidy(pair: list[Run]):
    comparison = compare(pair)
    rows, tests = comparison.rows(), comparison.test_rows()
    assert len(rows) == 2 * 3
    assert len(tests) == 3
    assert len({tuple(row) for row in rows}) == len({tuple(row) for row in tests}) == 1
    [read] = [
        row
        for row in csv.DictReader(io.StringIO(csv_text(rows, [*rows[0]])))
        if row["method"] == "dr" and row["level"] == ALL
    ]
    assert float(read["mean"]) == pytest.approx(0.4)
    assert (read["at"], read["time"], read["runs"]) == ("steps", "200", "2")


# Curves


def test_runs_measured_together_keep_their_times():
    x = np.array([1, 2, 10])
    times, values = align([(x, np.array([1.0, 2, 3])), (x, np.array([3.0, 4, 5]))])
    assert times.tolist() == [1, 2, 10]
    assert values.tolist() == [[1, 2, 3], [3, 4, 5]]


def test_what_was_not_measured_is_bridged():
    times, values = align([(np.arange(5), np.array([0, np.nan, 2, np.nan, 4.0])), (np.arange(5), np.arange(5.0))])
    assert len(times) == 3
    assert values == pytest.approx(np.stack([times, times]))


def test_a_line_stays_a_line_however_it_is_sampled():
    rng = np.random.default_rng(0)
    curves = [(x, 3.0 * x + 1) for x in (np.sort(rng.integers(0, 1000, 400)), np.arange(50, 1100, 7))]
    times, values = align(curves, points=40)
    assert len(times) == 40
    assert max(x[0] for x, _ in curves) <= times[0] < times[-1] <= min(x[-1] for x, _ in curves)
    assert values[:, 1:-1] == pytest.approx(np.stack([3 * times + 1] * 2)[:, 1:-1], abs=1e-6)


def test_curves_that_never_meet_or_are_empty():
    nothing, early, late = np.array([np.nan]), (np.arange(3), np.zeros(3)), (np.arange(5, 9), np.zeros(4))
    assert align([(np.array([1]), nothing)])[0].size == 0
    assert align([])[0].size == 0
    assert align([early, late])[0].size == 0
    assert align([early, (np.array([1]), nothing)])[1].shape == (1, 3)


def test_histories_are_in_order_of_time(tmp_path: Path):
    study = Results([write_run(tmp_path / "a", "plr-perp")]).evaluation_table()
    [history] = study.histories["plr-perp"]
    assert history.steps.tolist() == [5000, 10000, 15000, 20000]
    assert (np.diff(history.updates) >= 0).all()
    assert history.values.shape == (4, 3)
