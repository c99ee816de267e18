"""One step, seven methods: the equalities that hold between them, bit for bit, on the real code.

One is shown on small mazes, with memory. The others run in the example's domain, which compiles sooner.
"""

from dataclasses import dataclass, replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from examples import own_environment as ferry

from tutelage.curriculum import scores, utilities
from tutelage.curriculum.curator import Curator
from tutelage.curriculum.curriculum import Curriculum, NotFiniteError
from tutelage.curriculum.generators import Fixed, Teacher, Uniform
from tutelage.curriculum.methods import ACCEL, DR, MINIMAX, PAIRED, PLR, PLR_PERP, REPAIRED, Method
from tutelage.curriculum.parts import Parts
from tutelage.curriculum.step import can_replay, init, step, wants_replay
from tutelage.domains import maze
from tutelage.learning import mesh
from tutelage.learning.ppo import PPO
from tutelage.networks.maze_student import MazeStudent, maze_student
from tutelage.networks.maze_teacher import MazeTeacher, maze_teacher
from tutelage.types import InputError

PPOS = PPO(epochs=2, num_minibatches=2, learning_rate=1e-2), PPO(epochs=1, learning_rate=1e-2)
DOMAIN = ferry.DOMAIN
PARTS = Parts(DOMAIN, ferry.STUDENT, PPOS[0], ferry.TEACHER, PPOS[1], num_envs=4, num_steps=16)
MAZES = replace(
    PARTS,
    domain=maze.domain(size=7, blocks=6, max_steps=12, view=5),
    student=maze_student(MazeStudent(filters=4, hidden=8, head=(8,)), chunk=8),
    teacher=maze_teacher(MazeTeacher(actions=25, steps=9, filters=4, head=(8,))),
)
CURATOR = Curator(capacity=8, min_fill=0.5)
UNIFORM = replace(DR, generator=Uniform())
OFTEN_PLR_PERP = replace(PLR_PERP, curator=replace(CURATOR, replay_rate=0.8))
OFTEN_ACCEL = replace(ACCEL, curator=replace(CURATOR, capacity=64, min_fill=0.05, replay_rate=0.9), edits=3)
OFTEN_REPAIRED = replace(REPAIRED, curator=replace(CURATOR, replay_rate=0.7))
KEY = jax.random.key(7)


@cache
def in_ferries(method, devices=None):
    return Curriculum(method, PARTS, devices)


@cache
def in_mazes(method):
    return Curriculum(method, MAZES)


def run(curriculum, iterations, key=KEY):
    """The states after each iteration (the first is before any) and the metrics of each."""
    state = curriculum.init(key)
    states, metrics = [jax.tree.map(np.asarray, state)], []
    for i in range(iterations):
        state, measured = curriculum.iterate(state, jax.random.fold_in(key, i))
        states.append(jax.tree.map(np.asarray, state))
        metrics.append({name: float(x) for name, x in measured.items()})
    return states, metrics


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def assert_close(a, b, **tolerance):
    jax.tree.map(partial(np.testing.assert_allclose, **tolerance), a, b)


@pytest.mark.slow
def test_plr_that_never_replays_is_dr():
    never = replace(PLR, curator=replace(CURATOR, replay_rate=0.0))
    plr, _ = run(in_mazes(never), 3)
    dr, _ = run(in_mazes(UNIFORM), 3)
    assert_same(plr[-1].students, dr[-1].students)
    assert not np.array_equal(dr[0].students.params["conv"]["kernel"], dr[-1].students.params["conv"]["kernel"])


@pytest.mark.slow
def test_repaired_that_never_replays_and_trains_on_new_levels_is_paired():
    never = replace(REPAIRED, curator=replace(CURATOR, replay_rate=0.0), train_on_new=True)
    repaired, _ = run(in_ferries(never), 2)
    paired, _ = run(in_ferries(PAIRED), 2)
    assert_same(repaired[-1].students, paired[-1].students)
    assert_same(repaired[-1].generator, paired[-1].generator)


@pytest.mark.slow
def test_robust_plr_that_never_replays_never_changes_the_student():
    never = replace(PLR_PERP, curator=replace(CURATOR, replay_rate=0.0))
    states, metrics = run(in_ferries(never), 3)
    assert_same(states[0].students, states[-1].students)
    assert int(states[-1].buffers.size[0]) == 8
    assert not any("policy_loss" in row for row in metrics)


@pytest.mark.slow
def test_accel_without_edits_is_robust_plr():
    accel, _ = run(in_ferries(replace(ACCEL, curator=OFTEN_PLR_PERP.curator, edits=0)), 4)
    plr_perp, _ = run(in_ferries(OFTEN_PLR_PERP), 4)
    assert_same(accel[-1], plr_perp[-1])


@pytest.mark.slow
def test_a_run_may_stop_and_go_on_anywhere():
    curriculum = in_ferries(OFTEN_ACCEL)
    whole, rows = run(curriculum, 4)
    assert {row["replay"] for row in rows} == {0.0, 1.0}
    state = jax.tree.map(jnp.asarray, whole[2])  # as if read back from a disk
    for i in (2, 3):
        state, _ = curriculum.iterate(state, jax.random.fold_in(KEY, i))
    assert_same(state, whole[-1])


@pytest.mark.slow
def test_suppressed_updates_are_never_traced():
    """PLR⊥ does not compute gradients on new levels and throw them away: they are not in the program at all."""

    def products(method):
        state = jax.eval_shape(partial(init, method, MAZES), KEY)
        on_mesh = mesh.on_devices(lambda state, key: step(method, MAZES, state, key, False), mesh.make_mesh(4, 1))
        return jax.jit(on_mesh).lower(state, KEY).as_text().count("dot_general")

    assert products(replace(PLR_PERP, curator=CURATOR)) < products(replace(PLR, curator=CURATOR)) / 2


@pytest.mark.slow
def test_programs_whose_metrics_were_asked_for_are_not_traced_again(monkeypatch):
    traced = []

    def counted(method, parts, state, key, replay):
        traced.append(replay)
        return step(method, parts, state, key, replay)

    monkeypatch.setattr("tutelage.curriculum.curriculum.step", counted)
    curriculum = Curriculum(replace(PLR_PERP, curator=replace(CURATOR, replay_rate=1.0)), PARTS)
    curriculum.metric_names(jax.eval_shape(curriculum.init_program, KEY), KEY)
    run(curriculum, 2)
    assert sorted(traced) == [False, True]


@pytest.mark.slow
def test_the_generator_learns_from_new_levels_only():
    states, rows = run(in_ferries(OFTEN_REPAIRED), 5)
    replays = [row["replay"] for row in rows]
    assert set(replays) == {0.0, 1.0}
    for before, after, replay, row in zip(states, states[1:], replays, rows, strict=False):
        assert int(after.generator.updates - before.generator.updates) == (0 if replay else 1)
        assert int(after.students.updates[0] - before.students.updates[0]) == (4 if replay else 0)
        assert ("teacher/utility" in row) == (not replay)


@pytest.mark.slow
def test_each_student_has_a_buffer_of_its_own():
    states, _ = run(in_ferries(OFTEN_REPAIRED), 5)
    scores_of = states[-1].buffers.entries.score
    assert not np.array_equal(scores_of[0], scores_of[1])


def test_children_know_their_parents():
    states, rows = run(in_ferries(OFTEN_ACCEL), 6)
    buffer = jax.tree.map(lambda x: x[0], states[-1].buffers)
    held = {int(name): i for i, name in enumerate(buffer.entries.id[: buffer.size])}
    children = [i for i in range(int(buffer.size)) if buffer.entries.generation[i] > 0]
    assert children
    for i in children:
        parent = int(buffer.entries.parent[i])
        assert parent in held  # nothing has been evicted yet
        assert buffer.entries.generation[held[parent]] == buffer.entries.generation[i] - 1
    assert any("edited/return" in row for row in rows)


def test_new_levels_come_from_the_buffer_only_when_replayed():
    """What is replayed is really in the buffer, and its R_max never falls."""
    states, rows = run(in_ferries(OFTEN_PLR_PERP), 6)
    for before, after, row in zip(states, states[1:], rows, strict=False):
        if row["replay"]:
            assert_same(before.buffers.entries.level, after.buffers.entries.level)
            assert (after.buffers.entries.best_return >= before.buffers.entries.best_return).all()


@pytest.mark.slow
def test_no_replay_before_the_minimum_fill():
    method = replace(PLR_PERP, curator=replace(CURATOR, capacity=16, min_fill=1.0, replay_rate=1.0))
    _, rows = run(in_ferries(method), 5)
    assert [row["replay"] for row in rows] == [0, 0, 0, 0, 1]


@pytest.mark.slow
def test_two_students_are_two_single_runs():
    """The second student changes nothing for the first."""
    alone, _ = run(in_ferries(UNIFORM), 2)
    both, _ = run(in_ferries(Method(students=2)), 2)
    first, second = (jax.tree.map(lambda x, i=i: x[i : i + 1], both[-1].students) for i in (0, 1))
    assert_close(first, alone[-1].students, rtol=1e-5, atol=1e-7)
    assert not np.array_equal(*(each.params["Dense_0"]["kernel"] for each in (first, second)))


@pytest.mark.parametrize(
    "method", [pytest.param(DR, id="dr"), pytest.param(OFTEN_REPAIRED, id="repaired", marks=pytest.mark.slow)]
)
def test_two_devices_are_one(method):
    two, measured_by_two = run(in_ferries(method), 3)
    one, measured_by_one = run(in_ferries(method, devices=1), 3)
    assert_close(two[-1], one[-1], rtol=2e-4, atol=2e-5)
    assert_close(measured_by_two, measured_by_one, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_vmapped_seeds_are_separate_runs():
    method = replace(PLR, curator=CURATOR)
    on_mesh = mesh.on_devices(lambda state, key: step(method, PARTS, state, key, False), mesh.make_mesh(4, 1))
    keys = jax.random.split(KEY, 2)
    states = [in_ferries(method).init_program(key) for key in keys]
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *states)
    together, _ = jax.jit(jax.vmap(on_mesh))(stacked, keys)
    for i in range(2):
        apart, _ = jax.jit(on_mesh)(states[i], keys[i])
        assert_close(jax.tree.map(lambda x, i=i: x[i], together), apart, rtol=1e-4, atol=1e-6)


def test_the_decision_is_a_coin_of_the_replay_rate():
    method = replace(PLR, curator=replace(CURATOR, replay_rate=0.3, min_fill=0.5))
    state, _ = run(in_ferries(replace(PLR_PERP, curator=replace(CURATOR, replay_rate=0.0))), 1)
    assert can_replay(method, state[-1])
    flip = jax.jit(jax.vmap(lambda key: wants_replay(method, key)))
    share = flip(jax.random.split(KEY, 4000)).mean()
    assert abs(float(share) - 0.3) < 0.03


@dataclass(frozen=True)
class Poisoned(type(DOMAIN.env)):
    """Rivers whose rewards are not numbers."""

    def step(self, key, scene, state, action):
        state, after = super().step(key, scene, state, action)
        return state, after._replace(reward=after.reward + jnp.nan)


@pytest.mark.parametrize("method", [DR, replace(PLR_PERP, curator=CURATOR)], ids=["dr", "plr-perp"])
def test_what_is_not_finite_stops_the_run_and_changes_nobody(method):
    env = Poisoned(**vars(DOMAIN.env))
    curriculum = Curriculum(method, replace(PARTS, domain=replace(DOMAIN, env=env)))
    state = curriculum.init(KEY)
    before = jax.tree.map(np.asarray, state.students.params)
    with pytest.raises(NotFiniteError, match="gradient of the student is not finite") as caught:
        curriculum.iterate(state, KEY)
    after = caught.value.state
    assert all(
        np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (before, after.students.params)), strict=True)
    )
    if method.curator:
        assert int(after.buffers.size[0]) == 0, "no NaN enters a buffer"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"generator": Teacher(utilities.regret)}, "students=2"),
        ({"curator": Curator(score=scores.paired_regret)}, "students=2"),
        ({"train_on_new": False}, "never train at all"),
        ({"edits": 2}, "needs a curator"),
        ({"generator": Uniform(4), "curator": Curator()}, "levels_per_env must be 1"),
        ({"generator": Uniform(0)}, "at least 1"),
        ({"edits": 1, "students": 2, "curator": Curator(score=scores.paired_regret)}, "choose another score"),
        ({"students": 3}, "one or two students"),
    ],
)
def test_impossible_methods_get_a_sentence(fields, says):
    with pytest.raises(InputError, match=says):
        Method(**fields)


def test_a_teacher_needs_a_network():
    with pytest.raises(InputError, match="give Parts a network"):
        Curriculum(MINIMAX, replace(PARTS, teacher=None))


def test_scores_need_a_domain_that_knows_what_they_ask():
    blind = replace(PARTS, domain=replace(DOMAIN, optimal_return=None, solved_above=None))
    with pytest.raises(InputError, match="needs a domain with an oracle"):
        Curriculum(Method(curator=replace(CURATOR, score=scores.true_regret)), blind)
    with pytest.raises(InputError, match="what is solved"):
        Curriculum(Method(curator=replace(CURATOR, score=scores.learnability)), blind)


@pytest.mark.slow
def test_regret_and_best_returns_may_be_discounted():
    """A ferry earns 1 at its last of REACHES steps or nothing, so discounting is one factor for every return."""
    parts = replace(PARTS, ppo=replace(PPOS[0], gamma=0.5), num_envs=64)
    method = replace(REPAIRED, curator=Curator(capacity=64, replay_rate=0.0), train_on_new=True)
    plain, discounted = (run(Curriculum(replace(method, discounted_returns=flag), parts), 1) for flag in (False, True))
    factor = 0.5 ** (ferry.REACHES - 1)
    best = [states[-1].buffers.entries.best_return for states, _ in (plain, discounted)]
    assert best[0].max() == 1
    np.testing.assert_allclose(best[1], factor * best[0], rtol=1e-6)
    utility, return_ = (
        [metrics[0][name] for _, metrics in (plain, discounted)] for name in ("teacher/utility", "new/return")
    )
    assert utility[0] > 0
    np.testing.assert_allclose(utility[1], factor * utility[0], rtol=1e-6)
    assert return_[0] == return_[1]


@pytest.mark.slow
def test_a_fixed_generator_and_true_regret():
    """Levels come from the given set only, and an oracle's regret is that of the best possible policy."""
    few = jax.vmap(DOMAIN.design.sample)(jax.random.split(jax.random.key(3), 3))
    method = Method(generator=Fixed(few), curator=replace(CURATOR, score=scores.true_regret, replay_rate=0.0))
    states, _ = run(Curriculum(method, PARTS), 2)
    buffer = jax.tree.map(lambda x: x[0], states[-1].buffers)
    assert int(buffer.size) <= 3
    optimal = np.asarray(jax.vmap(partial(DOMAIN.optimal_return, DOMAIN.env))(few))
    for i in range(int(buffer.size)):
        currents = buffer.entries.level.currents[i]
        same = [j for j in range(3) if np.array_equal(currents, few.currents[j])]
        assert same
        assert 0 <= buffer.entries.score[i] <= optimal[same].max() + 1e-6


@pytest.mark.parametrize("fields", [{}, {"edits": 1}])
def test_a_score_that_compares_students_is_refused_with_replay(fields):
    def mine(evidence):
        return evidence.regret

    for score in (scores.paired_regret, scores.needs(scores.Need.BOTH_STUDENTS)(mine)):
        with pytest.raises(InputError, match="choose another score, or replay_rate=0"):
            replace(REPAIRED, curator=Curator(score=score), **fields)
        replace(REPAIRED, curator=Curator(score=score, replay_rate=0.0))
