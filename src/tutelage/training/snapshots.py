"""Snapshots of a curriculum: its levels at one time, with scores, ancestry and true regret."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.curriculum.curator import Buffer, sample
from tutelage.curriculum.curriculum import Curriculum
from tutelage.curriculum.parts import Parts
from tutelage.curriculum.step import State
from tutelage.learning import returns
from tutelage.learning.network import Params
from tutelage.learning.rollout import collect_rollout
from tutelage.training.run_writer import protagonist
from tutelage.types import Json, Key, Level

DRAWN = 8
"""How many levels a snapshot draws as training does."""


class Snapshots:
    """Takes snapshots of a curriculum's levels, and plays them with the protagonist."""

    def __init__(self, curriculum: Curriculum, count: int) -> None:
        """Of up to `count` levels."""
        self.curriculum, self.count = curriculum, count
        curator: Any = curriculum.method.curator
        self._inspect = jax.jit(partial(_inspect, curriculum.parts))
        self._propose = jax.jit(partial(curriculum.method.generator.propose, curriculum.parts))
        self._draw = jax.jit(partial(sample, curator, count=DRAWN))
        known = curator is not None and curriculum.parts.domain.optimal_return is not None
        self.metrics = {"buffer/true_regret": "true_regret"} if known else {}
        """Metrics that a snapshot adds, and their names in it."""

    def __call__(self, state: State, key: Key) -> dict[str, Json]:
        """The protagonist's buffer, or the generator's proposals where nothing is kept."""
        # on one device: a program on arrays that several devices hold would run on each of them
        params = protagonist(state)
        choice_key, play_key, sample_key = jax.random.split(key, 3)
        if self.curriculum.method.curator is None:
            keys = jax.random.split(choice_key, self.count)
            queues, _ = self._propose(jax.device_get(state.generator), keys)
            levels = jax.tree.map(lambda x: np.asarray(x[:, 0]), queues)
            entries = [{"id": i, "parent": -1, "generation": 0, "score": None} for i in range(self.count)]
            about = {"source": "generator", "size": self.count, "capacity": self.count}
        else:
            buffer = jax.tree.map(lambda x: x[0], jax.device_get(state.buffers))
            slots = chosen(buffer, self.count, np.random.default_rng(np.asarray(jax.random.key_data(choice_key))))
            levels = jax.tree.map(lambda x: x[slots], buffer.entries.level)
            entries = [_entry(buffer, slot) for slot in slots]
            about = {"source": "buffer", "size": int(buffer.size), "capacity": len(buffer.scored_at)}
            if buffer.size:  # drawn as for training, so not only those with the highest scores
                drawn = np.asarray(self._draw(buffer, jax.random.fold_in(key, 3)))
                about["drawn"] = self._to_json(buffer.entries.level, drawn)
            if self.metrics:
                about["true_regret"] = self._true_regret(params, buffer, sample_key)
        found = self._play(params, levels, len(entries), play_key)
        plain = self._to_json(levels, range(len(entries)))
        each = zip(entries, found, plain, strict=True)
        return about | {"entries": [entry | seen | {"level": level} for entry, seen, level in each]}

    def _to_json(self, levels: Level, places: Iterable[int]) -> list[Json]:
        to_json = self.curriculum.parts.domain.design.to_json
        return [to_json(jax.tree.map(lambda x, i=i: x[i], levels)) for i in places]

    def _true_regret(self, params: Params, buffer: Buffer, key: Key) -> float:
        """The mean of optimal − actual return over a uniform sample of the buffer; NaN if it is empty."""
        if not buffer.size:
            return float("nan")
        slot_key, play_key = jax.random.split(key)
        slots = np.asarray(jax.random.permutation(slot_key, int(buffer.size))[: self.count])
        found = self._play(params, jax.tree.map(lambda x: x[slots], buffer.entries.level), len(slots), play_key)
        return float(np.mean([seen["optimal_return"] - seen["return"] for seen in found]))

    def _play(self, params: Params, levels: Level, count: int, key: Key) -> list[dict[str, Json]]:
        """Return and measures of each level, found for as many levels at a time as in training."""
        batch, found = self.curriculum.parts.num_envs, []
        for start in range(0, count, batch):
            some = np.minimum(np.arange(start, start + batch), count - 1)  # padded with the last level
            keys = jax.random.split(jax.random.fold_in(key, start), batch)
            values = jax.device_get(self._inspect(params, jax.tree.map(lambda x, some=some: x[some], levels), keys))
            found += [jax.tree.map(lambda x, i=i: x[i].item(), values) for i in range(min(batch, count - start))]
        return found


def chosen(buffer: Buffer, count: int, random: np.random.Generator) -> np.ndarray:
    """i64[≤ count]: slots in order of falling score: the highest, their ancestors, and a sample of the rest."""
    size = int(buffer.size)
    order = np.argsort(-buffer.entries.score[:size], kind="stable")
    if size <= count:
        return order
    slot_of = {int(name): slot for slot, name in enumerate(buffer.entries.id[:size])}
    taken = dict.fromkeys(int(slot) for slot in order[: count // 2])
    for slot in list(taken):
        while len(taken) < 3 * count // 4 and (slot := slot_of.get(int(buffer.entries.parent[slot]), -1)) >= 0:
            taken[slot] = None
    rest = random.permutation([slot for slot in range(size) if slot not in taken])[: count - len(taken)]
    places = np.empty(size, int)
    places[order] = np.arange(size)
    return np.array(sorted([*taken, *map(int, rest)], key=lambda slot: places[slot]))


def _entry(buffer: Buffer, slot: int) -> dict[str, Json]:
    names = ("id", "parent", "generation", "score", "best_return")
    entry = {name: getattr(buffer.entries, name)[slot].item() for name in names}
    return entry | {"age": int(buffer.clock - buffer.scored_at[slot])}


def _inspect(parts: Parts, params: Params, levels: Level, keys: Key) -> dict[str, Any]:
    """The student's mean return on levels [B, ...] in rollouts of `horizon` steps with keys [B], and measures."""
    domain, network = parts.domain, parts.student
    queues = jax.tree.map(lambda x: x[:, None], levels)
    rollout, _ = collect_rollout(domain.env, network, network.pack(params), keys, queues, domain.env.horizon)
    episodes = jax.vmap(returns.episodes, (1, 1))(rollout.reward, rollout.done)
    found = {"return": episodes.mean_return, "about": jax.vmap(domain.design.describe)(levels)}
    if domain.optimal_return is not None:
        found["optimal_return"] = jax.vmap(partial(domain.optimal_return, domain.env))(levels)
    return jax.tree.map(jnp.asarray, found)
