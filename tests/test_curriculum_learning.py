"""Every method learns on small mazes, and its teachers behave as the paper says."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tutelage.curriculum.curriculum import Curriculum
from tutelage.curriculum.methods import METHODS
from tutelage.curriculum.step import Parts
from tutelage.domains import maze
from tutelage.learning import mesh
from tutelage.learning.grid_student import GridStudent, grid_student
from tutelage.learning.grid_teacher import GridTeacher, grid_teacher
from tutelage.learning.ppo import PPO
from tutelage.learning.returns import episodes
from tutelage.learning.rollout import play

DOMAIN = maze.domain(size=7, blocks=8, max_steps=40, view=5)
STUDENT = grid_student(GridStudent(filters=8, hidden=32, head=(32,)))
TEACHER = grid_teacher(GridTeacher(actions=25, steps=11, filters=16, head=(32,)))
LEARNING = PPO(discount=0.98, epochs=4, minibatches=2, entropy_weight=0.01, learning_rate=3e-3)
PARTS = Parts(DOMAIN, STUDENT, LEARNING, TEACHER, LEARNING, batch=32, length=48)


def curriculum_of(name):
    method = METHODS[name]
    if method.curator is not None:
        method = replace(method, curator=replace(method.curator, capacity=256))
    return Curriculum(method, PARTS)


@pytest.fixture(scope="module")
def solved_rate():
    """The protagonist's share of episodes solved on held-out random levels that have a solution."""
    keys = jax.random.split(jax.random.key(999), 256)
    levels = jax.vmap(DOMAIN.design.sample)(keys)
    solvable = np.asarray(jax.vmap(DOMAIN.design.describe)(levels)["solvable"])

    @jax.jit
    def rate(students):
        params = jax.tree.map(lambda x: x[0], students.params)
        queues = jax.tree.map(lambda x: x[:, None], levels)
        rollout, _ = play(DOMAIN.env, STUDENT, STUDENT.pack(params), keys, queues, 80)
        return jax.vmap(episodes, (1, 1))(rollout.reward, rollout.done).solved

    return lambda state: float(np.asarray(rate(jax.device_get(state.students)))[solvable].mean())


def train(curriculum, iterations, key):
    state, rows = curriculum.begin(key), []
    for i in range(iterations):
        state, metrics = curriculum.iterate(state, jax.random.fold_in(key, i))
        rows.append({name: float(x) for name, x in metrics.items()})
    return state, rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "iterations"),
    [
        ("dr", 100),
        ("minimax", 100),
        ("paired", 120),
        ("plr", 120),
        ("plr-perp", 200),
        ("repaired", 200),
        ("accel", 150),
    ],
)
def test_every_method_learns(name, iterations, solved_rate):
    curriculum = curriculum_of(name)
    untrained = solved_rate(curriculum.begin(jax.random.key(0)))
    state, _ = train(curriculum, iterations, jax.random.key(0))
    assert untrained < 0.3
    assert solved_rate(state) > untrained + 0.3


@pytest.mark.slow
def test_a_teacher_of_regret_avoids_unsolvable_levels_and_an_adversary_seeks_them():
    """PAIRED's regret is zero where nobody can succeed; Minimax's utility is highest just there."""
    _, paired = train(curriculum_of("paired"), 250, jax.random.key(1))
    _, minimax = train(curriculum_of("minimax"), 250, jax.random.key(1))

    def solvable(rows):
        return np.mean([row["new/solvable"] for row in rows])

    assert solvable(paired[-50:]) > 0.95
    assert solvable(paired[-50:]) > solvable(paired[:20])
    assert solvable(minimax[-50:]) < solvable(minimax[:20]) - 0.2


@pytest.mark.slow
def test_robust_plr_takes_half_the_gradient_updates_of_dr():
    state, rows = train(curriculum_of("plr-perp"), 120, jax.random.key(2))
    per_iteration = LEARNING.epochs * LEARNING.minibatches
    replays = sum(row["replay"] for row in rows)
    assert int(state.students.updates[0]) == replays * per_iteration
    ready = next(i for i, row in enumerate(rows) if row["buffer/fill"] >= 0.5) + 1
    assert abs(replays / (len(rows) - ready) - 0.5) < 0.15


def test_one_device_for_each_core():
    assert curriculum_of("dr").mesh.size == len(jax.devices()) == 2
    assert mesh.make_mesh(3).size == 1
