"""The paper's figures and tables: numbers against those computed by hand from the runs' files, and what is missing."""

import csv
import json
import shutil
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

import chromium
import numpy as np
import pytest
from made_up_curricula import add_complexity, entry, write_snapshot
from made_up_runs import LEVELS, made_up_config, write_run
from scipy import stats

from tutelage.analysis.compare import regret_contests
from tutelage.analysis.paper import CLAIMS, Paper, contest, paper, published
from tutelage.analysis.policy_results import PolicyResult
from tutelage.analysis.results import Results, find_results
from tutelage.cli import main
from tutelage.curriculum.methods import METHODS
from tutelage.files import csv_text, read_csv, write_atomically
from tutelage.studies.results import collect
from tutelage.studies.study import StudyRun
from tutelage.training.config import Config
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.presets.racing import RacingSetup
from tutelage.training.run import EPISODE_COLUMNS, EPISODES, Run
from tutelage.training.train import train

SEEDS, EPISODES_EACH = 3, 4
TRACKS = ("Italy", "Singapore", "Germany")
SKILLS = dict(zip(METHODS, (0.4, 0.1, 0.2, 0.6, 0.9, 0.5, 0.8), strict=True))


@pytest.fixture(autouse=True, scope="module")
def one_domain_for_each_setup():
    """CarRacing's test levels take long to make."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RacingSetup, "domain", cache(RacingSetup.domain))
        yield


def add_episodes(run: Run, suite: str, levels: tuple[str, ...], seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = [
        {"iteration": 20, "suite": suite, "level": level, "episode": i, "length": 9}
        | {"return": round(random.uniform(-50, 900), 3), "wall_right": 0.5 + 0.1 * seed, "wall_left": 0.25}
        for level in levels
        for i in range(EPISODES_EACH)
    ]
    write_atomically(run.directory / EPISODES, csv_text(rows, [*EPISODE_COLUMNS, "wall_right", "wall_left"]))


def add_regrets(run: Run, regret: float) -> None:
    about = ("x", 20_000, "robustness", "Random25", 1000, False, 0.5, 0.4, 0.6, 0.3, 0.01, 9.0)
    score = PolicyResult(*about, *(n * regret for n in (1, 2, 3, 4)))
    write_atomically(run.directory / "eval-robustness.csv", csv_text([score.row()], [*score.row()]))


def maze_run(directory: Path, method: str, seed: int) -> Run:
    run = write_run(directory, method, seed, skill=SKILLS[method])
    add_complexity(run)
    add_episodes(run, "paper", LEVELS, seed)
    add_regrets(run, 0.1 + 0.01 * seed)
    write_snapshot(run, 20, [entry(run, i, None) for i in range(9)], "generator" if method == "dr" else "buffer")
    return run


def racing_run(directory: Path, method: str, seed: int) -> Run:
    config = replace(RacingSetup.preset("tiny", method), seed=seed)
    options = {"suite": "f1", "levels": TRACKS, "solvable": False, "config": config}
    run = write_run(directory, method, seed, skill=SKILLS[method], **options)
    add_episodes(run, "f1", TRACKS, seed)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of every method in both domains."""
    root = tmp_path_factory.mktemp("runs")
    for method in METHODS:
        for seed in range(SEEDS):
            maze_run(root / "maze" / method / str(seed), method, seed)
            racing_run(root / "racing" / method / str(seed), method, seed)
    return root


@pytest.fixture(scope="module")
def made(runs: Path) -> Paper:
    return paper(find_results([runs]))


@pytest.fixture(scope="module")
def written(made: Paper, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.write(tmp_path_factory.mktemp("out")).parent


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def last(run: Path, column: str) -> dict[str, float]:
    """The last evaluation of a run, by level, straight from its file."""
    found = read_csv(run / "evaluations.csv")
    return {row["level"]: float(row[column]) for row in found if row["iteration"] == found[-1]["iteration"]}


NAMES = {
    "maze": ("levels", "zero-shot", "curves", "returns", "complexity", "table", "claims", "walls", "regret", "setting"),
    "racing": ("curves", "zero-shot", "returns", "minimum", "table", "claims", "setting"),
}


@pytest.mark.slow
def test_all_that_the_runs_can_show_is_made_and_the_rest_is_named(made: Paper):
    names = [exhibit.name for exhibit in made.exhibits]
    expected = [f"{domain}-{name}" for domain, all_names in NAMES.items() for name in all_names]
    assert names == [*expected, "table-4-hyperparameters", "table-5-circuits"]
    assert [(shown, reason) for shown, _, reason in made.missing] == [
        ("Figures 1, 18", "No run has a snapshot of its levels, or the domain does not draw them."),
        ("Section 6.2", "No run has measured its levels."),
    ]
    for exhibit in made.exhibits[:-2]:
        assert "Not the paper's setting" in exhibit.setting, exhibit.name
        if not exhibit.name.endswith(("-setting", "-claims")):
            assert "PLR⊥: 3 seeds, 20,000 steps" in exhibit.setting, exhibit.name


@pytest.mark.slow
def test_every_exhibit_has_its_files(made: Paper, written: Path):
    files = {path.name for path in written.iterdir()}
    for exhibit in made.exhibits:
        kinds = ["csv"] + ["svg", "png"] * bool(exhibit.draw) + ["md", "tex"] * bool(exhibit.tables)
        assert {f"{exhibit.name}.{kind}" for kind in kinds} <= files
    assert "paper.html" in files


@pytest.mark.parametrize(("domain", "column"), [("maze", "solved"), ("racing", "return")])
def test_the_tables_are_means_and_standard_errors_of_the_last_evaluations(runs, written, domain, column):
    found = {(row["method"], row["level"]): row for row in rows(written / f"{domain}-table.csv")}
    for method in METHODS:
        table = [last(runs / domain / method / str(seed), column) for seed in range(SEEDS)]
        for level in table[0]:
            values = [each[level] for each in table]
            row = found[method, level]
            assert float(row["mean"]) == pytest.approx(np.mean(values))
            assert float(row["standard_error"]) == pytest.approx(stats.sem(values))
            assert float(row["median"]) == pytest.approx(np.median(values))
        overall = [np.mean([*each.values()]) for each in table]
        assert float(found[method, "all levels"]["mean"]) == pytest.approx(np.mean(overall))
        assert float(found[method, "all levels"]["standard_error"]) == pytest.approx(stats.sem(overall))


def test_bold_is_what_is_within_one_standard_error_of_the_best(made: Paper, runs: Path, written: Path):
    [table] = next(exhibit for exhibit in made.exhibits if exhibit.name == "maze-table").tables
    for i, level in enumerate(LEVELS):
        means, errors = [], []
        for method in METHODS:
            values = [last(runs / "maze" / method / str(seed), "solved")[level] for seed in range(SEEDS)]
            means.append(np.mean(values))
            errors.append(stats.sem(values))
        best = int(np.argmax(means))
        expected = {j + 1 for j, value in enumerate(means) if value >= means[best] - errors[best]}
        assert {j for row, j in table.bold if row == i and j <= len(METHODS)} == expected
    # the published rooms: 1.0 of PLR and of PLR⊥ after 500M steps are the best, with an error of 0.0
    heads = [table.head[j] for row, j in table.bold if row == 0 and j > len(METHODS)]
    assert sorted(heads) == ["PLR (published)", "PLR⊥, 500M steps (published)"]
    line = next(line for line in (written / "maze-table.md").read_text().splitlines() if line.startswith("| Sixteen"))
    assert line.count("**1.0**") == 2
    assert r"\textbf{1.0}" in (written / "maze-table.tex").read_text()


def test_published_numbers_are_the_papers():
    assert published("f1")["AttentionAgent"]["Mean"][0] == 477
    assert published("f1")["PLR⊥"]["Mean"] == (534, 7)
    assert published("mazes_25_blocks")["PLR⊥, 500M steps"]["Labyrinth"] == (0.7, 0.1)


def test_claims_are_welchs_tests_over_levels(runs: Path, written: Path):
    found = {row["claim"]: row for row in rows(written / "racing-claims.csv")}
    assert len(found) == len(CLAIMS["racing"])
    x, y = (
        [np.mean([*last(runs / "racing" / method / str(seed), "return").values()]) for seed in range(SEEDS)]
        for method in ("plr-perp", "paired")
    )
    row, test = found["PLR⊥ > PAIRED"], stats.ttest_ind(x, y, equal_var=False)
    pooled = np.sqrt((np.var(x, ddof=1) + np.var(y, ddof=1)) / 2)
    assert float(row["p"]) == pytest.approx(test.pvalue)
    assert float(row["t"]) == pytest.approx(test.statistic)
    assert float(row["effect"]) == pytest.approx((np.mean(x) - np.mean(y)) / pooled * (1 - 3 / (4 * 2 * SEEDS - 9)))
    smallest = min(float(each["p"]) for each in found.values())
    assert min(float(each["corrected_p"]) for each in found.values()) == pytest.approx(min(1, 6 * smallest))
    assert row["verdict"] == ("holds" if float(row["corrected_p"]) < 0.05 else "not decided")


def test_equal_updates_are_on_the_line_between_evaluations(runs: Path):
    study = Results(find_results([runs / "maze" / "dr", runs / "maze" / "plr-perp"])).evaluation_table()
    found = contest(study, "plr-perp", "dr", "updates")
    ends = [int(read_csv(runs / f"maze/plr-perp/{seed}/evaluations.csv")[-1]["updates"]) for seed in range(SEEDS)]
    assert found["time"] == min(ends)
    by_hand = []
    for seed in range(SEEDS):
        times, scores = [], defaultdict(list)
        for row in read_csv(runs / f"maze/dr/{seed}/evaluations.csv"):
            scores[int(row["updates"])].append(float(row["solved"]))
        times = sorted(scores)
        by_hand.append(np.interp(min(ends), times, [np.mean(scores[time]) for time in times]))
    assert found["other_mean"] == pytest.approx(np.mean(by_hand))


def test_runs_evaluated_only_at_their_ends_are_compared_there(runs: Path):
    study = Results(find_results([runs / "maze" / "dr", runs / "maze" / "plr-perp"])).evaluation_table()
    ends = {
        label: tuple(
            replace(x, **{name: getattr(x, name)[-1:] for name in ("steps", "updates", "values")}) for x in own
        )
        for label, own in study.histories.items()
    }
    found = contest(replace(study, histories=ends), "plr-perp", "dr", "updates")
    assert found["time"] is None
    for column, method in (("mean", "plr-perp"), ("other_mean", "dr")):
        own = [np.mean([*last(runs / "maze" / method / str(seed), "solved").values()]) for seed in range(SEEDS)]
        assert found[column] == pytest.approx(np.mean(own))


def test_lower_regret_is_a_claim_of_its_own(runs: Path, written: Path):
    found = [row for row in rows(written / "maze-claims.csv") if row["metric"].startswith("regret")]
    assert {row["claim"] for row in found} == {"PLR⊥ > DR", "PLR⊥ > PLR", "PLR⊥ > PAIRED", "REPAIRED > PAIRED"}
    [row] = [row for row in found if row["claim"] == "PLR⊥ > DR"]
    assert float(row["mean"]) == float(row["other_mean"]) == pytest.approx(0.33)
    results = Results(find_results([runs / "maze" / "dr", runs / "maze" / "plr-perp"]))
    for seed, run in enumerate(results.groups["plr-perp"]):
        run.tests[:] = [replace(score, regret_worst_1=0.01 * seed) for score in run.tests]
    [row] = regret_contests(results, "plr-perp", "dr")
    assert row["level"] == "Random25"
    test = stats.ttest_ind([0.0, 0.01, 0.02], [0.3, 0.33, 0.36], equal_var=False)
    assert (row["difference"], row["p"]) == pytest.approx((0.01 - 0.33, test.pvalue))


def test_minimum_returns_come_from_the_episodes(runs: Path, written: Path):
    found = {(row["method"], row["level"]): float(row["median"]) for row in rows(written / "racing-minimum.csv")}
    for track in TRACKS:
        lowest = []
        for seed in range(SEEDS):
            own = [row for row in read_csv(runs / f"racing/dr/{seed}/episodes.csv") if row["level"] == track]
            lowest.append(min(float(row["return"]) for row in own))
        assert found["dr", track] == pytest.approx(np.median(lowest))


def add_eval(run: Run, steps: int, value: float) -> None:
    """What `tutelage eval --suite f1` writes, with the same return in all episodes."""
    about = ("x", steps, "f1")
    scores = [PolicyResult(*about, level, 2, False, *[None] * 3, value, 0.0, 9.0, *[None] * 4) for level in TRACKS]
    episodes = [{"policy": "x", "suite": "f1", "level": level, "episode": i} for level in TRACKS for i in range(2)]
    tables = {
        "eval-f1.csv": [score.row() for score in scores],
        "episodes-f1.csv": [row | {"return": value, "length": 9} for row in episodes],
    }
    for name, table in tables.items():
        write_atomically(run.directory / name, csv_text(table, [*table[0]]))


@pytest.mark.parametrize(("steps", "shown"), [(10_000, False), (20_000, True), (30_000, True)])
def test_minimum_returns_are_those_of_the_last_policy(tmp_path: Path, steps: int, shown: bool):
    """Once, those of an evaluation before training went on counted as its last."""
    run = racing_run(tmp_path / "dr", "dr", 0)
    add_eval(run, steps, -99.0)
    [minimum] = [each for each in paper([run]).exhibits if each.name == "racing-minimum"]
    assert {row["time"] for row in minimum.rows} == {max(steps, 20_000)}
    assert (minimum.rows[0]["mean"] == -99.0) == shown


def test_wall_following_and_regret_are_means_over_runs(written: Path):
    [dr] = [row for row in rows(written / "maze-walls.csv") if row["policy"] == "DR"]
    assert float(dr["wall_right"]) == pytest.approx(0.6)  # 0.5, 0.6, 0.7
    assert float(dr["wall_right_error"]) == pytest.approx(stats.sem([0.5, 0.6, 0.7]))
    assert float(dr["wall_left"]) == 0.25
    own = [row for row in rows(written / "maze-regret.csv") if row["method"] == "dr"]
    regrets = {float(row["worst"]): float(row["mean"]) for row in own}
    assert regrets == pytest.approx({1: 0.11, 0.1: 0.22, 0.01: 0.33, 0.001: 0.44})


def test_a_study_is_drawn_from_its_small_files_alone(runs: Path, tmp_path: Path):
    shutil.copytree(runs / "maze" / "dr", tmp_path / "runs" / "dr")
    shutil.copytree(runs / "maze" / "repaired", tmp_path / "runs" / "repaired")
    jobs = [
        StudyRun(method, seed, tmp_path / "runs" / method / str(seed), (method,))
        for method in ("dr", "repaired")
        for seed in range(SEEDS)
    ]
    collect(jobs, tmp_path / "small")
    whole = Results(find_results([tmp_path / "runs"]))
    shutil.rmtree(tmp_path / "runs")
    small = Results(find_results([tmp_path / "small"]))
    assert [*small.groups] == [*whole.groups] == ["dr", "repaired"]
    ours, theirs = paper(small.runs), paper(find_results([runs / "maze" / "dr", runs / "maze" / "repaired"]))
    assert [each.name for each in ours.exhibits] == [each.name for each in theirs.exhibits]
    for one, other in zip(ours.exhibits, theirs.exhibits, strict=True):
        assert one.setting == other.setting
        if not one.name.endswith(("curves", "returns", "complexity")):  # these are averaged between evaluations
            assert json.dumps([*one.rows], default=str) == json.dumps([*other.rows], default=str), one.name
    assert (tmp_path / "small" / "levels.json").stat().st_size < 20_000
    assert {row["policy"] for row in rows(tmp_path / "small" / "eval.csv")} == {
        f"{method}/seed-{seed}" for method in ("dr", "repaired") for seed in range(SEEDS)
    }, "a study's files name no directories"


@pytest.mark.slow
def test_the_command(runs: Path, tmp_path: Path, capsys):
    main(["paper", str(runs / "maze" / "dr"), "--bars", "mean", "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "There are no runs: tutelage train METHOD --domain racing" in printed
    assert "There are no two methods of which the paper claims anything: PLR⊥ > DR" in printed
    assert f"All of it is in {tmp_path / 'out' / 'paper.html'}" in printed


def test_tables_that_need_no_runs(tmp_path: Path, capsys):
    main(["paper", "--table", "hyperparameters", "--out", str(tmp_path / "out")])
    found = {(row["domain"], row["option"]): row for row in rows(tmp_path / "out" / "table-4-hyperparameters.csv")}
    config = MazeSetup.preset("paper", "plr-perp")
    assert found["maze", "ppo.learning_rate"]["PLR⊥"] == str(config.ppo.learning_rate)
    assert found["maze", "method.curator.replay_rate"]["DR"] == "–"
    assert found["maze", "total_steps"]["REPAIRED"] == "250000000"
    assert "ppo.gamma" in capsys.readouterr().out
    main(["paper", "--table", "circuits", "--out", str(tmp_path / "out")])
    assert "Silverstone Circuit" in (tmp_path / "out" / "table-5-circuits.md").read_text()


def refusal(arguments: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["paper", *arguments])
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_bad_input_ends_with_a_sentence(runs: Path, tmp_path: Path, capsys):
    assert "Name at least one run or study" in refusal([], capsys)
    assert "is not a run" in refusal([str(tmp_path / "nowhere")], capsys)
    broken = tmp_path / "broken"
    broken.mkdir()
    for table in ("variant,method,seed\ndr,dr,0\n", "name,age\nme,5\n"):
        (broken / "runs.csv").write_text(table)
        assert "make them again with tutelage study results" in refusal([str(broken)], capsys)
    assert not (tmp_path / "paper").exists()


@pytest.mark.skipif(chromium.PROGRAM is None, reason="No Chromium here.")
@pytest.mark.slow
def test_the_page_in_a_browser(written: Path):
    page = (written / "paper.html").as_uri()
    with chromium.browser() as tab:
        for width in (1200, 400):
            tab.show(page, width)
            assert tab.complaints == []
            assert [address for address in tab.requests if not address.startswith("data:")] == [page]
            assert tab.evaluate("document.querySelectorAll('section').length") == 1 + 10 + 7 + 2
            assert tab.evaluate("document.querySelectorAll('td b').length") > 10
            assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def tiny(setup: type, method: str) -> Config:
    config = setup.preset("tiny", method)
    return replace(config, total_steps=4 * config.num_envs * config.num_steps)


@pytest.mark.nightly
@pytest.mark.parametrize("setup", [MazeSetup, RacingSetup])
def test_runs_that_were_trained(setup: type, tmp_path: Path):
    for method in METHODS:
        train(tiny(setup, method), tmp_path / method, quiet=True)
    made = paper(find_results([tmp_path]))
    names = {exhibit.name.partition("-")[2] for exhibit in made.exhibits}
    assert {"levels", "returns", "complexity", "setting"} <= names


@pytest.mark.slow
def test_runs_that_were_trained_with_everything_there_is(tmp_path: Path):
    for method in ("dr", "repaired"):
        config = tiny(MazeSetup, method)
        both = replace(config.evaluation, more_suites=("robustness",))
        run = train(replace(config, evaluation=both), tmp_path / method, quiet=True)
        assert {row["suite"] for row in run.evaluations()} == {"maze", "robustness"}
    made = paper(find_results([tmp_path]))
    names = [exhibit.name for exhibit in made.exhibits]
    assert names[:6] == [f"maze-{name}" for name in NAMES["maze"][:6]]
    assert "maze-walls" in names


def test_runs_of_another_domain_are_named(tmp_path: Path, monkeypatch):
    """Once, they were left out without a word."""
    monkeypatch.setattr(MazeSetup, "name", "own")
    made = paper([write_run(tmp_path / "own", "dr")])
    reason = "The paper's domains are maze and racing: compare runs of others with tutelage compare."
    assert ("–", "All of own", reason) in made.missing


def test_a_method_of_another_name_is_compared_with_the_papers_setting(tmp_path: Path):
    config = made_up_config("plr", 0)
    config = replace(config, method=replace(config.method, name="mine"))
    write_run(tmp_path / "mine", "plr", config=config)
    made = paper(find_results([tmp_path]))
    [setting] = [exhibit for exhibit in made.exhibits if exhibit.name == "maze-setting"]
    assert setting.tables[0].head == ["option", "paper", "mine"]
    assert any(row[0] == "setup.size" for row in setting.tables[0].rows)
