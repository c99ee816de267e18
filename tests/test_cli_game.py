"""`tutelage game`: what it prints, what it draws and how it refuses bad input."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tutelage.cli import main

QUICK = ["--iterations", "30", "--runs", "2"]


def test_example_shows_the_theorem_and_both_corollaries(capsys):
    main(["game", "example", "--p", "0.5", "--levels", "10", "--epsilon", "0.1", *QUICK])
    printed = capsys.readouterr().out
    assert "Base game: 4 policies × 10 levels" in printed
    assert "R* = 0.5000" in printed
    assert "The paper's profile is an equilibrium" in printed
    assert "needs ε ≥ (1−p)B/N = 0.05" in printed
    # By hand: regret is 0.65 on two levels of ten, so uniform levels cost the curator 0.5 (0.65 − 0.13).
    assert "first    0.2600  1.0000" in printed
    assert "joint    0.1300  0.5000" in printed
    assert "0.6500 ≤ R* + 2(B⁺−B⁻)(1−p) = 1.5000; above R* by 0.1500" in printed
    assert "maximize regret\n  0.5000 to 0.5000; R* = 0.5000\n  equilibria found by pivoting: 1 " in printed
    assert all(f"  {name} " in printed for name in ("DR", "Minimax", "PAIRED", "PLR", "PLR⊥", "REPAIRED"))


def test_example_says_when_its_profile_is_no_equilibrium(capsys):
    main(["game", "example", "--levels", "10", "--epsilon", "0.02", *QUICK])
    printed = capsys.readouterr().out
    assert "The paper's profile is not an equilibrium" in printed
    assert "The student gains 0.03 by deviating." in printed


def test_matrix_of_the_users(tmp_path, capsys):
    path = tmp_path / "payoffs.csv"
    path.write_text("3,-1\n1,5\n")
    main(["game", "matrix", str(path), *QUICK])
    printed = capsys.readouterr().out
    assert "R* = 1.5000" in printed
    assert "student 0.25 π_0 + 0.75 π_1; teacher 0.75 θ_0 + 0.25 θ_1" in printed


def test_a_matrix_too_wide_for_the_screen_is_only_described(tmp_path, capsys):
    path = tmp_path / "payoffs.csv"
    path.write_text(",".join(map(str, range(30))) + "\n" + ",".join(map(str, range(30, 0, -1))) + "\n")
    main(["game", "matrix", str(path), *QUICK])
    printed = capsys.readouterr().out
    assert "2 policies × 30 levels\nMinimax" in printed


@pytest.mark.parametrize("p", ["0", "1"])
def test_the_ends_of_p(p: str, capsys):
    main(["game", "example", "--p", p, *QUICK])
    assert "is an equilibrium" in capsys.readouterr().out


def test_the_same_seed_prints_the_same(capsys):
    printed = []
    for seed in ("1", "1", "2"):
        main(["game", "example", "--seed", seed, *QUICK])
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]


@pytest.mark.parametrize("constant", [False, True], ids=["matrix", "nothing at stake"])
def test_figures_are_drawn_and_nothing_else_is_left(tmp_path, capsys, constant: bool):
    path, out = tmp_path / "payoffs.csv", tmp_path / "new" / "figures"
    path.write_text("1,1\n1,1\n" if constant else "3,-1\n1,5\n")
    main(["game", "matrix", str(path), "--out", str(out), *QUICK])
    assert sorted(file.name for file in out.iterdir()) == ["regret_by_p.png", "regret_over_time.png"]
    printed = capsys.readouterr().out
    for file in out.iterdir():
        assert str(file) in printed
        with Image.open(file) as image:
            assert image.format == "PNG"
            assert image.width > 1000


def refusal(arguments: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["game", *arguments, *QUICK])
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("tutelage: ")
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["example", "--p", "1.5"], "make it a number from 0 to 1, not 1.5"),
        (["example", "--epsilon", "0.3"], "needs an ε from 0 to (1−p)B/2 = 0.25, not 0.3"),
        (["example", "--levels", "-1"], "has from 3 to 100000 levels, not -1"),
        (["example", "--B", "nan"], "make it a positive number from 1e-100 to 1e+100, not nan"),
        (["example", "--seed", "-1"], "A seed is a whole number from 0 upwards"),
        (["matrix", "nowhere.csv"], "give the path of a CSV file"),
    ],
)
def test_bad_input_ends_with_a_sentence(arguments: list[str], sentence: str, capsys):
    assert sentence in refusal(arguments, capsys)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,2\n3\n", "give every policy a payoff on every level"),
        ("1,nan\n", "make every payoff 0 or a finite number"),
        ("1e-320,0\n0,1e-320\n", "row 1, column 1 is 1e-320; make every payoff 0 or a finite number"),
    ],
)
def test_a_bad_matrix_ends_with_a_sentence(tmp_path, text: str, sentence: str, capsys):
    path = tmp_path / "payoffs.csv"
    path.write_text(text)
    assert sentence in refusal(["matrix", str(path)], capsys)


def test_too_many_iterations_and_runs_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["game", "example", "--iterations", str(10**9), "--runs", str(10**5)])
    assert "iterations × runs can be 4000000 at most" in capsys.readouterr().err


def test_a_game_too_large_to_search_says_so_and_goes_on(tmp_path, capsys):
    path = tmp_path / "payoffs.csv"
    path.write_text("\n".join(",".join(str((i * j) % 997) for j in range(1, 401)) for i in (1, 2)))
    main(["game", "matrix", str(path), *QUICK])
    printed = capsys.readouterr().out
    assert "Equilibria are searched for in games of at most 400 policies and levels together." in printed
    assert "  REPAIRED " in printed


def test_figures_need_a_directory(tmp_path, capsys):
    occupied: Path = tmp_path / "file"
    occupied.write_text("")
    with pytest.raises(SystemExit):
        main(["game", "example", "--out", str(occupied), *QUICK])
    assert f"{occupied} cannot be read or written" in capsys.readouterr().err
