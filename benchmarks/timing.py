"""How fast is it here? Measurements to compare with each other, taken in turns within one run.

Machines are noisy, so a figure alone says little: everything that is to be compared is compiled first and then run
turn by turn, and each one's best time counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from tutelage.curriculum import curator as curation
from tutelage.curriculum.curator import Buffer, Curator
from tutelage.curriculum.curriculum import Curriculum
from tutelage.curriculum.methods import Method
from tutelage.curriculum.parts import Parts
from tutelage.curriculum.step import State
from tutelage.learning import mesh
from tutelage.types import Key


class Spent(NamedTuple):
    """Seconds that something took."""

    wall: float
    processor: float
    """Of all cores together: what it took if the machine was busy with other things as well."""


@dataclass(frozen=True)
class Timing:
    """What the iterations of a method take."""

    compile: float
    """Seconds of compilation before the first."""
    memory: int
    """Bytes that the last of these programs needs beside its arguments and results."""
    explore: Spent
    exploit: Spent | None = None
    """None for a method that never replays."""

    def iteration(self, replay_rate: float) -> float:
        """Seconds that an iteration takes on average."""
        exploit = self.exploit.wall if self.exploit else 0.0
        return (1 - replay_rate) * self.explore.wall + replay_rate * exploit


def time_training(
    candidates: Mapping[str, tuple[Method, Parts]], repeats: int, devices: Mapping[str, int] | None = None
) -> Iterator[tuple[str, Timing]]:
    """Time one iteration of each candidate, in turns; buffers are full, as they are for most of a training.

    Each runs on all devices, or on as many as `devices` says.
    """
    key = jax.random.key(0)
    programs: dict[str, list[Callable[[], Spent]]] = {}
    compiled, memory = {}, {}
    for name, (method, parts) in candidates.items():
        curriculum = Curriculum(method, parts, (devices or {}).get(name))
        state = jax.block_until_ready(_fill(method, parts, curriculum.init(key), key))
        start = time.perf_counter()
        needed = [curriculum.explore, curriculum.exploit] if method.replays else [curriculum.explore]
        ready = [program.lower(state, key).compile() for program in needed]
        compiled[name], needs = time.perf_counter() - start, ready[-1].memory_analysis()
        memory[name] = needs.temp_size_in_bytes if needs else 0
        programs[name] = [_turn(program, state, key) for program in ready]
        for turn in programs[name]:
            turn()  # the first run is slower
    seconds = _best(repeats, programs)
    for name, best in seconds.items():
        yield name, Timing(compiled[name], memory[name], *best)


def time_program(program: Callable[[], Any], repeats: int) -> Spent:
    """The best of several runs, after one that compiles it."""
    turn = {"program": [lambda: _spent(program)]}
    _best(1, turn)
    return _best(repeats, turn)["program"][0]


def product_peak(repeats: int = 10) -> float:
    """FLOP/s of float32 matrix products of a good size on all devices."""
    devices = mesh.make_mesh(len(jax.devices()))
    share = PartitionSpec(mesh.AXIS)
    product = jax.jit(
        jax.shard_map(jnp.matmul, mesh=devices, in_specs=(share, PartitionSpec()), out_specs=share, check_vma=False)
    )
    rows, size = 2048 * devices.size, 1024
    left, right = jnp.ones((rows, size)), jnp.ones((size, size))
    return 2 * rows * size * size / time_program(lambda: product(left, right), repeats).wall


def student_flops(parts: Parts, features: int, hidden: int, inputs: int) -> float:
    """Floating-point operations of a DR iteration for each environment step, counting matrix products only.

    An LSTM student of the given sizes: acting is one forward pass, and each epoch one forward pass and two products of
    the same size back, but for the input layer, whose input needs no gradient.
    """
    encoder, memory = 2.0 * inputs * features, 2.0 * (features + hidden) * 4 * hidden
    return (encoder + memory) + parts.ppo.epochs * (2 * encoder + 3 * memory)


def time_curator(curator: Curator, parts: Parts, repeats: int = 10) -> tuple[Spent, Spent, int]:
    """What a full buffer takes to take in a batch of new levels, and to choose and rescore one; and its bytes."""
    key = jax.random.key(0)
    level = jax.eval_shape(parts.domain.design.sample, key)
    buffer = jax.jit(partial(_filled, curator, parts))(curation.empty(curator, level), key)
    levels = jax.vmap(parts.domain.design.sample)(jax.random.split(jax.random.fold_in(key, 1), parts.num_envs))
    scores = jax.random.uniform(key, (parts.num_envs,))

    @jax.jit
    def take_in(buffer: Buffer) -> Buffer:
        return curation.insert(curator, curation.tick(buffer), jax.vmap(curation.entry)(levels, scores, scores))

    @jax.jit
    def replay(buffer: Buffer) -> Buffer:
        slots = curation.sample(curator, curation.tick(buffer), key, parts.num_envs)
        buffer, best = curation.update_best_return(buffer, slots, scores)
        return curation.rescore(buffer, slots, best)

    insert, rescore = (time_program(partial(f, buffer), repeats) for f in (take_in, replay))
    return insert, rescore, sum(x.nbytes for x in jax.tree.leaves(buffer))


def _best(repeats: int, programs: Mapping[str, list[Callable[[], Spent]]]) -> dict[str, list[Spent]]:
    """Each program's best times of several, all programs taking turns."""
    seconds: dict[str, list[list[Spent]]] = {name: [[] for _ in turns] for name, turns in programs.items()}
    for _ in range(repeats):
        for name, turns in programs.items():
            for turn, times in zip(turns, seconds[name], strict=True):
                times.append(turn())
    return {name: [Spent(*map(min, zip(*times, strict=True))) for times in each] for name, each in seconds.items()}


def _turn(program: Callable[..., Any], state: State, key: Key) -> Callable[[], Spent]:
    """Run a program that uses up its state, each time on a copy made before the clock starts."""

    copied = jax.jit(lambda state: jax.tree.map(jnp.copy, state))

    def run() -> Spent:
        copy = jax.block_until_ready(copied(state))
        return _spent(lambda: program(copy, key))

    return run


def _spent(f: Callable[[], Any]) -> Spent:
    wall, processor = time.perf_counter(), time.process_time()
    jax.block_until_ready(f())
    return Spent(time.perf_counter() - wall, time.process_time() - processor)


def _fill(method: Method, parts: Parts, state: State, key: Key) -> State:
    """The state with full buffers."""
    if method.curator is None:
        return state
    fill = jax.vmap(partial(_filled, method.curator, parts), (0, None))
    buffers = jax.jit(fill)(state.buffers, key)
    return state._replace(buffers=jax.device_put(buffers, jax.tree.map(lambda x: x.sharding, state.buffers)))


def _filled(curator: Curator, parts: Parts, buffer: Buffer, key: Key) -> Buffer:
    """A buffer in which every slot is taken by a random level with a random score."""
    levels = jax.vmap(parts.domain.design.sample)(jax.random.split(key, curator.capacity))
    scores = jax.random.uniform(key, (curator.capacity,))
    rows = jax.vmap(curation.entry)(levels, scores, scores)
    return buffer._replace(entries=rows._replace(id=jnp.arange(curator.capacity)), size=jnp.int32(curator.capacity))
