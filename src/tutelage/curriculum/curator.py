"""The curator: a buffer of the K levels most worth replaying (paper, Algorithm 2).

A level i is replayed with probability

    P_replay = (1 − ρ)·P_S + ρ·P_C,    P_S ∝ h(S_i)^(1/β),    P_C ∝ c − C_i

over the filled slots: h is 1/rank (the highest score has rank 1, equal scores share the better rank) or max(S_i, 0),
β the `temperature`, ρ the `staleness`, c the clock and C_i the time at which level i was last scored. A new level takes
a free slot; when none is left it replaces the level of least P_replay, if that one's score is lower.

Pure functions on a `Buffer`. The clock ticks once per iteration, so all levels of a batch are equally fresh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tutelage.curriculum.scores import Score, max_mc
from tutelage.types import InputError, Key, Level


@dataclass(frozen=True)
class Curator:
    """How levels are kept and chosen. The defaults are the paper's for mazes."""

    score: Score = max_mc
    capacity: int = 4000
    """K, the number of slots."""
    replay_rate: float = 0.5
    """The probability that an iteration replays levels instead of trying new ones."""
    min_fill: float = 0.5
    """The share of slots that must be filled before anything is replayed."""
    prioritization: Literal["rank", "proportional"] = "rank"
    temperature: float = 0.3
    """β: near zero only the highest score counts, above one scores matter little (paper: 0.3; CarRacing 1.0)."""
    staleness: float = 0.3
    """ρ: the weight of how long ago a level was last scored."""
    replace_equals: bool = False
    """A new level also replaces one of the same score (the released code's way)."""

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise InputError(f"A curator needs at least one slot; capacity is {self.capacity}.")
        if self.temperature <= 0:
            raise InputError(f"temperature must be above 0, not {self.temperature}; near 0 it is an argmax.")
        for name in ("replay_rate", "min_fill", "staleness"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must lie in [0, 1], not {getattr(self, name)}.")
        if self.prioritization not in ("rank", "proportional"):
            raise InputError(f"prioritization is 'rank' or 'proportional', not {self.prioritization!r}.")


class Entries(NamedTuple):
    """Levels with what is known of each. The leading axis is [K] in a buffer, [B] for levels that come in."""

    level: Level
    score: jax.Array  # f32
    best_return: jax.Array  # f32: R_max, the best return ever seen on it
    generation: jax.Array  # i32: how many edits away from a level that a generator made
    parent: jax.Array  # i32: the name of the level it was edited from, or −1
    name: jax.Array  # i32: a number of its own, in order of entry; whatever comes in gets one
    digest: jax.Array  # u32[2]: a fingerprint of the level


class Buffer(NamedTuple):
    """The curator's memory Λ."""

    entries: Entries  # leaves [K, ...]; slots from `size` on hold nothing
    scored_at: jax.Array  # i32[K]: C_i
    size: jax.Array  # i32[]: filled slots
    clock: jax.Array  # i32[]: c
    names: jax.Array  # i32[]: names given so far

    @property
    def filled(self) -> jax.Array:
        """bool[K]"""
        return jnp.arange(self.scored_at.shape[0]) < self.size


def empty(curator: Curator, level: Level) -> Buffer:
    """A buffer without levels, for levels of the same shapes and types as `level`."""

    def slots(x: Any) -> jax.Array:
        return jnp.zeros((curator.capacity, *x.shape), x.dtype)

    row = jax.eval_shape(lambda: entry(level, jnp.float32(0), jnp.float32(0)))
    return Buffer(jax.tree.map(slots, row), slots(jnp.int32(0)), jnp.int32(0), jnp.int32(0), jnp.int32(0))


def entry(
    level: Level,
    score: jax.Array,
    best_return: jax.Array,
    generation: jax.Array | int = 0,
    parent: jax.Array | int = -1,
) -> Entries:
    """One level that wants to enter a buffer; callers vmap."""
    return Entries(
        level, score, best_return, jnp.int32(generation), jnp.int32(parent), jnp.int32(-1), fingerprint(level)
    )


def tick(buffer: Buffer) -> Buffer:
    """An iteration passes."""
    return buffer._replace(clock=buffer.clock + 1)


def ready(curator: Curator, buffer: Buffer) -> jax.Array:
    """bool[]: whether enough slots are filled to replay levels."""
    return (buffer.size >= curator.min_fill * curator.capacity) & (buffer.size > 0)


def replay_probabilities(curator: Curator, buffer: Buffer) -> jax.Array:
    """f32[K]: P_replay, zero for empty slots."""
    return _support(curator, buffer, _ranks(buffer))


def sample(curator: Curator, buffer: Buffer, key: Key, count: int) -> jax.Array:
    """i32[count]: slots drawn independently from P_replay."""
    cumulative = jnp.cumsum(replay_probabilities(curator, buffer))
    drawn = jnp.searchsorted(cumulative, jax.random.uniform(key, (count,)) * cumulative[-1], side="right")
    return jnp.minimum(drawn, buffer.size - 1)


def find(buffer: Buffer, level: Level) -> jax.Array:
    """i32[]: the slot that holds this level, or −1."""
    return _slot_of(buffer, fingerprint(level))


def best_known(buffer: Buffer, slot: jax.Array) -> jax.Array:
    """f32[]: the best return ever seen on the level in a slot; −inf if the slot is −1."""
    return jnp.where(slot >= 0, buffer.entries.best_return[slot], -jnp.inf)


def remember_best(buffer: Buffer, slots: jax.Array, returns: jax.Array) -> tuple[Buffer, jax.Array]:
    """Raise R_max of some slots [B] to `returns` [B], and say what it is now.

    A slot may be named more than once: each of those workers is then told of the others' returns, too.
    """
    best = buffer.entries.best_return.at[slots].max(returns)
    return buffer._replace(entries=buffer.entries._replace(best_return=best)), best[slots]


def rescore(buffer: Buffer, slots: jax.Array, scores: jax.Array) -> Buffer:
    """Give replayed levels, slots [B], their new scores [B].

    A level that several workers played gets the mean of their scores. A score that is NaN leaves the old one.
    """
    known = ~jnp.isnan(scores)
    times = jnp.zeros_like(buffer.entries.score).at[slots].add(known)
    total = jnp.zeros_like(buffer.entries.score).at[slots].add(jnp.where(known, scores, 0.0))
    score = jnp.where(times > 0, total / jnp.maximum(times, 1), buffer.entries.score)
    return buffer._replace(
        entries=buffer.entries._replace(score=score), scored_at=buffer.scored_at.at[slots].set(buffer.clock)
    )


def insert(curator: Curator, buffer: Buffer, arriving: Entries) -> Buffer:
    """Let levels [B] enter one after the other, as Algorithm 2 does.

    A level that the buffer holds already takes on its new score; its R_max never falls.
    """

    def over_level(loop: tuple[Buffer, jax.Array], new: Entries) -> tuple[tuple[Buffer, jax.Array], None]:
        buffer, ranks = loop
        known = _slot_of(buffer, new.digest)
        full = buffer.size >= curator.capacity
        victim = lax.cond(
            full & (known < 0),
            lambda: jnp.argmin(_least(curator, buffer, ranks)).astype(jnp.int32),
            lambda: buffer.size,
        )
        slot = jnp.where(known >= 0, known, victim)
        old = jax.tree.map(lambda x: x[slot], buffer.entries)
        wins = new.score >= old.score if curator.replace_equals else new.score > old.score
        enters = (known < 0) & (~full | wins)
        again = old._replace(score=new.score, best_return=jnp.maximum(old.best_return, new.best_return))
        row = _pick(enters, new._replace(name=buffer.names), _pick(known >= 0, again, old))
        buffer = Buffer(
            entries=jax.tree.map(lambda slots, x: slots.at[slot].set(x), buffer.entries, row),
            scored_at=buffer.scored_at.at[slot].set(
                jnp.where(enters | (known >= 0), buffer.clock, buffer.scored_at[slot])
            ),
            size=buffer.size + (enters & ~full),
            clock=buffer.clock,
            names=buffer.names + enters,
        )
        grew = enters & ~full
        return (buffer, _reranked(buffer, ranks, slot, jnp.where(grew, -jnp.inf, old.score))), None

    return lax.scan(over_level, (buffer, _ranks(buffer)), arriving)[0][0]


def fingerprint(level: Level) -> jax.Array:
    """u32[2]: equal levels have equal fingerprints, and different ones do not, but for a chance of 2⁻⁶⁴."""
    words = jnp.concatenate([_words(leaf) for leaf in jax.tree.leaves(level)])
    places = np.random.default_rng(0).integers(0, 2**32, (2, words.size), np.uint32)
    return _mixed(words ^ places).sum(axis=-1, dtype=jnp.uint32)


def _words(x: jax.Array) -> jax.Array:
    """u32[n]: the bits of an array."""
    flat = jnp.ravel(x)
    if flat.dtype == bool:
        return flat.astype(jnp.uint32)
    width = min(flat.dtype.itemsize, 4)  # what is wider becomes several words
    return lax.bitcast_convert_type(flat, f"uint{8 * width}").astype(jnp.uint32).ravel()


def _mixed(x: jax.Array) -> jax.Array:
    """A bijection on u32 in which every bit of the input sways every bit of the output (MurmurHash3's last step)."""
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def _slot_of(buffer: Buffer, digest: jax.Array) -> jax.Array:
    same = jnp.all(buffer.entries.digest == digest, axis=-1) & buffer.filled
    return jnp.where(same.any(), jnp.argmax(same), -1).astype(jnp.int32)


def _ranks(buffer: Buffer) -> jax.Array:
    """i32[K]: 1 + the number of filled slots with a higher score."""
    scores = jnp.where(buffer.filled, buffer.entries.score, -jnp.inf)
    higher = scores.size - jnp.searchsorted(jnp.sort(scores), scores, side="right")
    return 1 + higher.astype(jnp.int32)


def _reranked(buffer: Buffer, ranks: jax.Array, slot: jax.Array, before: jax.Array) -> jax.Array:
    """`_ranks` after one slot's score changed from `before` (−inf: it was empty), without sorting again."""
    scores, now = buffer.entries.score, buffer.entries.score[slot]
    moved = ranks + (now > scores) - (before > scores)
    return moved.at[slot].set(1 + jnp.sum((scores > now) & buffer.filled, dtype=jnp.int32))


def _support(curator: Curator, buffer: Buffer, ranks: jax.Array) -> jax.Array:
    """f32[K]: P_replay, given the ranks."""
    filled = buffer.filled
    if curator.prioritization == "rank":
        # relative to rank 1, whose weight is 1: nothing overflows however small the temperature
        weight = jnp.exp(-jnp.log(ranks.astype(jnp.float32)) / curator.temperature)
    else:
        positive = jnp.where(filled, jnp.maximum(buffer.entries.score, 0.0), 0.0)
        highest = positive.max()
        # if no score is above zero, all levels are alike
        relative = jnp.where(highest > 0, positive / jnp.where(highest > 0, highest, 1.0), 1.0)
        weight = relative ** (1 / curator.temperature)
    by_score = _normalised(jnp.where(filled, weight, 0.0), filled)
    age = jnp.where(filled, buffer.clock - buffer.scored_at, 0).astype(jnp.float32)
    by_age = _normalised(age, filled)
    return (1 - curator.staleness) * by_score + curator.staleness * by_age


def _least(curator: Curator, buffer: Buffer, ranks: jax.Array) -> jax.Array:
    """P_replay for finding its smallest: +inf where there is nothing to evict."""
    return jnp.where(buffer.filled, _support(curator, buffer, ranks), jnp.inf)


def _normalised(weight: jax.Array, filled: jax.Array) -> jax.Array:
    """Weights as a distribution; uniform over the filled slots if all of them are zero."""
    weight = jnp.where(weight.sum() > 0, weight, filled.astype(weight.dtype))
    return weight / jnp.maximum(weight.sum(), 1e-30)


def _pick(which: jax.Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), yes, no)
