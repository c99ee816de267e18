"""One episode, watched: the same as in an evaluation, and drawn moment by moment."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from tutelage.domains import maze, racing
from tutelage.domains.maze import MazeEnv
from tutelage.domains.maze.image import AGENT, LIGHT, frame
from tutelage.domains.maze.level import parse
from tutelage.evaluation.baselines import uniform_network
from tutelage.evaluation.evaluate import Evaluator
from tutelage.evaluation.video import frames, watch
from tutelage.learning.policy import Policy
from tutelage.types import Discrete, InputError

KEY = jax.random.key(0)
MAZES = maze.domain(size=7, blocks=6, view=3, max_steps=24)
CROSSING = next(entry for entry in MAZES.suites["maze"] if entry.name == "SimpleCrossing")
NETWORK = uniform_network(Discrete(7))
POLICY = Policy(NETWORK, ())


def test_an_episode_goes_as_the_same_one_of_an_evaluation():
    (score,) = Evaluator(MAZES, (CROSSING,), NETWORK, 4)((), KEY)
    for number in range(4):
        episode = watch(MAZES, CROSSING, POLICY, KEY, number=number)
        assert episode.length == score.lengths[number]
        assert np.float32(episode.total) == score.returns[number]
        assert episode.solved == (score.returns[number] > 0)
        assert len(jax.tree.leaves(episode.states)[0]) == episode.length + 1
        np.testing.assert_array_equal(episode.states.time, np.arange(episode.length + 1))


def test_frames_are_evenly_spaced_and_end_with_the_end():
    level = MAZES.design.sample(KEY)
    episode = watch(MAZES, level, POLICY, KEY)
    everything = frames(MAZES, episode)
    assert len(everything) == episode.length + 1
    few = frames(MAZES, episode, 5)
    assert len(few) == 5
    np.testing.assert_array_equal(few[0], everything[0])
    np.testing.assert_array_equal(few[-1], everything[-1])
    assert len(frames(MAZES, episode, 1)) == 1
    with pytest.raises(InputError, match="at least one frame"):
        frames(MAZES, episode, 0)


def test_a_domain_that_draws_zero_moments_shows_the_level():
    level = MAZES.design.sample(KEY)
    (picture,) = frames(replace(MAZES, frame=None), watch(MAZES, level, POLICY, KEY))
    np.testing.assert_array_equal(picture, MAZES.design.image(level))


@pytest.mark.parametrize("see_through", [True, False])
def test_a_mazes_frame_lights_what_the_agent_sees(see_through):
    env = MazeEnv(view=3, see_through=see_through)
    scene = env.load(parse("#######\n#.....#\n#.###.#\n#.#>..#\n#.###.#\n#....G#\n#######"))
    state, _ = env.reset(KEY, scene)
    picture = np.asarray(jax.jit(frame, static_argnums=0)(env, scene, state))
    side = picture.shape[0] // 7
    tiles = picture.reshape(7, side, 7, side, 3).transpose(0, 2, 1, 3, 4)
    plain = np.asarray(jax.jit(frame, static_argnums=0)(env, scene, state._replace(agent=state.agent + 2)))
    plain = plain.reshape(7, side, 7, side, 3).transpose(0, 2, 1, 3, 4)
    lit = np.array([[(tiles[row, column] != plain[row, column]).any() for column in range(7)] for row in range(7)])
    # it faces east and sees three columns from its own onwards; the cell with the agent differs in any case
    expected = np.zeros((7, 7), bool)
    expected[2:5, 3:6] = True
    other = np.zeros((7, 7), bool)
    other[4:, 5:] = True  # where the other agent looks
    assert (lit[~other] == expected[~other]).all()
    center = tiles[3, 3, side // 2, side // 2].astype(int)
    assert abs(center - (0.75 * AGENT + 0.25 * LIGHT)).max() <= 1


@pytest.mark.slow
def test_a_race_is_shown_from_the_seat_and_from_above():
    domain = racing.domain()
    entry = domain.suites["bezier"][0]
    short = replace(entry, env=replace(entry.env, frames=40))
    pictures = frames(domain, watch(domain, short, Policy(uniform_network(domain.env.actions), ()), KEY), 3)
    assert [picture.shape for picture in pictures] == [(480, 960, 3)] * 3
    above = [picture[:, 480:] for picture in pictures]
    red = [np.argwhere((picture == [204, 0, 0]).all(-1)) for picture in above]
    assert all(len(dots) > 20 for dots in red)
    assert (above[0] != above[-1]).any()
