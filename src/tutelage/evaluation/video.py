"""Videos: one recorded episode of a policy, and its frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import numpy as np

from tutelage.evaluation.evaluate import episode_keys
from tutelage.learning.episodes import Outcome, run_episodes
from tutelage.learning.network import Network, Packed
from tutelage.learning.policy import Policy
from tutelage.types import Domain, Env, InputError, Key, Level, Scene, State, TestLevel, require_support


@dataclass(frozen=True, eq=False)
class Episode:
    """One recorded episode."""

    env: Env
    level: Level
    scene: Scene
    states: State  # leaves [length + 1, ...]: the first is that of the reset
    rewards: np.ndarray  # f32[length]
    total: float  # the undiscounted return
    solved_above: float | None

    @property
    def length(self) -> int:
        return len(self.rewards)

    @property
    def solved(self) -> bool | None:
        """None if the domain never counts anything as solved."""
        return None if self.solved_above is None else self.total > self.solved_above


def watch(
    domain: Domain, where: TestLevel | Level, policy: Policy, key: Key, *, number: int = 0, greedy: bool = False
) -> Episode:
    """Record one episode of a policy on a test level, or on a level of the domain's own environment.

    On a test level it is the episode of this number in an evaluation with this key. With `greedy`, the policy takes the
    greedy action instead of sampling one.
    """
    if isinstance(where, TestLevel):
        draw_key, key = episode_keys(key, where.name, number)
        env, level = where.env, jax.jit(where.draw)(draw_key)
    else:
        env, level = domain.env, where
    outcome = _record(env, policy.network, greedy, policy.weights, level, key)
    (total,), (length,), recording = outcome.returns.tolist(), outcome.lengths.tolist(), outcome.recording
    states = jax.tree.map(lambda x: x[0, : length + 1], recording.states)
    rewards = np.asarray(recording.rewards)[0, :length]
    return Episode(env, level, recording.scene, states, rewards, total, domain.solved_above)


def require_pictures(domain: Domain) -> None:
    """Raise an `InputError` unless `frames` can draw something: a domain's own `frame`, or its design's `image`."""
    if domain.frame is None:
        require_support(domain.design, "image", purpose="A video of a domain without `frame`")


def frames(domain: Domain, episode: Episode, most: int = 200) -> list[np.ndarray]:
    """u8[H, W, 3] each: the episode's frames, evenly spaced if there are more than `most`; the last is always shown.

    A domain without `frame` gives one picture, that of the level.
    """
    if most < 1:
        raise InputError(f"A video has at least one frame, not {most}.")
    require_pictures(domain)
    if domain.frame is None:
        return [np.asarray(domain.design.image(episode.level))]
    moments = np.unique(np.linspace(episode.length, 0, min(most, episode.length + 1)).round().astype(int))
    frame = jax.jit(domain.frame, static_argnums=0)
    states = (jax.tree.map(lambda x, i=i: x[i], episode.states) for i in moments)
    return [np.asarray(frame(episode.env, episode.scene, state)) for state in states]


@partial(jax.jit, static_argnums=(0, 1, 2))
def _record(env: Env, network: Network, greedy: bool, weights: Packed, level: Level, key: Key) -> Outcome:
    return run_episodes(
        env, network, weights, key[None], level, num_envs=1, same_level=True, greedy=greedy, record=True
    )
