"""The curator: a buffer of the K levels most worth replaying (paper, Algorithm 2).

A level i is replayed with probability

    P_replay = (1 − ρ)·P_S + ρ·P_C,    P_S ∝ h(S_i)^(1/β),    P_C ∝ c − C_i

over the filled slots: h is the `prioritization`, β the `temperature`, ρ the `staleness`, c the clock and C_i the time
at which level i was last scored. A new level takes a free slot; when none is left it replaces the level of least
P_replay, if that one's score is lower.

Pure functions on a `Buffer`. The clock ticks once per iteration, so all levels of a batch are equally fresh. Scores and
returns in a buffer are always finite: what is NaN or infinite stays out.

P_replay is computed in float64, even if JAX's default is float32: weights differ by many orders of magnitude, and in
float32 thousands of slots would tie, because their weights underflow or vanish next to the staleness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Float32, Float64, Int, Int32, UInt32

from tutelage.curriculum.scores import Score, max_mc
from tutelage.types import InputError, Key, Level

Prioritization = Callable[[Float[Array, " K"], Int[Array, " K"], Bool[Array, " K"]], Float[Array, " K"]]
"""h: scores, their ranks and which slots are filled → a weight ≥ 0 for each slot, before the temperature.

The highest score has rank 1; equal scores share the better rank. Empty slots hold arbitrary numbers, and their weights
are ignored. If no weight is above zero, all levels are equally likely.
"""


def rank(scores: Float[Array, " K"], ranks: Int[Array, " K"], filled: Bool[Array, " K"]) -> Float[Array, " K"]:
    """1 / rank: only the order of scores counts, not their scale."""
    with jax.enable_x64(True):
        return 1 / ranks.astype(jnp.float64)


def proportional(scores: Float[Array, " K"], ranks: Int[Array, " K"], filled: Bool[Array, " K"]) -> Float[Array, " K"]:
    """max(score, 0): levels without a positive score have weight 0."""
    return jnp.maximum(scores, 0.0)


@dataclass(frozen=True)
class Curator:
    """How levels are kept and chosen. The defaults are the paper's for mazes."""

    score: Score = max_mc
    """How levels are scored (paper: max-mc; in CarRacing positive-value-loss, but max-mc-start for REPAIRED)."""
    capacity: int = 4000
    """K, the number of slots (paper: 4000 in mazes, 8000 in CarRacing)."""
    replay_rate: float = 0.5
    """The probability that an iteration replays levels instead of trying new ones (paper: 0.5; ACCEL 0.8)."""
    min_fill: float = 0.5
    """The share of slots that must be filled before anything is replayed (released code: 0.5)."""
    prioritization: Prioritization = rank
    """How scores become weights (paper: rank in mazes, proportional in CarRacing)."""
    temperature: float = 0.3
    """β: near zero only the highest score counts, above one scores matter little (paper: 0.3; CarRacing 1.0)."""
    staleness: float = 0.3
    """ρ: the weight of how long ago a level was last scored (paper: 0.3; CarRacing 0.7)."""
    with_replacement: bool = True
    """Draw the levels of a batch independently (paper: yes) or, for diversity, all different."""
    replace_equals: bool = False
    """A new level also replaces one of the same score (paper: no; released code: yes)."""

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise InputError(f"A curator needs at least one slot; capacity is {self.capacity}.")
        if not 0 < self.temperature < float("inf"):
            raise InputError(f"temperature must be above 0 and finite, not {self.temperature}; near 0 it is an argmax.")
        for name in ("replay_rate", "min_fill", "staleness"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must lie in [0, 1], not {getattr(self, name)}.")
        for name in ("score", "prioritization"):
            if not callable(getattr(self, name)):
                raise InputError(
                    f"{name} is a function, such as `{getattr(Curator, name).__name__}`, not {getattr(self, name)!r}."
                )


class Entries(NamedTuple):
    """Levels with what is known of each. The leading axis is K in a buffer, B for levels that arrive."""

    level: Level
    score: Float32[Array, "*N"]
    best_return: Float32[Array, "*N"]
    """R_max, the best return ever seen on the level."""
    generation: Int32[Array, "*N"]
    """How many edits separate it from a level that a generator made."""
    parent: Int32[Array, "*N"]
    """The id of the level it was edited from, or −1."""
    id: Int32[Array, "*N"]
    """Numbers the levels in the order in which they entered; −1 before."""
    digest: UInt32[Array, "*N 2"]
    """The level's fingerprint."""


class Buffer(NamedTuple):
    """Λ, the levels of one student's curator."""

    entries: Entries
    """Leaves [K, ...]. Slots from `size` on are empty."""
    scored_at: Int32[Array, " K"]
    """C_i."""
    size: Int32[Array, ""]
    """The number of filled slots."""
    clock: Int32[Array, ""]
    """c."""
    next_id: Int32[Array, ""]
    """The id of the next level that enters."""

    @property
    def filled(self) -> Bool[Array, " K"]:
        """Which slots hold a level."""
        return jnp.arange(self.scored_at.shape[0]) < self.size


def empty(curator: Curator, level: Level) -> Buffer:
    """A buffer without levels, for levels of the same shapes and types as `level`."""

    def slots(x: Any) -> Array:
        return jnp.zeros((curator.capacity, *x.shape), x.dtype)

    row = jax.eval_shape(entry, level, jnp.float32(0), jnp.float32(0))
    return Buffer(jax.tree.map(slots, row), slots(jnp.int32(0)), jnp.int32(0), jnp.int32(0), jnp.int32(0))


def entry(
    level: Level,
    score: Float[Array, ""],
    best_return: Float[Array, ""],
    generation: Int[Array, ""] | int = 0,
    parent: Int[Array, ""] | int = -1,
) -> Entries:
    """One level that may enter a buffer; callers vmap."""
    return Entries(
        level, score, best_return, jnp.int32(generation), jnp.int32(parent), jnp.int32(-1), fingerprint(level)
    )


def tick(buffer: Buffer) -> Buffer:
    """Advance the clock by one iteration."""
    return buffer._replace(clock=buffer.clock + 1)


def ready(curator: Curator, buffer: Buffer) -> Bool[Array, ""]:
    """Whether enough slots are filled to replay levels."""
    return (buffer.size >= curator.min_fill * curator.capacity) & (buffer.size > 0)


def replay_probabilities(curator: Curator, buffer: Buffer) -> Float32[Array, " K"]:
    """P_replay, zero for empty slots."""
    support = _supports(curator, buffer, _ranks(buffer)).probability
    with jax.enable_x64(True):
        return support.astype(jnp.float32)


def sample(curator: Curator, buffer: Buffer, key: Key, count: int) -> Int32[Array, " B"]:
    """Draw `count` slots from P_replay.

    With replacement they are independent. Without, they are all different, and the first still has the distribution
    P_replay (Gumbel top-k); if fewer slots are filled than drawn, all of them are repeated in turn.
    """
    probability = replay_probabilities(curator, buffer)
    if curator.with_replacement:
        cumulative = jnp.cumsum(probability)
        drawn = jnp.searchsorted(cumulative, jax.random.uniform(key, (count,)) * cumulative[-1], side="right")
        return jnp.minimum(drawn, buffer.size - 1)
    # a level of probability zero comes after all others, but before an empty slot
    log_probability = jnp.where(buffer.filled, jnp.maximum(jnp.log(probability), -1e4), -jnp.inf)
    drawn = lax.top_k(log_probability + jax.random.gumbel(key, log_probability.shape), min(count, curator.capacity))[1]
    return drawn[jnp.arange(count) % jnp.clip(buffer.size, 1, drawn.size)]


def find(buffer: Buffer, level: Level) -> Int32[Array, ""]:
    """The slot that holds this level, or −1."""
    return _slot_of(buffer, fingerprint(level))


def best_known(buffer: Buffer, slot: Int[Array, ""]) -> Float32[Array, ""]:
    """The best return ever seen on the level in a slot; −inf if the slot is −1."""
    return jnp.where(slot >= 0, buffer.entries.best_return[slot], -jnp.inf)


def update_best_return(
    buffer: Buffer, slots: Int[Array, " B"], returns: Float[Array, " B"]
) -> tuple[Buffer, Float32[Array, " B"]]:
    """Raise R_max of some slots to the returns just seen, and return the new R_max of each.

    If several envs played the level of one slot, all get the best of their returns.
    """
    best = buffer.entries.best_return.at[slots].max(jnp.where(jnp.isfinite(returns), returns, -jnp.inf))
    return buffer._replace(entries=buffer.entries._replace(best_return=best)), best[slots]


def rescore(buffer: Buffer, slots: Int[Array, " B"], scores: Float[Array, " B"]) -> Buffer:
    """Give the replayed levels in some slots their new scores.

    A level that several envs played gets the mean of their scores. A score that is not finite leaves the old one.
    """
    known = jnp.isfinite(scores)
    times = jnp.zeros_like(buffer.entries.score).at[slots].add(known)
    mean = jnp.zeros_like(times).at[slots].add(jnp.where(known, scores, 0.0)) / jnp.maximum(times, 1)
    score = jnp.where((times > 0) & jnp.isfinite(mean), mean, buffer.entries.score)  # a sum may overflow
    return buffer._replace(
        entries=buffer.entries._replace(score=score), scored_at=buffer.scored_at.at[slots].set(buffer.clock)
    )


def insert(curator: Curator, buffer: Buffer, arriving: Entries) -> Buffer:
    """Insert levels [B] one after the other, as in Algorithm 2.

    A level that is already in the buffer gets its new score, and its R_max never falls. A new level enters only if its
    score and its best return are finite. In a known level, a number that is not finite replaces nothing.
    """

    def over_level(carry: tuple[Buffer, Array], new: Entries) -> tuple[tuple[Buffer, Array], None]:
        buffer, ranks = carry
        slot = _slot_of(buffer, new.digest)
        known, full = slot >= 0, buffer.size >= curator.capacity
        free = lax.cond(full & ~known, lambda: _victim(curator, buffer, ranks), lambda: buffer.size)
        slot = jnp.where(known, slot, free)
        old = jax.tree.map(lambda x: x[slot], buffer.entries)
        scored, returned = jnp.isfinite(new.score), jnp.isfinite(new.best_return)
        wins = new.score >= old.score if curator.replace_equals else new.score > old.score
        enters = ~known & (~full | wins) & scored & returned
        again = old._replace(
            score=jnp.where(scored, new.score, old.score),
            best_return=jnp.where(returned, jnp.maximum(old.best_return, new.best_return), old.best_return),
        )
        row = _pick(enters, new._replace(id=buffer.next_id), _pick(known, again, old))
        grows = enters & ~full
        buffer = Buffer(
            entries=jax.tree.map(lambda slots, x: slots.at[slot].set(x), buffer.entries, row),
            scored_at=buffer.scored_at.at[slot].set(jnp.where(enters | known, buffer.clock, buffer.scored_at[slot])),
            size=buffer.size + grows,
            clock=buffer.clock,
            next_id=buffer.next_id + enters,
        )
        return (buffer, _reranked(buffer, ranks, slot, jnp.where(grows, -jnp.inf, old.score))), None

    return lax.scan(over_level, (buffer, _ranks(buffer)), arriving)[0][0]


def fingerprint(level: Level) -> UInt32[Array, " 2"]:
    """Equal levels have equal fingerprints; different levels have equal ones with a probability of 2⁻⁶⁴."""
    words = jnp.concatenate([_words(leaf) for leaf in jax.tree.leaves(level)])
    places = np.random.default_rng(0).integers(0, 2**32, (2, words.size), np.uint32)
    return _mixed(words ^ places).sum(axis=-1, dtype=jnp.uint32)


def _words(x: Array) -> UInt32[Array, " n"]:
    """The bits of an array."""
    flat = jnp.ravel(x)
    if flat.dtype == bool:
        return flat.astype(jnp.uint32)
    width = min(flat.dtype.itemsize, 4)  # wider types become several words
    return lax.bitcast_convert_type(flat, f"uint{8 * width}").astype(jnp.uint32).ravel()


def _mixed(x: UInt32[Array, "*n"]) -> UInt32[Array, "*n"]:
    """A bijection in which every input bit changes every output bit with probability ½ (MurmurHash3's finalizer)."""
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def _slot_of(buffer: Buffer, digest: UInt32[Array, " 2"]) -> Int32[Array, ""]:
    same = jnp.all(buffer.entries.digest == digest, axis=-1) & buffer.filled
    slot = _first(same)
    return jnp.where(slot < same.size, slot, -1)


def _first(which: Bool[Array, " K"]) -> Int32[Array, ""]:
    """The first slot that is true, or K. On a CPU this takes a third of the time of `argmax`."""
    return jnp.min(jnp.where(which, jnp.arange(which.size, dtype=jnp.int32), which.size))


def _ranks(buffer: Buffer) -> Int32[Array, " K"]:
    """1 + the number of filled slots with a higher score."""
    scores = jnp.where(buffer.filled, buffer.entries.score, -jnp.inf)
    higher = scores.size - jnp.searchsorted(jnp.sort(scores), scores, side="right")
    return 1 + higher.astype(jnp.int32)


def _reranked(
    buffer: Buffer, ranks: Int32[Array, " K"], slot: Int32[Array, ""], before: Float32[Array, ""]
) -> Int32[Array, " K"]:
    """`_ranks` after one slot's score changed from `before` (−inf: it was empty), without sorting again."""
    scores, now = buffer.entries.score, buffer.entries.score[slot]
    moved = ranks + (now > scores) - (before > scores)
    return moved.at[slot].set(1 + jnp.sum((scores > now) & buffer.filled, dtype=jnp.int32))


class _Supports(NamedTuple):
    """P_replay of each slot, and what it depends on."""

    probability: Float64[Array, " K"]
    weight: Float64[Array, " K"]
    age: Int32[Array, " K"]


def _supports(curator: Curator, buffer: Buffer, ranks: Int32[Array, " K"]) -> _Supports:
    """P_replay, given the ranks."""
    filled = buffer.filled
    age = jnp.where(filled, buffer.clock - buffer.scored_at, 0)
    weight = curator.prioritization(buffer.entries.score, ranks, filled)
    if weight.shape != ranks.shape:
        raise InputError(f"A prioritization returns one weight for each of {ranks.size} slots, not {weight.shape}.")
    # arithmetic and reductions only: JAX lowers, for instance, a 64-bit argmax with 32-bit indices and fails
    with jax.enable_x64(True):
        weight = jnp.where(filled & (weight > 0) & jnp.isfinite(weight), weight, 0.0).astype(jnp.float64)
        # relative to the largest: nothing overflows however small the temperature
        highest = weight.max()
        relative = jnp.log(weight) - jnp.log(jnp.where(highest > 0, highest, 1.0))
        by_score = _normalized(jnp.exp(relative * (1 / curator.temperature)), filled, 1 - curator.staleness)
        by_age = _normalized(age.astype(jnp.float64), filled, curator.staleness)
        return _Supports(by_score + by_age, weight, age)


def _victim(curator: Curator, buffer: Buffer, ranks: Int32[Array, " K"]) -> Int32[Array, ""]:
    """The filled slot of least P_replay.

    Where two are equal but for rounding, the smaller weight decides, then the smaller age, then the slot. This is exact
    where float64 is not: of two slots of equal age, the one of smaller weight has the smaller P_replay, and vice versa.
    """
    probability, weight, age = _supports(curator, buffer, ranks)
    with jax.enable_x64(True):
        probability = jnp.where(buffer.filled, probability, jnp.inf)
        least = probability <= probability.min() * (1 + 1e-12)
        least &= weight == jnp.min(weight, where=least, initial=jnp.inf)
    freshest = jnp.min(jnp.where(least, age, np.iinfo(np.int32).max))
    return _first(least & (age == freshest))


def _normalized(weight: Float64[Array, " K"], filled: Bool[Array, " K"], total: float) -> Float64[Array, " K"]:
    """Weights with a given sum; uniform over the filled slots if all of them are zero."""
    weight = jnp.where(weight.sum() > 0, weight, filled)
    return weight * (total / jnp.where(filled.any(), weight.sum(), 1.0))


def _pick(which: Bool[Array, ""], yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), yes, no)
