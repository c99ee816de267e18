"""The verb `compare`: what it prints, what it writes, what it refuses."""

import csv
from pathlib import Path

import pytest
from made_up_runs import write_evaluations, write_run

from tutelage.analysis.compare import ALL
from tutelage.analysis.policy_results import PolicyResult
from tutelage.cli import main
from tutelage.files import csv_text, write_atomically

NAMES = ("bars-steps", "bars-updates", "levels-steps", "levels-updates", "training-steps", "training-updates", "iqm")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    for method, skill in (("dr", 0.3), ("plr-perp", 0.9)):
        for seed in range(2):
            write_run(tmp_path / method / f"seed-{seed}", method, seed, skill=skill)
    return tmp_path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_tables_files_and_figures(study: Path, capsys):
    out = study / "new" / "out"
    runs = [study / "dr", *(study / "plr-perp" / f"seed-{seed}" for seed in range(2))]
    main(["compare", *map(str, runs), "--out", str(out)])
    printed = capsys.readouterr().out
    assert "maze, suite paper: solved rate after 20,000 environment steps" in printed
    assert "gradient updates" in printed
    assert printed.count("plr-perp − dr") == 2
    assert f"Tables and figures are in {out}." in printed
    pictures = {f"{name}.{kind}" for name in (*NAMES, "improvement") for kind in ("svg", "png")}
    assert {file.name for file in out.iterdir()} == pictures | {"compare.csv", "tests.csv"}
    summaries, tests = rows(out / "compare.csv"), rows(out / "tests.csv")
    assert {(row["at"], row["method"]) for row in summaries} == {
        (at, method) for at in ("steps", "updates") for method in ("dr", "plr-perp")
    }
    assert len(summaries) == 2 * 2 * 4
    assert len(tests) == 2 * 4
    [overall] = [row for row in tests if row["level"] == ALL and row["at"] == "steps"]
    assert float(overall["difference"]) > 0.2
    assert float(overall["improvement"]) > 0.9


@pytest.mark.slow
def test_options(study: Path, capsys):
    arguments = ["compare", str(study / "dr"), "--suite", "paper", "--metric", "return", "--curves", "no/such"]
    main([*arguments, "--whole-runs", "--out", str(study / "out")])
    assert "suite paper: return after" in capsys.readouterr().out
    assert {row["metric"] for row in rows(study / "out" / "compare.csv")} == {"return"}
    files = {file.name for file in (study / "out").iterdir()}
    assert files.isdisjoint({"tests.csv", "improvement.svg"})  # there is only one method
    assert "training-steps.svg" not in files  # nor any such metric


@pytest.mark.slow
def test_ends_of_runs_of_any_length_and_their_regret(study: Path, capsys):
    for method, regret in (("dr", 0.3), ("plr-perp", 0.1)):
        for seed in range(2):
            about = ("x", 20_000, "robustness", "Random25", 1000, False, 0.5, 0.4, 0.6, 0.3, 0.01, 9.0)
            row = PolicyResult(*about, 0.1, 0.1, regret + 0.01 * seed, 0.1).row()
            write_atomically(study / method / f"seed-{seed}" / "eval-robustness.csv", csv_text([row], [*row]))
    main(["compare", str(study), "--suite", "paper", "--ends", "--out", str(study / "out")])
    printed = capsys.readouterr().out
    assert printed.count("plr-perp − dr") == 2  # at the end only, and their regret
    tested = printed[printed.index("Welch's test of true regret: plr-perp − dr") :].splitlines()
    # means 0.105 and 0.305; both variances are 5e-5, so t = −0.2 / √5e-5 = −28.28 with two degrees of freedom
    assert tested[2].split() == ["Random25", "2", "and", "2", "0.105", "and", "0.305", "-0.200", "-16.16", "0.0012"]
    assert {row["at"] for row in rows(study / "out" / "compare.csv")} == {"steps"}


def test_runs_that_meet_after_equal_steps_only(tmp_path: Path, capsys):
    write_evaluations(tmp_path / "dr", "dr", 0, {(100, 20): (0.1, 0.2)})
    write_evaluations(tmp_path / "perp", "plr-perp", 0, {(100, 10): (0.3, 0.4)})
    main(["compare", str(tmp_path / "dr"), str(tmp_path / "perp"), "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "dr was first evaluated after 20 updates, but" in printed
    assert "solved rate after 100 environment steps" in printed
    assert {row["at"] for row in rows(tmp_path / "out" / "compare.csv")} == {"steps"}


def refusal(arguments: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["compare", *arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("tutelage: ")
    assert error.count("\n") == 1
    return error


def test_bad_input_ends_with_a_sentence(study: Path, capsys):
    dr = str(study / "dr")
    assert "nowhere is not a run: it has no config.json" in refusal([str(study / "nowhere")], capsys)
    (study / "empty").mkdir()
    assert "empty is not a run and contains none" in refusal([str(study / "empty")], capsys)
    assert "are the same run" in refusal([dr, f"{dr}/seed-0"], capsys)
    assert "was not evaluated on the suite 'f1'" in refusal([dr, "--suite", "f1"], capsys)
    (study / "file").write_text("")
    assert "file is not a directory. Give --out another place" in refusal([dr, "--out", str(study / "file")], capsys)


def test_without_runs_nothing_is_compared(capsys):
    with pytest.raises(SystemExit):
        main(["compare"])
    assert "RUN" in capsys.readouterr().err.upper()
