"""The zero-shot test mazes."""

from dataclasses import replace
from functools import partial
from importlib import resources

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.domains import maze
from tutelage.domains.maze.env import MazeEnv
from tutelage.domains.maze.level import show, valid
from tutelage.domains.maze.oracle import fewest_actions, optimal_return
from tutelage.domains.maze.suite import (
    COPIES,
    DRAWINGS,
    PAPER,
    corridor,
    drawing,
    four_rooms,
    perfect_maze,
    simple_crossing,
    suites,
)

SOLVE = jax.jit(jax.vmap(lambda level: (valid(level), fewest_actions(level))))


def _draw(family, count, seed=0):
    levels = jax.jit(jax.vmap(family))(jax.random.split(jax.random.key(seed), count))
    is_valid, actions = SOLVE(levels)
    assert bool(is_valid.all())
    assert int(actions.min()) > 0, "every test maze can be solved"
    return levels


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_are_read_exactly_and_can_be_solved(name):
    text = (resources.files(maze) / "mazes" / f"{name}.txt").read_text()
    level = drawing(name)
    assert show(level) == text.rstrip("\n")
    assert bool(valid(level))
    assert int(fewest_actions(level)) > 0


def test_labyrinth2_is_labyrinth_turned_clockwise_by_a_quarter():
    one, other = drawing("Labyrinth"), drawing("Labyrinth2")

    def turned(cell):
        row, column = cell.tolist()
        return [column, len(one.walls) - 1 - row]

    assert np.array_equal(other.walls, np.rot90(one.walls, -1))
    assert other.agent.tolist() == turned(one.agent)
    assert other.goal.tolist() == turned(one.goal)


def test_suites():
    env = MazeEnv(view=5, see_through=False, reward="minigrid")
    entries = {entry.name: entry for entry in suites(env)["maze"]}
    assert [entry.name for entry in suites(env)["paper"]] == list(PAPER)
    assert len(PAPER) == 8
    assert len(entries) == len(suites(env)["maze"]) == 17
    sizes = {name: jax.eval_shape(entry.draw, jax.random.key(0)).walls.shape for name, entry in entries.items()}
    for name, entry in entries.items():
        height, width = sizes[name]
        assert height == width
        assert entry.env == MazeEnv(5, False, 2 * height**2, "minigrid")
    assert {name: sizes[name][0] for name in ("Maze", "LargeCorridor", "PerfectMaze", "FourRooms")} == {
        "Maze": 15,
        "LargeCorridor": 21,
        "PerfectMaze": 21,
        "FourRooms": 19,
    }
    assert suites(env) is suites(replace(env)), "rebuilding a suite would compile it anew"


def test_domain():
    domain = maze.domain(blocks=50, vary_blocks=True)
    assert domain.env == MazeEnv()
    assert list(domain.suites) == ["paper", "maze", "validation", "copies", "robustness"]
    assert domain.suites == maze.domain().suites
    level = domain.design.sample(jax.random.key(0))
    assert 0 <= float(domain.optimal_return(domain.env, level)) < 1


def test_copies_are_the_same_maze_drawn_otherwise():
    for name in ("SixteenRooms", "Labyrinth", "Maze"):
        level = drawing(name)
        steps = int(fewest_actions(level))
        for how, copy in COPIES.items():
            other = copy(level)
            assert bool(valid(other))
            assert all(map(np.array_equal, copy(other), level)), f"{how} twice is the maze itself"
            # a swapped agent keeps its heading, which may cost or save a few turns
            assert abs(int(fewest_actions(other)) - steps) <= (4 if how == "swapped" else 0)


def test_no_copy_is_a_maze_of_the_paper():
    found = suites(MazeEnv())
    entries = [entry for entry in (*found["validation"], *found["copies"]) if "-" in entry.name]
    assert len(entries) == 18
    originals = [drawing(name) for name in PAPER if name in DRAWINGS]
    for entry in entries:
        level = entry.draw(jax.random.key(0))
        assert not any(all(map(np.array_equal, level, one)) for one in originals if one.walls.shape == (15, 15))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(size=st.integers(2, 12).map(lambda half: 2 * half + 1), seed=st.integers(0, 2**31 - 1))
def test_perfect_mazes_are_spanning_trees(size, seed):
    _check_tree(np.asarray(perfect_maze(jax.random.key(seed), size).walls))


@pytest.mark.parametrize("size", [11, 21, 51, 101])
def test_perfect_mazes_of_the_suite_are_spanning_trees(size):
    levels = _draw(lambda key: perfect_maze(key, size), 2)
    corners = {(row, column) for row in (1, size - 2) for column in (1, size - 2)}
    for walls, agent, goal in zip(*map(np.asarray, (levels.walls, levels.agent, levels.goal)), strict=True):
        _check_tree(walls)
        assert {tuple(agent), tuple(goal)} <= corners
    assert not np.array_equal(levels.walls[0], levels.walls[1])


def _check_tree(walls):
    """Connected, and one passage fewer than there are cells."""
    side = (len(walls) - 1) // 2
    empty = ~walls
    assert empty[1::2, 1::2].all()
    assert not empty[::2, ::2].any()
    assert empty.sum() == 2 * side**2 - 1, "a tree has one edge fewer than it has nodes"
    reached, frontier = {(1, 1)}, [(1, 1)]
    while frontier:
        row, column = frontier.pop()
        for cell in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            if empty[cell] and cell not in reached:
                reached.add(cell)
                frontier.append(cell)
    assert len(reached) == empty.sum()


@pytest.mark.parametrize(("name", "columns"), [("SmallCorridor", range(3, 13, 2)), ("LargeCorridor", range(3, 19, 2))])
def test_corridor_goals_are_in_dead_ends_beside_the_middle_wall(name, columns):
    plan = drawing(name)
    levels = _draw(lambda key: corridor(key, plan), 300)
    middle = plan.walls.shape[0] // 2
    expected = {(row, column) for row in (middle - 1, middle + 1) for column in columns}
    assert set(map(tuple, np.asarray(levels.goal).tolist())) == expected
    assert np.all(np.asarray(levels.walls) == np.asarray(plan.walls))
    assert tuple(plan.goal.tolist()) in expected


def test_four_rooms_have_one_door_in_each_arm():
    walls = np.asarray(_draw(four_rooms, 200).walls)
    arms = [walls[:, 1:9, 9], walls[:, 10:18, 9], walls[:, 9, 1:9], walls[:, 9, 10:18]]
    for arm in arms:
        assert np.all((~arm).sum(1) == 1)
        assert (~arm).any(0).all(), "every place for a door is used sometimes"
    assert np.all((~walls).sum((1, 2)) == 4 * 64 + 4)


def test_simple_crossings_have_one_opening_for_each_wall():
    levels = _draw(simple_crossing, 300)
    walls = np.asarray(levels.walls)
    vertical = (walls[:, 1:-1, 2:-2:2].sum(1) >= 7).sum(1)
    horizontal = (walls[:, 2:-2:2, 1:-1].sum(2) >= 7).sum(1)
    assert np.all(vertical + horizontal == 5)
    # each wall spans 9 cells, two that cross share one, and none has its opening at a crossing
    assert np.all(walls[:, 1:-1, 1:-1].sum((1, 2)) == 9 * 5 - vertical * horizontal - 5)
    assert set(vertical) == {1, 2, 3, 4}
    assert np.all(np.asarray(levels.goal) == [9, 9])


@pytest.mark.slow
def test_robustness_levels_can_be_solved_and_have_the_blocks_they_say():
    env = MazeEnv(max_steps=250)
    few, varied = suites(env)["robustness"]
    keys = jax.random.split(jax.random.key(0), 200)
    for entry in (few, varied):
        levels = jax.jit(jax.vmap(entry.draw))(keys)
        assert (jax.vmap(partial(optimal_return, env))(levels) > 0).all()
        assert entry.env == env
    inner = np.asarray(jax.vmap(lambda key: few.draw(key).walls[1:-1, 1:-1].sum())(keys))
    assert inner.max() <= 25
    inner = np.asarray(jax.vmap(lambda key: varied.draw(key).walls[1:-1, 1:-1].sum())(keys))
    assert inner.min() < 5
    assert 30 < inner.max() <= 60
    one = jax.tree.map(lambda x: x[7], jax.vmap(few.draw)(keys))
    assert all(np.array_equal(a, b) for a, b in zip(one, few.draw(keys[7]), strict=True)), "a level has one key"
