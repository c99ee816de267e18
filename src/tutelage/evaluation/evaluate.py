"""Zero-shot evaluation: exactly N episodes on every test level, each on its own draw of it (paper, section 6).

Test levels that share an environment and have levels of the same shapes are evaluated together, by one program; or one
after the other by the same program, if their scenes are too large for many at a time. Draws depend only on the
key, the level's name and the episode's number: not on the other levels, nor on the policy, so that all policies under
one key meet the same levels.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from tutelage.learning import mesh
from tutelage.learning.episodes import Outcome, run_episodes
from tutelage.learning.network import Network, Params
from tutelage.types import Domain, InputError, Key, Level, TestLevel

NUM_ENVS = 16, 64
"""Envs of a device, at least and at most. With few envs, few are idle while the last episodes end; on a CPU, more than
this are hardly faster."""

MEMORY = 2**27
"""Bytes that the scenes, states and observations of one device's envs may take; large scenes get fewer envs."""


@dataclass(frozen=True, eq=False)
class LevelResult:
    """A policy's result on one test level."""

    level: str
    returns: np.ndarray  # f32[N]
    lengths: np.ndarray | None  # i32[N]; None for an oracle, which does not act
    solved_above: float | None
    optimal: np.ndarray | None = None  # f32[N]: the best possible returns; None if they are not known
    measures: Mapping[str, np.ndarray] = field(default_factory=dict)  # f32[N] each: the domain's, of an episode's steps

    @property
    def episodes(self) -> int:
        return len(self.returns)

    @property
    def solved(self) -> float | None:
        """The share of episodes that were solved; None if the domain never counts anything as solved."""
        return None if self.solved_above is None else float(np.mean(self.returns > self.solved_above))

    @property
    def mean_return(self) -> float:
        """Undiscounted."""
        return float(np.mean(self.returns, dtype=np.float64))

    @property
    def return_error(self) -> float:
        """The standard error of `mean_return`; NaN for a single episode, which has none."""
        if self.episodes < 2:
            return float("nan")
        return float(np.std(self.returns, ddof=1, dtype=np.float64) / np.sqrt(self.episodes))

    def regret(self, worst: float = 1.0) -> float | None:
        """The mean of optimal − actual return over the worst share of episodes: with 0.1, the CVaR at 10 %.

        None if the optimal returns are not known, or if the share is less than one episode.
        """
        count = round(worst * self.episodes)
        if self.optimal is None or count < 1:
            return None
        regrets = np.sort(self.optimal.astype(np.float64) - self.returns)
        return float(regrets[-count:].mean())

    def rows(self) -> list[dict[str, Any]]:
        """A row for each episode."""
        columns = {"return": self.returns, "length": self.lengths, "optimal": self.optimal, **self.measures}
        known = {name: values for name, values in columns.items() if values is not None}
        return [
            {"level": self.level, "episode": i} | {name: values[i] for name, values in known.items()}
            for i in range(self.episodes)
        ]

    @property
    def mean_length(self) -> float | None:
        """None for an oracle."""
        return None if self.lengths is None else float(np.mean(self.lengths))


def episode_keys(key: Key, name: str, number: jax.Array | int) -> tuple[Key, Key]:
    """The two keys of an episode of an evaluation: one draws the level, one runs the episode."""
    named = jax.random.fold_in(key, zlib.crc32(name.encode()))
    draw_key, run_key = jax.random.split(jax.random.fold_in(named, number))
    return draw_key, run_key


class Draws:
    """The levels of an evaluation: N draws of each of a few test levels of a kind."""

    def __init__(self, levels: Sequence[TestLevel], episodes: int) -> None:
        """All `levels` have the same environment and the same shapes."""
        self.levels, self.episodes, self.env = levels, episodes, levels[0].env
        self.same_level = len(levels) == 1 and is_fixed(levels[0])
        self._draw = jax.jit(self._drawn)

    def __call__(self, key: Key) -> tuple[Level, Key]:
        """Levels [N · L, ...], all levels' first episodes first (one level if `same_level`); and each episode's key."""
        return self._draw(key)

    def _drawn(self, key: Key) -> tuple[Level, Key]:
        numbers = jnp.arange(self.episodes)
        keys = [jax.vmap(partial(episode_keys, key, level.name))(numbers) for level in self.levels]
        # [N, L], so that the contiguous share of each device has episodes of every level
        run_keys = jnp.stack([run for _, run in keys], 1).reshape(-1)
        if self.same_level:
            return self.levels[0].draw(keys[0][0][0]), run_keys
        drawn = [jax.vmap(level.draw)(draw) for level, (draw, _) in zip(self.levels, keys, strict=True)]
        return jax.tree.map(lambda *xs: jnp.stack(xs, 1).reshape(-1, *xs[0].shape[1:]), *drawn), run_keys

    def by_level(self, values: np.ndarray) -> np.ndarray:
        """[L, N]: values [N · L] for each level."""
        return values.reshape(self.episodes, len(self.levels)).T


class Evaluator:
    """Evaluates policies on test levels; compiled at the first call.

    evaluator = Evaluator(domain, domain.suites["paper"], network, episodes=100)
    for result in evaluator(params, jax.random.key(0)):
        print(result.level, result.solved, result.mean_return)
    """

    def __init__(
        self,
        domain: Domain,
        levels: Sequence[TestLevel],
        network: Network,
        episodes: int,
        greedy: bool = False,
        devices: int | None = None,
    ) -> None:
        """Evaluate on `levels`, `episodes` times each, on at most `devices` devices (default: all there are).

        With `greedy`, policies take the greedy action instead of sampling one.
        """
        if episodes < 1:
            raise InputError(f"An evaluation needs at least one episode for each level, not {episodes}.")
        self.domain, self.levels, self.episodes, self.greedy = domain, tuple(levels), episodes, greedy
        available = jax.devices()
        self._mesh = mesh.make_mesh(min(devices or len(available), len(available)))
        self._groups = [(kind, self._program(kind[0], network)) for kind in draw_groups(self.levels, episodes)]

    def __call__(self, params: Params, key: Key, progress: Callable[[int], object] | None = None) -> list[LevelResult]:
        """A result for each test level, in their order. All levels and episodes follow from the key.

        `progress` is called with the number of levels done since the last call.
        """
        params = jax.device_put(params, NamedSharding(self._mesh, PartitionSpec()))
        results = {}
        for draws, program in [(draws, program) for kind, program in self._groups for draws in kind]:
            outcome = mesh.read(program(params, *draws(key)))
            by_level = jax.tree.map(draws.by_level, (outcome.returns, outcome.lengths, outcome.measures))
            for i, level in enumerate(draws.levels):
                returns, lengths, measures = jax.tree.map(lambda x, i=i: x[i], by_level)
                results[level.name] = LevelResult(
                    level.name, returns, lengths, self.domain.solved_above, measures=measures
                )
            if progress:
                progress(len(draws.levels))
        return [results[level.name] for level in self.levels]

    def _program(self, draws: Draws, network: Network) -> Callable[[Params, Level, Key], Outcome]:
        """(params, levels, keys) → outcomes [E], the episodes shared among the devices."""
        devices, count = self._mesh.size, len(draws.levels) * draws.episodes
        share_of = -(-count // devices)
        run = partial(
            run_episodes,
            draws.env,
            network,
            num_envs=_num_envs(draws, share_of),
            same_level=draws.same_level,
            greedy=self.greedy,
            measures=self.domain.measures,
        )
        share, everywhere = PartitionSpec(mesh.AXIS), PartitionSpec()
        shared = jax.shard_map(
            lambda params, levels, keys: run(network.pack(params), keys, levels),
            mesh=self._mesh,
            in_specs=(everywhere, everywhere if draws.same_level else share, share),
            out_specs=share,
            check_vma=False,
        )

        @partial(jax.jit, out_shardings=NamedSharding(self._mesh, everywhere))  # every process reads all of them
        def program(params: Params, levels: Level, keys: Key) -> Outcome:
            even = jnp.minimum(jnp.arange(share_of * devices), count - 1)  # padded with the last episode
            if not draws.same_level:
                levels = jax.tree.map(lambda x: x[even], levels)
            return jax.tree.map(lambda x: x[:count], shared(params, levels, keys[even]))

        return program


def draw_groups(levels: Sequence[TestLevel], episodes: int) -> Iterator[list[Draws]]:
    """The draws that can share a program, in the order in which their kinds first appear.

    Usually that is one set of draws, of all levels of a kind. Fixed levels with large scenes have a set of draws each,
    so that all episodes of a level share one scene.
    """
    kinds = list[Any]()
    groups = defaultdict[int, list[TestLevel]](list)
    for level in levels:
        drawn = jax.eval_shape(level.draw, jax.random.key(0))
        kind = level.env, jax.tree.structure(drawn), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(drawn)]
        kinds += [] if kind in kinds else [kind]  # not all can be hashed
        groups[kinds.index(kind)].append(level)
    for members in groups.values():
        together = Draws(members, episodes)
        apart = _max_envs(together) < NUM_ENVS[0] and all(map(is_fixed, members))
        yield [Draws([member], episodes) for member in members] if apart else [together]


def is_fixed(level: TestLevel) -> bool:
    """Whether every draw gives the same level."""
    keys = jax.random.split(jax.random.key(0))
    try:
        jax.eval_shape(jax.vmap(level.draw, out_axes=None), keys)
    except ValueError:  # vmap's, because something depends on the key
        return False
    return True


def _num_envs(draws: Draws, share: int) -> int:
    """How many envs should run `share` episodes: as many as help, and as memory allows."""
    least, most = NUM_ENVS
    return max(1, min(max(least, share // 4), most, _max_envs(draws)))


def _max_envs(draws: Draws) -> int:
    key, env = jax.random.key(0), draws.env
    level, _ = jax.eval_shape(draws, key)
    if not draws.same_level:
        level = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), level)

    def begin(level: Level) -> Any:
        scene = env.load(level)
        return () if draws.same_level else scene, env.reset(key, scene)

    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(begin, level)))
    return MEMORY // max(size, 1)
