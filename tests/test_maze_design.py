"""Drawing, editing and mutating mazes."""

import collections
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tutelage.domains.maze.design import MazeDesign
from tutelage.domains.maze.level import Level, parse, random_cell, show, valid
from tutelage.types import Design, Env, InputError


def _sample(design, count, seed=0):
    return jax.jit(jax.vmap(design.sample))(jax.random.split(jax.random.key(seed), count))


def _each(levels):
    return [jax.tree.map(lambda leaf, i=i: leaf[i], levels) for i in range(len(levels.direction))]


def _blocks(levels):
    return np.asarray(levels.walls)[:, 1:-1, 1:-1].sum((1, 2))


def test_the_contracts_are_met():
    assert isinstance(MazeDesign(), Design)
    assert isinstance(MazeDesign().editor, Env)


@pytest.mark.parametrize("blocks", [0, 25, 50])
def test_samples_are_valid_and_keep_the_budget(blocks):
    levels = _sample(MazeDesign(blocks=blocks), 500)
    assert bool(jax.vmap(valid)(levels).all())
    assert _blocks(levels).max() <= blocks
    # cells are drawn with replacement: the expected number of distinct ones
    expected = 169 * (1 - (1 - 1 / 169) ** blocks)
    assert abs(_blocks(levels).mean() - expected) < 0.5
    assert set(np.asarray(levels.direction)) == {0, 1, 2, 3}


def test_varied_budgets_are_uniform():
    blocks = _blocks(_sample(MazeDesign(blocks=60, vary_blocks=True), 2000))
    # about 1/61 of the draws has no block at all, and few blocks coincide when there are few
    assert 10 <= (blocks == 0).sum() <= 60
    assert abs((blocks <= 20).mean() - 22 / 61) < 0.05
    assert 45 <= blocks.max() <= 60


def test_full_mazes_still_have_room_for_agent_and_goal():
    levels = _sample(MazeDesign(size=4, blocks=2), 200)
    assert bool(jax.vmap(valid)(levels).all())


@pytest.mark.parametrize(("size", "blocks"), [(3, 0), (15, 168), (15, -1), (10**7, 0)])
def test_impossible_designs_are_refused(size, blocks):
    with pytest.raises(InputError):
        MazeDesign(size, blocks)


def test_random_cells_are_uniform_among_the_candidates():
    among = jnp.zeros((4, 5), bool).at[[0, 1, 3], [4, 2, 0]].set(True)
    cells = jax.vmap(random_cell, (0, None))(jax.random.split(jax.random.key(0), 3000), among)
    counts = collections.Counter(map(tuple, np.asarray(cells).tolist()))
    assert set(counts) == {(0, 4), (1, 2), (3, 0)}
    assert min(counts.values()) > 900


@partial(jax.jit, static_argnums=0)
def _edit(design, actions, keys):
    """Editing episodes [B] with actions [B, T]: the levels, and everything seen, [B, T + 1] with the start first."""
    editor = design.editor

    def episode(actions, key):
        reset_key, step_key = jax.random.split(key)
        state, first = editor.reset(reset_key, editor.load(()))

        def body(state, inputs):
            return editor.step(inputs[0], (), state, inputs[1])

        state, steps = jax.lax.scan(body, state, (jax.random.split(step_key, len(actions)), actions))
        seen = jax.tree.map(lambda start, later: jnp.concatenate([start[None], later]), first, steps.obs)
        return design.build(key, state), seen, steps

    return jax.vmap(episode)(actions, keys)


def _edit_often(design, actions, count):
    return _edit(design, jnp.tile(jnp.int32(actions), (count, 1)), jax.random.split(jax.random.key(0), count))


def test_editor_places_walls_then_goal_then_agent():
    design = MazeDesign(size=6, blocks=3)
    levels, seen, steps = jax.tree.map(lambda leaf: leaf[0], _edit_often(design, [0, 5, 0, 15, 3], 1))
    arrow = "Av<^"[int(levels.direction)]
    assert show(levels) == f"######\n##..{arrow}#\n#.#..#\n#....#\n#...G#\n######"
    assert bool(valid(levels))
    assert steps.terminated.tolist() == [False] * 4 + [True]
    assert not steps.truncated.any()
    assert not steps.reward.any()
    assert seen.time.tolist() == list(range(6))
    last = np.asarray(seen.grid[-1])
    assert last[1, 4].tolist() == [10, 0, int(levels.direction)]
    assert last[4, 4].tolist() == [8, 1, 0]
    assert last[1, 1].tolist() == [2, 5, 0]
    assert last[1, 2].tolist() == [1, 0, 0]
    noise = np.asarray(seen.noise)
    assert noise.shape == (6, 50)
    assert len(np.unique(noise)) == noise.size
    assert 0 <= noise.min() <= noise.max() < 1


def test_editor_moves_goal_and_agent_off_occupied_cells():
    levels, _, _ = _edit_often(MazeDesign(size=5, blocks=7), [*range(7), 0, 0], 40)
    assert bool(jax.vmap(valid)(levels).all())
    places = np.concatenate([levels.goal, levels.agent], axis=1)
    assert set(map(tuple, places.tolist())) == {(3, 2, 3, 3), (3, 3, 3, 2)}, "two cells are left, in either order"
    assert set(np.asarray(levels.direction)) == {0, 1, 2, 3}


def test_walls_may_give_way_to_goal_and_agent():
    levels, _, _ = _edit_often(MazeDesign(size=5, blocks=7, clears=True), [*range(7), 0, 4], 4)
    assert {show(level) for level in _each(levels)} <= {f"#####\n#G###\n##{arrow}##\n##..#\n#####" for arrow in "Av<^"}


def test_random_goals_and_agents_may_strike_any_cell():
    levels = _sample(MazeDesign(size=5, blocks=7, clears=True), 4000)
    assert bool(jax.vmap(valid)(levels).all())
    goals = collections.Counter(map(tuple, np.asarray(levels.goal).tolist()))
    assert len(goals) == 9
    assert min(goals.values()) > 370  # 444 each, whether there was a wall or not
    walls = 9 * (1 - (8 / 9) ** 7)
    assert abs(_blocks(levels).mean() - walls * (8 / 9) ** 2) < 0.1  # each of the two strikes one of nine cells


@pytest.mark.parametrize("clears", [False, True])
def test_agent_does_not_land_on_the_goal(clears):
    levels, _, _ = _edit_often(MazeDesign(size=5, blocks=0, clears=clears), [4, 4], 200)
    assert np.all(np.asarray(levels.goal) == 2)
    assert bool(jax.vmap(valid)(levels).all())
    assert len(np.unique(levels.agent, axis=0)) == 8


def test_editor_changes_each_cell_at_most_once():
    design = MazeDesign(size=7, blocks=12)
    editor = design.editor
    action_key, key = jax.random.split(jax.random.key(0))
    actions = jax.random.randint(action_key, (200, editor.horizon), 0, editor.actions.n)
    levels, seen, _ = _edit(design, actions, jax.random.split(key, 200))
    assert bool(jax.vmap(valid)(levels).all())
    changes = np.any(np.diff(np.asarray(seen.grid, int), axis=1) != 0, axis=-1).sum(1)
    assert changes.max() == 1


def test_mutation_makes_one_edit_and_stays_valid():
    design = MazeDesign(size=7, blocks=12)
    levels = _sample(design, 2000)
    children = jax.jit(jax.vmap(design.mutate))(jax.random.split(jax.random.key(1), 2000), levels)
    assert bool(jax.vmap(valid)(children).all())
    walls = (np.asarray(children.walls) != np.asarray(levels.walls)).sum((1, 2))
    goals = np.any(np.asarray(children.goal) != np.asarray(levels.goal), axis=1)
    assert np.array_equal(children.agent, levels.agent)
    assert np.array_equal(children.direction, levels.direction)
    assert (walls + goals).max() == 1
    added = np.asarray(children.walls & ~levels.walls).any((1, 2)).mean()
    removed = np.asarray(~children.walls & levels.walls).any((1, 2)).mean()
    assert abs(goals.mean() - 1 / 3) < 0.04
    # a wall or a clearing strikes any of the 25 inner cells, about 9.7 of which are walls and two taken
    assert abs(added - (25 - 9.7 - 2) / 25 / 3) < 0.04
    assert abs(removed - 9.7 / 25 / 3) < 0.04


def test_mutation_of_a_full_maze_leaves_the_goal():
    level = parse("#####\n#####\n##AG#\n#####\n#####")
    design = MazeDesign(size=5, blocks=0)
    children = jax.vmap(design.mutate, (0, None))(jax.random.split(jax.random.key(0), 100), level)
    assert bool(jax.vmap(valid)(children).all())
    assert np.all(np.asarray(children.goal) == np.asarray(level.goal))


def test_describe():
    design = MazeDesign(size=6, blocks=0)
    solvable = parse("######\n#A.#G#\n#.#..#\n#...##\n######", 6)
    measures = {name: value.item() for name, value in design.describe(solvable).items()}
    assert measures == {"blocks": 3 + 4, "shortest_path": 7, "solvable": True}
    walled_off = Level(solvable.walls.at[3, 3].set(True), *solvable[1:])
    assert {name: value.item() for name, value in design.describe(walled_off).items()} == {
        "blocks": 4 + 4,
        "shortest_path": 0,
        "solvable": False,
    }
    assert design.image(solvable).shape == (96, 96, 3)
