"""An evaluation plays exactly N episodes on every level, the same ones for everybody."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Aim, Wait, small

from tutelage.domains import maze
from tutelage.evaluation import evaluate
from tutelage.evaluation.baselines import optimal_results, random_results, uniform_network, untrained_results
from tutelage.evaluation.evaluate import Draws, Evaluator, LevelResult, draw_groups
from tutelage.learning.policy import fresh_params
from tutelage.networks.maze_student import MazeStudent, maze_student
from tutelage.types import Box, Discrete, Domain, InputError, TestLevel

KEY = jax.random.key(0)
MAZES = maze.domain(size=7, blocks=6, view=3, max_steps=24)
STUDENT = maze_student(MazeStudent(hidden=8, head=(8,), filters=2))
ENTRIES = {entry.name: entry for entry in MAZES.suites["maze"]}
FEW = tuple(ENTRIES[name] for name in ("PerfectMaze11", "SimpleCrossing"))


def short_or_long(key):
    return jnp.where(jax.random.bernoulli(key, 0.5), Wait().horizon, 1)


WAIT = Domain(
    "wait",
    Wait(),
    design=None,
    suites={"tests": (TestLevel("coin", Wait(), short_or_long), TestLevel("long", Wait(), lambda _: jnp.int32(40)))},
)
COIN, LONG = WAIT.suites["tests"]


def test_regret_by_hand():
    optimal = np.linspace(1.0, 1.0, 20, dtype=np.float32)
    returns = np.where(np.arange(20) < 3, [0.0] * 20, 0.9).astype(np.float32)  # three failures among twenty
    score = LevelResult("x", returns, None, 0.0, optimal)
    assert score.regret() == pytest.approx((3 * 1 + 17 * 0.1) / 20, abs=1e-6)
    assert score.regret(0.1) == 1.0, "the worst two are failures"
    assert score.regret(0.2) == pytest.approx((3 + 0.1) / 4, abs=1e-6)
    assert score.regret(0.01) is None, "less than one episode"
    assert LevelResult("x", returns, None, 0.0).regret() is None


@pytest.fixture(scope="module")
def params():
    return jax.jit(lambda key: fresh_params(MAZES, STUDENT, key))(KEY)


@pytest.fixture(scope="module")
def evaluator():
    return Evaluator(MAZES, FEW, STUDENT, episodes=6)


def test_short_episodes_are_not_favored():
    """Whoever counts the first N episodes to end sees hardly any that take forty times as long."""
    episodes = 200
    (score,) = Evaluator(WAIT, (COIN,), uniform_network(Discrete(2)), episodes)((), KEY)
    keys = jax.vmap(lambda number: evaluate.episode_keys(KEY, "coin", number)[0])(jnp.arange(episodes))
    np.testing.assert_array_equal(score.lengths, jax.vmap(short_or_long)(keys))
    assert 0.4 < np.mean(score.lengths == 40) < 0.6
    assert score.episodes == episodes
    assert score.solved is None


def test_a_levels_score_does_not_depend_on_the_others_nor_on_devices():
    policy = uniform_network(Discrete(2))
    both = Evaluator(WAIT, (COIN, LONG), policy, 7)((), KEY)
    alone = [*Evaluator(WAIT, (LONG,), policy, 7)((), KEY), *Evaluator(WAIT, (COIN,), policy, 7, devices=1)((), KEY)]
    for one, other in zip(both, reversed(alone), strict=True):
        assert one.level == other.level
        np.testing.assert_array_equal(one.returns, other.returns)
        np.testing.assert_array_equal(one.lengths, other.lengths)


def test_more_episodes_begin_with_the_same_ones():
    policy = uniform_network(Discrete(2))
    (few,), (many,) = (Evaluator(WAIT, (COIN,), policy, n)((), KEY) for n in (3, 9))
    np.testing.assert_array_equal(few.returns, many.returns[:3])


def names(kinds):
    return [[[level.name for level in draws.levels] for draws in kind] for kind in kinds]


def test_levels_of_a_kind_share_a_program():
    assert names(draw_groups(MAZES.suites["paper"], 2)) == [
        [["SixteenRooms", "SixteenRooms2", "Labyrinth", "Labyrinth2", "Maze", "Maze2"]],
        [["LargeCorridor", "PerfectMaze"]],
    ]


@pytest.mark.slow
def test_large_levels_that_never_change_are_played_apart_by_one_program(monkeypatch, params):
    levels = [ENTRIES[name] for name in ("SixteenRooms", "NineRooms")]
    together = Evaluator(MAZES, levels, STUDENT, 3)
    monkeypatch.setattr(evaluate, "MEMORY", 40_000)
    assert names(draw_groups((*levels, ENTRIES["SmallCorridor"]), 3)) == [
        [["SixteenRooms", "NineRooms", "SmallCorridor"]]
    ], "the corridor is drawn anew for every episode"
    assert names(draw_groups(levels, 3)) == [[["SixteenRooms"], ["NineRooms"]]]
    apart = Evaluator(MAZES, levels, STUDENT, 3)
    assert len({id(program) for _, program in apart._groups}) == 1
    for one, other in zip(together(params, KEY), apart(params, KEY), strict=True):
        np.testing.assert_array_equal(one.returns, other.returns)


def test_a_fixed_level_is_loaded_once_and_large_scenes_get_few_envs(monkeypatch):
    fixed, drawn = (Draws([ENTRIES[name]], 50) for name in ("Labyrinth", "SmallCorridor"))
    assert fixed.same_level
    assert not drawn.same_level
    monkeypatch.setattr(evaluate, "MEMORY", 40_000)  # a maze's scene takes some 8 kB
    assert evaluate._num_envs(fixed, 50) == 16
    assert 1 <= evaluate._num_envs(drawn, 50) < 16
    assert evaluate._num_envs(fixed, 1000) == 64


@pytest.mark.slow
def test_scores_come_in_order_and_their_statistics_are_right(evaluator, params):
    told = []
    scores = evaluator(params, KEY, told.append)
    assert [score.level for score in scores] == ["PerfectMaze11", "SimpleCrossing"]
    assert sum(told) == 2
    score = LevelResult("a", np.array([0.0, 0.5, 1.0, 0.0], np.float32), np.array([9, 2, 3, 10]), 0.0)
    assert score.solved == 0.5
    assert score.mean_return == 0.375
    assert score.return_error == pytest.approx(np.std([0, 0.5, 1, 0], ddof=1) / 2)
    assert score.mean_length == 6
    assert np.isnan(replace(score, returns=score.returns[:1]).return_error)


def test_an_evaluation_is_the_same_again_and_greed_needs_no_dice(evaluator, params):
    for score, again in zip(evaluator(params, KEY), evaluator(params, KEY), strict=True):
        np.testing.assert_array_equal(score.returns, again.returns)
    fixed = (ENTRIES["SixteenRooms"],)
    (greedy,) = Evaluator(MAZES, fixed, STUDENT, 4, greedy=True)(params, KEY)
    assert len(set(greedy.lengths.tolist())) == 1
    assert len(set(greedy.returns.tolist())) == 1


def test_nobody_beats_the_oracle_on_any_level(evaluator, params):
    best = optimal_results(MAZES, FEW, 6, KEY)
    for scores in (evaluator(params, KEY), untrained_results(evaluator, STUDENT, KEY)):
        for score, optimum in zip(scores, best, strict=True):
            assert (score.returns <= optimum.returns).all()
    for optimum in best:
        assert optimum.solved == 1
        assert optimum.mean_length is None


def test_random_actions_solve_some_levels_but_only_those_that_can_be():
    easy = (TestLevel("Easy", replace(MAZES.env, max_steps=200), MAZES.design.sample),)
    (score,), (optimum,) = (scores(MAZES, easy, 30, KEY) for scores in (random_results, optimal_results))
    assert score.solved > 0.2
    assert (score.returns <= optimum.returns).all()
    assert score.mean_return < optimum.mean_return


def test_the_oracle_keeps_to_the_limit_of_the_test_level():
    """Labyrinth takes 113 actions: more than these agents had in training, but not more than the test allows."""
    assert MAZES.env.horizon < 113
    (score,) = optimal_results(MAZES, (ENTRIES["Labyrinth"],), 3, KEY)
    np.testing.assert_allclose(score.returns, 1 - 113 / 450, rtol=1e-6)
    with pytest.raises(InputError, match="no oracle"):
        optimal_results(WAIT, (COIN,), 1, KEY)


def test_the_random_policy_is_uniform():
    first = jnp.zeros((1, 1000), bool)
    keys = jax.random.split(KEY, 1000)

    def draw(space):
        _, head = uniform_network(space).apply((), (), None, first)
        policy = jax.tree.map(lambda x: x[0], head.policy)
        return np.asarray(jax.vmap(type(policy).sample)(policy, keys))

    counts = np.bincount(draw(Discrete(4)), minlength=4)
    assert (abs(counts - 250) < 60).all()
    box = draw(Box((-1.0, 0.0), (1.0, 3.0)))
    np.testing.assert_allclose(box.mean(0), [0, 1.5], atol=0.15)
    np.testing.assert_allclose(np.quantile(box, 0.25, axis=0), [-0.5, 0.75], atol=0.15)


def test_real_actions_can_be_evaluated():
    """Greedy Beta policies take the mean, which for the sign that is seen earns the same each time."""
    domain = Domain("aim", Aim(), None, {"tests": (TestLevel("aim", Aim(), lambda _: ()),)}, solved_above=-1.0)
    network = small(1)
    params = network.init(KEY, jnp.zeros((1, 1, 1)))
    (score,) = Evaluator(domain, domain.suites["tests"], network, 20, greedy=True)(params, KEY)
    assert len(set(score.returns.tolist())) == 2
    assert (score.lengths == 1).all()


def test_no_episodes_are_refused():
    with pytest.raises(InputError, match="at least one episode"):
        Evaluator(MAZES, FEW, STUDENT, 0)
