"""The theory: games by hand, random games against the paper's bounds, and the methods' ideal dynamics."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from enumeration import equilibria
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tutelage import games
from tutelage.games.dynamics import DR, IDEAL_METHODS, PAIRED, PLR, PLR_PERP, REPAIRED
from tutelage.types import InputError

MATCHING = np.eye(2)
"""Each of two policies earns 1 on its own level and 0 on the other."""


def random_payoffs(rng: np.random.Generator, most: int) -> np.ndarray:
    """Half of them continuous; half small integers, among which ties abound."""
    shape = tuple(rng.integers(1, most + 1, 2))
    return rng.normal(size=shape) if rng.random() < 0.5 else rng.integers(-2, 3, shape).astype(float)


def random_game(rng: np.random.Generator) -> games.DualCurriculumGame:
    payoffs, first, second = rng.normal(size=(3, *rng.integers(2, 4, 2)))
    return games.DualCurriculumGame(payoffs, first, second, rng.random())


# Base games


def test_regret_is_what_is_lost_against_the_best_policy_for_each_level():
    payoffs = np.array([[3.0, 0.0, -1.0], [1.0, 0.0, 5.0]])
    np.testing.assert_array_equal(games.regret(payoffs), [[0, 0, 6], [2, 0, 0]])


def test_minimax_regret_by_hand():
    # Regrets are [[0, 6], [2, 0]]: a share x of the second policy costs 2x on one level, 6(1−x) on another.
    student, teacher, value = games.minimax_regret(np.array([[3.0, -1.0], [1.0, 5.0]]))
    np.testing.assert_allclose(student, [1 / 4, 3 / 4])
    np.testing.assert_allclose(teacher, [3 / 4, 1 / 4])
    assert value == pytest.approx(1.5)


def test_a_policy_that_is_best_everywhere_has_no_regret():
    student, _, value = games.minimax_regret(np.array([[1.0, 2.0], [1.0, 3.0]]))
    assert value == 0
    assert games.worst_case_regret(np.array([[1.0, 2.0], [1.0, 3.0]]), student) == 0


@pytest.mark.slow
def test_minimax_regret_is_a_saddle_point_of_random_games():
    rng = np.random.default_rng(0)
    for _ in range(500):
        payoffs = random_payoffs(rng, most=8)
        student, teacher, value = games.minimax_regret(payoffs)
        assert max(games.base_gaps(payoffs, games.regret(payoffs), student, teacher)) <= 1e-9
        assert games.worst_case_regret(payoffs, student) == pytest.approx(value, abs=1e-9)


def test_minimax_regret_does_not_depend_on_units():
    payoffs = np.random.default_rng(0).normal(size=(4, 5))
    value = games.minimax_regret(payoffs).value
    for scale in (1e-8, 1e8):
        assert games.minimax_regret(scale * payoffs).value == pytest.approx(scale * value, rel=1e-9)


def test_base_gaps_by_hand():
    gaps = games.base_gaps(MATCHING, games.regret(MATCHING), np.array([1.0, 0.0]), np.array([0.25, 0.75]))
    assert gaps == (0.5, 0.25)  # the second policy earns ¾, not ¼; the second level alone has regret 1, not ¾


# The dual curriculum game


def test_dual_gaps_by_hand():
    game = games.DualCurriculumGame(MATCHING, games.regret(MATCHING), games.adversarial(MATCHING), p=0.75)
    profile = games.Profile(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    np.testing.assert_array_equal(game.mixture(profile), [0.125, 0.875])
    # The student would rather play its second policy, and the second teacher its second level only.
    assert game.gaps(profile) == (0.75, 0.0, 0.5)
    assert not game.is_equilibrium(profile)


def test_a_teachers_gap_does_not_vanish_with_its_share():
    profile = games.Profile(np.array([1.0, 0.0]), np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    assert games.robust_game(MATCHING, p=0).gaps(profile) == (0, 1, 1)


def test_enumeration_finds_both_pure_equilibria_and_the_mixed_one():
    coordination = games.DualCurriculumGame(MATCHING, MATCHING, MATCHING, p=1)
    students = {tuple(profile.student) for profile in equilibria(coordination)}
    assert students == {(1, 0), (0, 1), (0.5, 0.5)}


@pytest.mark.slow
@pytest.mark.parametrize("number", [300, pytest.param(2000, marks=pytest.mark.nightly)])
def test_theorem_1_bounds_hold_at_every_equilibrium_of_random_games(number: int):
    rng = np.random.default_rng(number)
    nearest, most = np.zeros(3), 0
    for _ in range(number):
        game = random_game(rng)
        found = list(equilibria(game))
        # Every non-degenerate finite game has an odd number (Wilson, 1971): a missed or false one would show.
        assert len(found) % 2 == 1
        most = max(most, len(found))
        for profile in found:
            assert max(game.gaps(profile)) <= 1e-9
            rows = games.theorem_1(game, profile)
            for row in rows:
                assert row.gap <= row.bound + 1e-9
            nearest = np.maximum(nearest, [row.gap / row.bound for row in rows])
    assert most > 1
    assert (nearest > 0.5).all()  # the bounds are no idle ones


def test_theorem_1_bounds_are_attained():
    # With one policy only the teachers matter. All is alike to the second; it picks the worst for the first.
    p = 0.3
    game = games.DualCurriculumGame(np.zeros((1, 2)), np.array([[2.0, 0.0]]), np.array([[1.0, 1.0]]), p)
    profile = games.Profile(np.ones(1), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert game.is_equilibrium(profile)
    first, second, joint = games.theorem_1(game, profile)
    assert game.difference == 1
    assert first.gap == pytest.approx(first.bound) == pytest.approx(2 * (1 - p))
    assert joint.gap == pytest.approx(joint.bound) == pytest.approx(2 * p * (1 - p))
    assert second.gap == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [300, pytest.param(2000, marks=pytest.mark.nightly)])
def test_plr_equilibria_obey_theorem_1_and_corollary_1(number: int):
    rng = np.random.default_rng(number)
    for _ in range(number):
        payoffs, p = random_payoffs(rng, most=6), rng.choice([0, 1, rng.random()])
        game, profile = games.plr_game(payoffs, p), games.plr_equilibrium(payoffs, p)
        assert max(game.gaps(profile)) <= 1e-9
        np.testing.assert_array_equal(profile.second, games.uniform(payoffs.shape[1]))
        for row in games.theorem_1(game, profile):
            assert row.gap <= row.bound + 1e-9
        worst, optimum, bound = games.corollary_1(payoffs, p, profile.student)
        assert optimum - 1e-9 <= worst <= bound + 1e-9
        # Regret is never negative, which spares half of the corollary's bound (docs/theory.md).
        assert worst <= optimum + np.ptp(payoffs) * (1 - p) + 1e-9


def test_without_random_levels_plr_has_minimax_regret_and_without_replay_it_is_dr():
    rng = np.random.default_rng(4)
    for _ in range(50):
        payoffs = rng.normal(size=(4, 5))
        always, never = games.sweep(payoffs, [1, 0])
        assert always.regret == pytest.approx(always.optimum) == pytest.approx(always.bound)
        best_on_average = np.eye(4)[payoffs.mean(axis=1).argmax()]
        assert never.regret == pytest.approx(games.worst_case_regret(payoffs, best_on_average))


@pytest.mark.parametrize("integers", [False, True], ids=["continuous", "ties"])
def test_pivoting_finds_equilibria_of_any_base_game(integers: bool):
    rng = np.random.default_rng(13)
    for _ in range(100):
        shape = (2, *rng.integers(1, 7, 2))
        payoffs, utility = rng.integers(-2, 3, shape).astype(float) if integers else rng.normal(size=shape)
        for label in range(sum(payoffs.shape)):
            assert max(games.base_gaps(payoffs, utility, *games.lemke_howson(payoffs, utility, label))) <= 1e-9


def test_pivoting_from_different_labels_finds_different_equilibria():
    found = {tuple(games.lemke_howson(MATCHING, MATCHING, label)[0]) for label in range(4)}
    assert found == {(1, 0), (0, 1)}


def test_pivoting_finds_only_what_enumeration_finds():
    rng = np.random.default_rng(14)
    for _ in range(50):
        payoffs, utility = rng.normal(size=(2, *rng.integers(2, 4, 2)))
        game = games.DualCurriculumGame(payoffs, utility, utility, 1.0)
        students = [profile.student for profile in equilibria(game)]
        for label in range(sum(payoffs.shape)):
            student, _ = games.lemke_howson(payoffs, utility, label)
            assert min(np.abs(student - other).max() for other in students) < 1e-9


@pytest.mark.slow
def test_corollary_2_holds_at_the_equilibria_that_pivoting_finds():
    rng = np.random.default_rng(15)
    for _ in range(200):
        payoffs, p = random_payoffs(rng, most=7), rng.random()
        profiles, regrets, optimum = games.corollary_2(payoffs, p)
        assert profiles
        assert all(games.robust_game(payoffs, p).is_equilibrium(profile) for profile in profiles)
        np.testing.assert_allclose(regrets, optimum, atol=1e-9)
        assert optimum == pytest.approx(games.minimax_regret(payoffs).value)


def test_corollary_2_leaves_out_what_equals_other_policies_and_levels():
    payoffs = np.tile([[3.0, -1.0], [1.0, 5.0]], (3, 400))
    profiles, regrets, _ = games.corollary_2(payoffs, 0.5)
    assert len(profiles) == 1
    assert regrets == [pytest.approx(1.5)]
    with pytest.raises(InputError, match="at most 400 policies and levels together"):
        games.corollary_2(np.random.default_rng(0).random((2, 400)), 0.5)


def test_corollary_2_equilibria_of_two_regret_teachers_are_minimax_regret():
    # The equilibria are found by enumeration, R* by linear programming.
    rng = np.random.default_rng(5)
    for _ in range(100):
        payoffs = rng.normal(size=rng.integers(2, 4, 2))
        found = list(equilibria(games.robust_game(payoffs, rng.random())))
        assert found
        for profile in found:
            regret = games.worst_case_regret(payoffs, profile.student)
            assert regret == pytest.approx(games.minimax_regret(payoffs).value, abs=1e-9)


# The paper's example


def test_example_is_the_papers_table():
    np.testing.assert_array_equal(
        games.example_payoffs(b=8, p=0.5, epsilon=1, levels=4),
        [
            [8, 0, 0, 0],  # B, 0, 0 …
            [0, 8, 0, 0],  # 0, B, 0 …
            [6, 0, 3, 3],  # Bp + 2ε, 0, Bp/2 + ε …
            [0, 6, 3, 3],  # 0, Bp + 2ε, Bp/2 + ε …
        ],
    )


@settings(deadline=None)
@given(b=st.floats(0.1, 100), p=st.floats(0, 0.99), n=st.integers(3, 31), share=st.floats(0, 1))
def test_example_is_an_equilibrium_exactly_from_the_least_epsilon_on(b: float, p: float, n: int, share: float):
    epsilon, least = share * games.greatest_epsilon(b, p), games.least_epsilon(b, p, n)
    assume(abs(epsilon - least) > 1e-6 * b)
    payoffs, profile = games.example_payoffs(b, p, epsilon, n), games.example_profile(n)
    game = games.plr_game(payoffs, p)
    assert game.is_equilibrium(profile) == (epsilon > least)
    assert game.gaps(profile).student == pytest.approx(max(0, least - epsilon), abs=1e-9 * b)
    worst, optimum, bound = games.corollary_1(payoffs, p, profile.student)
    assert optimum == pytest.approx(b / 2)
    assert worst == pytest.approx(b * (1 - p / 2) - epsilon)
    assert bound == pytest.approx(b / 2 + 2 * b * (1 - p))


def test_linear_program_finds_the_examples_equilibrium():
    payoffs = games.example_payoffs(1, 0.5, games.default_epsilon(1, 0.5, 21), 21)
    np.testing.assert_allclose(games.plr_equilibrium(payoffs, 0.5).student, [0, 0, 0.5, 0.5])


def test_example_regret_decays_linearly_in_p_down_to_the_optimum():
    shares = np.linspace(0, 1, 11).tolist()
    worst, optimum, bound = np.array(games.example_sweep(2, 51, shares)).T
    np.testing.assert_allclose(np.diff(worst, n=2), 0, atol=1e-12)
    np.testing.assert_allclose(optimum, 1)
    assert worst[-1] == pytest.approx(optimum[-1])
    np.testing.assert_allclose((worst - optimum)[:-1] / (bound - optimum)[:-1], 1 / 4 - 1 / 102)  # a constant factor


@pytest.mark.parametrize("n", [3, 6, 1001])
@pytest.mark.parametrize("p", [0, 0.5, 1])
def test_default_epsilon_is_allowed(p: float, n: int):
    payoffs = games.example_payoffs(1, p, games.default_epsilon(1, p, n), n)
    assert games.plr_game(payoffs, p).is_equilibrium(games.example_profile(n))


# Dynamics


def final_regrets(payoffs: np.ndarray, p: float, iterations: int) -> dict[str, float]:
    return {
        name: games.worst_case_over_time(payoffs, method, p, iterations, 8, np.random.default_rng(0))[:, -1].mean()
        for name, method in IDEAL_METHODS.items()
    }


@pytest.mark.slow
def test_on_the_example_only_regret_without_random_levels_leads_to_the_optimum():
    p, n = 0.5, 21
    payoffs = games.example_payoffs(1, p, games.default_epsilon(1, p, n), n)
    equilibrium, optimum, _ = games.corollary_1(payoffs, p, games.example_profile(n).student)
    regrets = final_regrets(payoffs, p, iterations=4000)
    for name in ("PLR⊥", "REPAIRED", "PAIRED"):
        assert optimum <= regrets[name] < optimum + 0.03
    for name in ("PLR", "Minimax"):
        assert regrets[name] == pytest.approx(equilibrium, abs=0.03)
    # to DR's student π_2 and π_3 are alike, and no curator holds them in balance
    assert equilibrium - 0.001 <= regrets["DR"] < 1
    assert equilibrium > optimum + 0.2


def test_curves_of_plr_perp_and_repaired_keep_approaching_the_optimum():
    payoffs = games.example_payoffs(1, 0.5, games.default_epsilon(1, 0.5, 21), 21)
    for method in (PLR_PERP, REPAIRED):
        curve = games.worst_case_over_time(payoffs, method, 0.5, 4000, 8, np.random.default_rng(0)).mean(axis=0)
        excess = curve[[499, 999, 1999, 3999]] - 0.5
        assert (excess[1:] < 0.8 * excess[:-1]).all()


@pytest.mark.slow
def test_regret_methods_reach_the_optimum_of_random_matrices():
    rng = np.random.default_rng(6)
    for _ in range(2):
        payoffs = rng.random((4, 6))
        optimum = games.minimax_regret(payoffs).value
        regrets = final_regrets(payoffs, p=0.5, iterations=2000)
        assert all(regret >= optimum - 1e-9 for regret in regrets.values())
        for name in ("PLR⊥", "REPAIRED", "PAIRED"):
            assert regrets[name] < optimum + 0.05


@pytest.mark.parametrize(
    ("method", "same"),
    [(PLR, DR), (replace(REPAIRED, train_on_new=True), PAIRED)],
    ids=["PLR is DR", "REPAIRED is PAIRED"],
)
def test_without_replay_a_curator_changes_nothing(method: games.IdealMethod, same: games.IdealMethod):
    payoffs = np.random.default_rng(7).normal(size=(3, 4))
    curves = [games.worst_case_over_time(payoffs, m, 0.0, 50, 3, np.random.default_rng(8)) for m in (method, same)]
    np.testing.assert_array_equal(*curves)


def test_without_replay_plr_perp_never_changes_the_student():
    payoffs = np.random.default_rng(9).normal(size=(3, 4))
    curves = games.worst_case_over_time(payoffs, PLR_PERP, 0.0, 50, 3, np.random.default_rng(10))
    np.testing.assert_allclose(curves, games.worst_case_regret(payoffs, games.uniform(3)))


def test_dynamics_do_not_depend_on_units():
    payoffs = np.random.default_rng(11).normal(size=(3, 4))
    for method in IDEAL_METHODS.values():
        one, thousand = (
            games.worst_case_over_time(scale * payoffs, method, 0.5, 100, 2, np.random.default_rng(12))
            for scale in (1, 1024)
        )
        np.testing.assert_allclose(1024 * one, thousand)


# Bad input


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "1,2\n3\n",
            "line 2 has 1 numbers where the lines above have 2; give every policy a payoff on every level",
        ),
        ("1,2\n3,nan\n", "row 2, column 2 is nan; make every payoff 0 or a finite number"),
        ("1,inf\n", "row 1, column 2 is inf"),
        (
            "1,0\n0,1e-320\n",
            "row 2, column 2 is 1e-320; make every payoff 0 or a finite number whose size is from 1e-100",
        ),
        ("1,one\n", "line 1: could not convert string to float: 'one'; write numbers separated by commas"),
        ("# nothing\n\n", "holds no numbers; write one line of payoffs for each policy"),
    ],
)
def test_a_bad_matrix_is_refused_with_a_sentence(tmp_path, text: str, sentence: str):
    path = tmp_path / "payoffs.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        games.read_payoffs(path)
    assert sentence in str(error.value)


def test_a_good_matrix_is_read(tmp_path):
    path = tmp_path / "payoffs.csv"
    path.write_text("# two policies\n1, 2.5,-3\n\n0,1e2,4\n")
    np.testing.assert_array_equal(games.read_payoffs(path), [[1, 2.5, -3], [0, 100, 4]])


def test_a_missing_file_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(InputError, match="cannot be read as text"):
        games.read_payoffs(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("values", [[], [1.0, 2.0], [[]]])
def test_payoffs_are_a_matrix(values: list):
    with pytest.raises(InputError, match="a row for each policy and a column for each level"):
        games.check_payoffs(values)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_p_is_a_probability(p: float):
    for use in (
        lambda: games.plr_game(MATCHING, p),
        lambda: games.plr_equilibrium(MATCHING, p),
        lambda: games.example_payoffs(1, p, 0, 5),
        lambda: games.worst_case_over_time(MATCHING, DR, p, 1, 1, np.random.default_rng(0)),
    ):
        with pytest.raises(InputError, match="make it a number from 0 to 1"):
            use()


def test_utilities_have_the_payoffs_shape():
    with pytest.raises(InputError, match="both utilities need one row for each policy"):
        games.DualCurriculumGame(MATCHING, MATCHING, np.ones((2, 3)), 0.5)


@pytest.mark.parametrize(
    ("b", "epsilon", "n", "sentence"),
    [
        (
            1,
            0.26,
            10,
            r"needs an ε from 0 to \(1−p\)B/2 = 0.25, not 0.26; .* choose at least \(1−p\)B/N = 0.05",
        ),
        (1, -0.1, 10, "needs an ε from 0"),
        (1, float("nan"), 10, "needs an ε from 0"),
        (0, 0.0, 10, "make it a positive number from 1e-100 to 1e[+]100, not 0"),
        (1, 0.1, 2, "has from 3 to 100000 levels, not 2"),
        (1, 0.1, 10**9, "has from 3 to 100000 levels"),
    ],
)
def test_the_example_says_what_it_needs(b: float, epsilon: float, n: int, sentence: str):
    with pytest.raises(InputError, match=sentence):
        games.example_payoffs(b, 0.5, epsilon, n)


@pytest.mark.parametrize(("iterations", "runs"), [(10**9, 10**5), (10**7, 1), (1, 10**7)])
def test_dynamics_that_would_take_too_long_are_refused(iterations: int, runs: int):
    with pytest.raises(InputError, match="iterations × runs can be 4000000 at most"):
        games.worst_case_over_time(MATCHING, DR, 0.5, iterations, runs, np.random.default_rng(0))


def test_the_bound_on_dynamics_falls_with_the_size_of_the_game():
    with pytest.raises(InputError, match="iterations × runs can be 10000 at most"):
        games.worst_case_over_time(np.ones((1000, 1000)), DR, 0.5, 10_001, 1, np.random.default_rng(0))


@pytest.mark.parametrize("scale", [1e-320, 1e-100, 1e99])
def test_very_small_and_very_large_payoffs_give_numbers(scale: float):
    payoffs = scale * np.array([[1.0, 0.0], [-3.0, 2.0]])
    for method in IDEAL_METHODS.values():
        curves = games.worst_case_over_time(payoffs, method, 0.5, 20, 2, np.random.default_rng(0))
        assert np.isfinite(curves).all()
    assert np.isfinite(games.corollary_1(payoffs, 0.5, games.plr_equilibrium(payoffs, 0.5).student)).all()


def test_the_theory_does_not_load_matplotlib():
    # in place of the package's own __init__, which imports more
    stub = "import sys, types; sys.modules['tutelage'] = types.ModuleType('tutelage')"
    path = f"sys.modules['tutelage'].__path__ = [{str(Path(games.__file__).parents[1])!r}]"
    code = f"{stub}; {path}; import tutelage.games; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tutelage.games.dual" in done.stdout
    assert "matplotlib" not in done.stdout
    assert "scipy.optimize" not in done.stdout


def test_dynamics_need_at_least_one_run():
    with pytest.raises(InputError, match="at least one iteration and one run"):
        games.worst_case_over_time(MATCHING, DR, 0.5, 10, 0, np.random.default_rng(0))
