"""Every method learns on small mazes, and its teachers behave as the paper says."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tutelage.curriculum.curriculum import Curriculum
from tutelage.curriculum.methods import METHODS
from tutelage.curriculum.parts import Parts
from tutelage.domains import maze
from tutelage.learning import mesh
from tutelage.learning.ppo import PPO
from tutelage.learning.returns import episodes
from tutelage.learning.rollout import collect_rollout
from tutelage.networks.maze_student import MazeStudent, maze_student
from tutelage.networks.maze_teacher import MazeTeacher, maze_teacher

DOMAIN = maze.domain(size=7, blocks=8, max_steps=40, view=5)
STUDENT = maze_student(MazeStudent(filters=8, hidden=32, head=(32,)))
TEACHER = maze_teacher(MazeTeacher(actions=25, steps=11, filters=16, head=(32,)))
LEARNING = PPO(gamma=0.98, epochs=4, num_minibatches=2, entropy_coef=0.01, learning_rate=3e-3)
PARTS = Parts(DOMAIN, STUDENT, LEARNING, TEACHER, LEARNING, num_envs=32, num_steps=48)


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
        rollout, _ = collect_rollout(DOMAIN.env, STUDENT, STUDENT.pack(params), keys, queues, 80)
        return jax.vmap(episodes, (1, 1))(rollout.reward, rollout.done).solved

    return lambda state: float(np.asarray(rate(jax.device_get(state.students)))[solvable].mean())


def train(curriculum, iterations, key):
    state, rows = curriculum.init(key), []
    for i in range(iterations):
        state, metrics = curriculum.iterate(state, jax.random.fold_in(key, i))
        rows.append({name: float(x) for name, x in metrics.items()})
    return state, rows


def learn(name, iterations, solved_rate):
    """Train, see that it helped, and give back the metrics of each iteration."""
    curriculum = curriculum_of(name)
    untrained = solved_rate(curriculum.init(jax.random.key(0)))
    state, rows = train(curriculum, iterations, jax.random.key(0))
    assert untrained < 0.3
    assert solved_rate(state) > untrained + 0.3
    return state, rows


def solvable(rows):
    return np.mean([row["new/solvable"] for row in rows])


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "iterations"), [("dr", 100), ("plr", 120), ("repaired", 200), ("accel", 150)])
def test_it_learns(name, iterations, solved_rate):
    learn(name, iterations, solved_rate)


@pytest.mark.slow
def test_paired_learns_and_its_teacher_avoids_unsolvable_levels(solved_rate):
    """Regret is zero where nobody can succeed."""
    _, rows = learn("paired", 200, solved_rate)
    assert solvable(rows[-50:]) > 0.95
    assert solvable(rows[-50:]) > solvable(rows[:20])


@pytest.mark.nightly
def test_minimax_learns_but_its_teacher_seeks_unsolvable_levels(solved_rate):
    """An adversary's utility is highest where nobody can succeed."""
    curriculum = curriculum_of("minimax")
    untrained = solved_rate(curriculum.init(jax.random.key(0)))
    state, rows = train(curriculum, 100, jax.random.key(0))
    assert solved_rate(state) > untrained + 0.3
    for i in range(100, 250):
        state, metrics = curriculum.iterate(state, jax.random.fold_in(jax.random.key(0), i))
        rows.append({"new/solvable": float(metrics["new/solvable"])})
    assert solvable(rows[-50:]) < solvable(rows[:20]) - 0.2


@pytest.mark.nightly
def test_robust_plr_learns_with_half_the_gradient_updates(solved_rate):
    state, rows = learn("plr-perp", 200, solved_rate)
    replays = sum(row["replay"] for row in rows)
    assert int(state.students.updates[0]) == replays * LEARNING.epochs * LEARNING.num_minibatches
    ready = next(i for i, row in enumerate(rows) if row["buffer/fill"] >= 0.5) + 1
    assert abs(replays / (len(rows) - ready) - 0.5) < 0.12


def test_one_device_for_each_core():
    assert curriculum_of("dr").mesh.size == len(jax.devices()) == 2
    assert mesh.make_mesh(3).size == 1
