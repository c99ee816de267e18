"""What an iteration reports, by hand on made-up rollouts, and in real iterations.

That the metrics of one device and of two are the same, see also `test_curriculum_step.py`.
"""

from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probes import SOON

from tutelage.curriculum import curator as curation
from tutelage.curriculum import metrics
from tutelage.curriculum.curator import Curator
from tutelage.curriculum.curriculum import Curriculum
from tutelage.curriculum.methods import ACCEL
from tutelage.curriculum.parts import Parts
from tutelage.domains import maze
from tutelage.learning import mesh, returns
from tutelage.learning.ppo import PPO
from tutelage.learning.rollout import Rollout
from tutelage.networks.maze_student import MazeStudent, maze_student
from tutelage.types import Box, Discrete, Domain, InputError

# Two workers, six steps. A level is a number, its measure is `size`. The second worker ends no episode.
#   worker 0: return 1 after 0 1 0 (pieces 0 | 1 | 0), return 0 after 1 1 (1 | 1), and a step more
#   worker 1: return 0 after 0 0 0 0 0 0 (0 | 00 | 000)
REWARD = [[0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
DONE = [[0, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0]]
FIRST = [[1, 0, 0, 1, 0, 1], [1, 0, 0, 0, 0, 0]]
ACTION = [[0, 1, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]]


@dataclass(frozen=True)
class Numbers:
    """As much of a design as is asked."""

    name: str = "size"

    def describe(self, level):
        return {self.name: level}


def domain_of(actions=Discrete(2), design=Numbers(), **known):  # noqa: B008
    return Domain("numbers", SimpleNamespace(actions=actions), design, {}, **known)


def measure(domain, queues, reward=REWARD, action=ACTION, devices=None):
    """Metrics of what students, queues [S, B, N] and rewards [S, B, T], did in two envs."""
    queues, students = jnp.array(queues, jnp.float32), len(queues)
    reward = jnp.broadcast_to(jnp.array(reward, jnp.float32), (students, 2, 6))
    done, first, action = (
        jnp.broadcast_to(jnp.array(x), reward.shape) for x in (np.array(DONE, bool), np.array(FIRST, bool), action)
    )

    def on_device(queues, *played):
        own = [jax.vmap(mesh.shard)(x) for x in played]
        reward, done, first, action = (jnp.swapaxes(x, 1, 2) for x in own)
        none = jnp.zeros(reward.shape)
        rollout = Rollout((), first, action, none, none, reward, done, jnp.zeros_like(done), none, none[:, 0])
        episodes = jax.vmap(jax.vmap(partial(returns.episodes, solved_above=metrics.solved_threshold(domain))))(
            *own[:2]
        )
        return metrics.level_metrics(domain, jax.vmap(mesh.shard)(queues), rollout, episodes)

    run = jax.jit(mesh.on_devices(on_device, mesh.make_mesh(2, devices)), compiler_options=SOON)
    return {name: float(x) for name, x in run(queues, reward, done, first, action).items()}


@pytest.mark.parametrize("devices", [1, 2])
def test_metrics_of_levels_by_hand(devices):
    domain = domain_of(solved_above=0.0, optimal_return=lambda env, level: level / 10)
    found = measure(domain, [[[8.0], [20.0]]], devices=devices)
    assert found == pytest.approx(
        {
            "size": 14.0,
            "return": 0.25,  # 1/2 and 0
            "length": 4.25,  # 5/2 and 6
            "solved": 0.25,
            "solved_size": 8.0,  # the other level was not solved, and is no zero
            "action_complexity": (5 / 2 + 3) / 2,
            "solved_action_complexity": 3.0,  # 0 | 1 | 0: no other episode was solved
            "true_regret": 1.15,  # 0.8 − 0.5 and 2 − 0
        }
    )


@pytest.mark.parametrize("devices", [1, 2])
def test_a_level_counts_as_much_as_the_share_of_its_episodes_that_were_solved(devices):
    late = [REWARD[0], [0, 0, 0, 0, 0, 2]]  # the second env's only episode, which counts although it goes on
    found = measure(domain_of(solved_above=0.0), [[[8.0], [20.0]]], late, devices=devices)
    assert found["solved"] == 0.75
    assert found["solved_size"] == pytest.approx((0.5 * 8 + 1 * 20) / 1.5)
    assert found["solved_action_complexity"] == pytest.approx((0.5 * 3 + 1 * 3) / 1.5)
    assert "true_regret" not in found


def test_where_nothing_is_solved_nothing_is_known_of_the_solved():
    found = measure(domain_of(solved_above=5.0), [[[8.0], [20.0]]])
    assert found["solved"] == 0
    assert np.isnan([found["solved_size"], found["solved_action_complexity"]]).all()
    assert found["action_complexity"] == pytest.approx((5 / 2 + 3) / 2)


def test_without_a_notion_of_solved_every_episode_has_its_complexity():
    found = measure(domain_of(), [[[8.0], [20.0]]])
    assert found.keys() == {"size", "return", "length", "action_complexity"}
    assert found["action_complexity"] == pytest.approx((5 / 2 + 3) / 2)


@pytest.mark.slow
def test_real_actions_have_no_complexity():
    action = np.zeros((2, 6, 1))
    box = domain_of(Box((0.0,), (1.0,)), solved_above=0.0)
    queues = jnp.ones((1, 2, 1))
    empty = jnp.zeros((1, 6, 2))
    rollout = Rollout((), empty > 0, action, empty, empty, empty, empty > 0, empty > 0, empty, empty[:, 0])
    episodes = jax.vmap(jax.vmap(returns.episodes, 1))(empty, empty > 0)
    found = mesh.on_devices(lambda: metrics.level_metrics(box, queues, rollout, episodes), mesh.make_mesh(2, 1))()
    assert "action_complexity" not in found
    assert "solved_size" in found


def test_of_a_queue_the_first_level_goes_with_the_first_episode():
    # worker 0 earned 1 on the level 8 and then 0 on the level 5, which is not described
    domain = domain_of(solved_above=0.0, optimal_return=lambda env, level: level / 10)
    found = measure(domain, [[[8.0, 5.0], [20.0, 6.0]]])
    assert found["size"] == 14
    assert (found["return"], found["solved"]) == (0.25, 0.25)
    assert found["solved_size"] == pytest.approx(8)
    assert found["true_regret"] == pytest.approx(((0.8 - 1) + 2) / 2)
    # if it earned only on the second level, that says nothing of the first
    found = measure(domain, [[[8.0, 5.0], [20.0, 6.0]]], [[0, 0, 0, 0, 1, 0], REWARD[1]])
    assert found["solved"] == 0.25
    assert np.isnan(found["solved_size"])
    assert found["solved_action_complexity"] == 2  # 1 | 1


def test_each_student_fares_on_its_own_levels():
    reward = [[REWARD[0], REWARD[1]], [REWARD[1], [0, 0, 0, 0, 0, 1]]]
    found = measure(domain_of(solved_above=0.0), [[[8.0], [20.0]], [[1.0], [2.0]]], reward)
    assert found["size"] == 14  # the protagonist's
    assert (found["solved_size"], found["antagonist/solved_size"]) == (8, 2)
    assert (found["solved"], found["antagonist/solved"]) == (0.25, 0.5)
    assert {f"antagonist/{name}" for name in found if "/" not in name} - found.keys() == {"antagonist/size"}


@pytest.mark.parametrize("name", ["return", "score", "action_complexity", "true_regret"])
def test_names_that_would_hide_each_other_are_refused(name):
    domain = domain_of(design=Numbers(name), optimal_return=lambda env, level: level)
    with pytest.raises(InputError, match=f"Rename \\['{name}'\\]"):
        measure(domain, [[[8.0], [20.0]]])


def buffer_of(scores, scored_at, generation, clock, capacity=8):
    """A buffer that holds something else behind its filled slots."""
    empty = curation.empty(Curator(capacity=capacity), jnp.float32(0))
    size = len(scores)
    score = jnp.full(capacity, -99.0).at[:size].set(jnp.array(scores))
    at = jnp.full(capacity, -99).at[:size].set(jnp.array(scored_at, jnp.int32))
    generations = jnp.full(capacity, 99).at[:size].set(jnp.array(generation, jnp.int32))
    entries = empty.entries._replace(score=score, generation=generations)
    return empty._replace(entries=entries, scored_at=at, size=jnp.int32(size), clock=jnp.int32(clock))


@pytest.mark.slow
def test_metrics_of_a_buffer_by_hand():
    buffer = buffer_of([0.5, 0.1, 0.3, 0.2, 0.4], [9, 10, 4, 10, 6], [0, 0, 3, 1, 0], clock=10)
    found = metrics.buffer_metrics(buffer, edits=True)
    expected = {"fill": 5 / 8, "score": 0.3, "age": 11 / 5, "generation": 4 / 5}
    expected |= {"score_p10": 0.14, "score_p50": 0.3, "score_p90": 0.46}
    expected |= {"age_p10": 0.0, "age_p50": 1.0, "age_p90": 5.2}  # of 0, 0, 1, 4, 6
    assert {name: float(x) for name, x in found.items()} == pytest.approx(expected)
    assert "generation" not in metrics.buffer_metrics(buffer, edits=False)


def test_an_empty_buffer_has_zeros():
    found = metrics.buffer_metrics(curation.empty(Curator(capacity=3), jnp.float32(0)), edits=True)
    assert {float(x) for x in found.values()} == {0.0}


of_buffer = jax.jit(partial(metrics.buffer_metrics, edits=False), compiler_options=SOON)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-10, 10, width=32), st.integers(0, 50)), min_size=1, max_size=8))
def test_quantiles_are_those_of_the_filled_slots(slots):
    scores, scored_at = zip(*slots, strict=True)
    found = of_buffer(buffer_of(scores, scored_at, [0] * len(slots), clock=50))
    for q in metrics.QUANTILES:
        assert float(found[f"score_p{q}"]) == pytest.approx(np.quantile(scores, q / 100), rel=1e-5, abs=1e-5)
        assert float(found[f"age_p{q}"]) == pytest.approx(np.quantile(50 - np.array(scored_at), q / 100), abs=1e-4)


DOMAIN = maze.domain(size=5, blocks=2, max_steps=12, view=5)
STUDENT = maze_student(MazeStudent(filters=4, hidden=8, head=(8,)), chunk=8)
PARTS = Parts(DOMAIN, STUDENT, PPO(epochs=1), num_envs=8, num_steps=16)
CURATOR = Curator(capacity=16, min_fill=0.5, replay_rate=0.6)
PLAYED = {"return", "length", "solved", "action_complexity", "solved_action_complexity", "true_regret"}
DESCRIBED = {"blocks", "shortest_path", "solvable"}
OF_LEVELS = PLAYED | DESCRIBED | {f"solved_{name}" for name in DESCRIBED - {"solvable"}}


def run(method, iterations):
    key = jax.random.key(1)
    curriculum = Curriculum(method, PARTS)
    state, rows = curriculum.init(key), []
    for i in range(iterations):
        state, found = curriculum.iterate(state, jax.random.fold_in(key, i))
        rows.append({name: float(x) for name, x in found.items()})
    return rows


def of_kind(row, kind):
    """A row's metrics of one kind of levels, by their names without the kind."""
    return {name.removeprefix(f"{kind}/"): x for name, x in row.items() if name.startswith(f"{kind}/")}


def test_the_share_of_distinct_levels_in_a_batch():
    assert float(metrics.distinct_share(jnp.array([3, 1, 3, 3]))) == 0.5
    assert float(metrics.distinct_share(jnp.array([2]))) == 1.0


@pytest.mark.slow
def test_real_iterations_report_every_kind_alike_and_plausibly():
    rows = run(replace(ACCEL, curator=CURATOR), 6)
    assert {row["replay"] for row in rows} == {0.0, 1.0}
    for row in rows:
        of_solved = {name for name in row if "/solved_" in name}
        assert all(np.isfinite(x) for name, x in row.items() if name not in of_solved)
        for kind in ("replayed", "edited") if row["replay"] else ("new",):
            found = of_kind(row, kind)
            assert found.keys() - {"score", "distinct"} == OF_LEVELS
            assert 0 <= found["true_regret"] <= 1
            if found["solved"] > 0:
                assert 1 <= found["action_complexity"] <= 12
                # solved paths are no longer than the longest in a room of 3 × 3 with two walls
                assert 1 <= found["solved_shortest_path"] <= 6
        assert row["buffer/score_p10"] <= row["buffer/score_p50"] <= row["buffer/score_p90"]
        assert row["buffer/age_p10"] <= row["buffer/age_p50"] <= row["buffer/age_p90"]
    assert any(of_kind(row, "new").get("solved_shortest_path", 0) >= 1 for row in rows)
    assert rows[0]["buffer/generation"] == 0 < rows[-1]["buffer/generation"]
