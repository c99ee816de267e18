"""The oracle against a plain breadth-first search in Python."""

from collections import deque

import jax
import numpy as np
import pytest

from tutelage.domains.maze.design import MazeDesign
from tutelage.domains.maze.env import MazeEnv
from tutelage.domains.maze.level import HEADINGS, Level, parse
from tutelage.domains.maze.oracle import fewest_actions, optimal_return, shortest_path
from tutelage.domains.maze.suite import drawing, perfect_maze

FIND = jax.jit(jax.vmap(lambda level: (fewest_actions(level), shortest_path(level))))


def _search(start, neighbors, found):
    """How many steps lead from start to something found; −1 if none do."""
    distance, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        if found(node):
            return distance[node]
        for other in neighbors(node):
            if other not in distance:
                distance[other] = distance[node] + 1
                queue.append(other)
    return -1


def _expected(level):
    walls, goal, headings = np.asarray(level.walls), tuple(np.asarray(level.goal)), HEADINGS.tolist()

    def forward(row, column, heading):
        down, right = headings[heading]
        return (row + down, column + right) if not walls[row + down, column + right] else (row, column)

    def act(node):
        row, column, heading = node
        yield row, column, (heading - 1) % 4
        yield row, column, (heading + 1) % 4
        yield (*forward(row, column, heading), heading)

    def walk(node):
        return [forward(*node, heading) for heading in range(4)]

    agent = tuple(np.asarray(level.agent).tolist())
    actions = _search((*agent, int(level.direction)), act, lambda node: node[:2] == goal)
    return actions, max(_search(agent, walk, lambda node: node == goal), 0)


def _check(levels):
    actions, paths = map(np.asarray, FIND(levels))
    for index in range(len(actions)):
        level = Level(*(np.asarray(leaf)[index] for leaf in levels))
        assert (actions[index], paths[index]) == _expected(level)
    return actions


@pytest.mark.slow
def test_thousand_random_levels():
    design = MazeDesign(blocks=110, vary_blocks=True)
    actions = _check(jax.vmap(design.sample)(jax.random.split(jax.random.key(0), 1000)))
    assert 50 < (actions < 0).sum() < 950, "some should be unsolvable, and some not"


@pytest.mark.parametrize("size", [5, 31, 33, 65])
def test_sizes_around_the_width_of_a_word(size):
    keys = jax.random.split(jax.random.key(size), 3)
    _check(jax.vmap(perfect_maze, (0, None))(keys, size))


@pytest.mark.parametrize("name", ["Labyrinth", "Labyrinth2"])
def test_labyrinths_have_a_path_of_96(name):
    assert int(shortest_path(drawing(name))) == 96


@pytest.mark.slow
def test_optimal_return_is_what_the_best_actions_earn():
    level = parse("#####\n#<.G#\n#####")  # turn twice, walk twice
    assert int(fewest_actions(level)) == 4
    for env in (MazeEnv(max_steps=10), MazeEnv(max_steps=10, reward="minigrid")):
        scene = env.load(level)
        state, _ = env.reset(jax.random.key(0), scene)
        for action in (1, 1, 2, 2):
            state, step = env.step(jax.random.key(0), scene, state, action)
        assert bool(step.terminated)
        assert float(step.reward) == float(optimal_return(env, level)) > 0


def test_no_return_out_of_reach_or_out_of_time():
    walled_off = parse("######\n#A.#G#\n######")
    assert int(fewest_actions(walled_off)) == -1
    assert float(optimal_return(MazeEnv(), walled_off)) == 0
    slow = parse("#####\n#<.G#\n#####")
    assert float(optimal_return(MazeEnv(max_steps=3, reward="minigrid"), slow)) == 0
    assert float(optimal_return(MazeEnv(max_steps=4, reward="minigrid"), slow)) == np.float32(0.1)
