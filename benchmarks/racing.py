"""How fast the environment is, beside Gymnasium's, in one run on one machine.

Both play random actions, held for eight frames each, and draw every eighth frame only. Ours plays B Bézier
levels side by side, shared out over XLA's devices; Gymnasium plays its own tracks in one process for each
core. The two take turns, so that whatever else the machine does slows both. Needs `gymnasium[box2d]`.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks import timing
from tutelage.domains.racing.design import RacingDesign
from tutelage.domains.racing.env import RacingEnv, Scene, State
from tutelage.learning import mesh
from tutelage.networks import convolution
from tutelage.networks.racing_student import RacingStudent, racing_student

LOW, HIGH = (-1.0, 0.0, 0.0), (1.0, 1.0, 0.2)  # random actions; a car that always brakes would show nothing


def compare(levels: int = 16, actions: int = 125, rounds: int = 3, processes: int | None = None) -> dict[str, float]:
    """Actions a second of both, the best of some rounds each, and the ratio of the two.

    Args:
        levels: how many are played side by side; a multiple of the number of XLA's devices.
        actions: played on each level in a round.
        rounds: how often the two take turns.
        processes: of Gymnasium; one for each core by default.
    """
    processes = processes or mesh.cores()
    ours, load = prepare(levels, actions)
    best_ours, best_load, best_theirs = 0.0, np.inf, 0.0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(_play_gymnasium, [1] * processes)  # warm up: imports
        for _ in range(rounds):
            best_load = min(best_load, _seconds(load))
            best_ours = max(best_ours, levels * actions / _seconds(ours))
            share = [max(actions // 4, 1)] * processes
            best_theirs = max(best_theirs, sum(pool.map(_play_gymnasium, share)))
    with_load = levels * actions / (levels * actions / best_ours + best_load)
    return {
        "actions_per_second": best_ours,
        "actions_per_second_with_loading": with_load,
        "load_milliseconds_per_level": 1000 * best_load / levels,
        "gymnasium_actions_per_second": best_theirs,
        "ratio": best_ours / best_theirs,
        "ratio_with_loading": with_load / best_theirs,
        "levels": float(levels),
        "devices": float(jax.device_count()),
        "gymnasium_processes": float(processes),
    }


def prepare(levels: int, actions: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Compiled functions without arguments: play `actions` on each of the levels, and load the levels."""
    env, design = RacingEnv(idle_limit=None), RacingDesign()
    devices = NamedSharding(Mesh(np.array(jax.devices()), "B"), PartitionSpec("B"))
    keys = jax.device_put(jax.random.split(jax.random.key(0), levels), devices)

    def shared(function: Callable[..., object]) -> Callable[..., object]:
        mapped = jax.shard_map(
            jax.vmap(function),
            mesh=devices.mesh,
            in_specs=devices.spec,
            out_specs=devices.spec,
            check_vma=False,
        )
        return jax.jit(mapped)

    def play(key: jax.Array, scene: Scene) -> tuple[jax.Array, jax.Array]:
        def act(state: State, key: jax.Array) -> tuple[State, tuple[jax.Array, jax.Array]]:
            action = jax.random.uniform(key, (3,), minval=jnp.array(LOW), maxval=jnp.array(HIGH))
            state, step = env.step(key, scene, state, action)
            return state, (step.reward, step.obs.sum())  # of every pixel, so that none can be left out

        state, _ = env.reset(key, scene)
        return jax.lax.scan(act, state, jax.random.split(key, actions))[1]

    level = shared(design.sample)(keys)
    load, run = shared(env.load), shared(play)
    scene = load(level)
    jax.block_until_ready(run(keys, scene))
    return partial(run, keys, scene), partial(load, level)


def time_layers(repeats: int = 5) -> list[dict[str, object]]:
    """The products of each convolution of the paper's student, a block of images at a time, on one device."""
    student, strides = racing_student(RacingStudent(RacingEnv().actions)), RacingStudent.strides
    pixels = jax.ShapeDtypeStruct((1, 1, 96, 96, 3), jnp.uint8)
    params = jax.eval_shape(student.init, jax.random.key(0), pixels)
    peak, rows, side, count = timing.product_peak() / jax.device_count(), [], 96, student.block or 1
    for i, stride in enumerate(strides):
        kernel = params[f"convs_{i}"]["kernel"].shape
        side = (side - kernel[0]) // stride + 1
        x = jnp.ones((count * side**2, math.prod(kernel[:3])))
        bar, matrix = jnp.ones((len(x), kernel[3])), jnp.ones((x.shape[1], kernel[3]))
        backward = jax.vjp(convolution.product, x, matrix)[1]
        row: dict[str, object] = {"kernel": "×".join(map(str, kernel)), "MFLOP/image": 2e-6 * side**2 * matrix.size}
        for name, product, operands in (
            ("forward", convolution.product, (x, matrix)),
            ("input gradient", lambda bar, backward: backward(bar)[0], (bar, backward)),
            ("weight gradient", lambda bar, backward: backward(bar)[1], (bar, backward)),
        ):
            rate = 2 * len(x) * matrix.size / _seconds_in_loop(product, operands, repeats)
            unneeded = i == 0 and name == "input gradient"
            row[name] = "none" if unneeded else f"{rate / 1e9:.0f} GFLOP/s, {rate / peak:.0%}"
        rows.append(row)
    return rows


def _seconds_in_loop(product: Callable[..., jax.Array], operands: Any, repeats: int, times: int = 20) -> float:
    """Of one product among many on the same operands. Barriers keep XLA from computing it once, or a part of it."""

    def once(total: jax.Array, _: None) -> tuple[jax.Array, None]:
        now, total = jax.lax.optimization_barrier((operands, total))
        return total + jax.lax.optimization_barrier(product(*now))[0, 0], None

    program = jax.jit(lambda start: jax.lax.scan(once, start, length=times)[0])
    return timing.time_program(lambda: program(jnp.zeros(())), repeats).wall / times


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


def _play_gymnasium(actions: int) -> float:
    """Actions a second of one process that draws every eighth frame."""
    from benchmarks.car_racing import Reference

    game = Reference(draw_every=8)
    game.reset(seed=0)
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(actions):
        action = rng.uniform(LOW, HIGH).astype(np.float32)
        for _ in range(8):
            game.step(action)
    return actions / (time.perf_counter() - start)
