"""How fast this machine is: environments alone, whole training iterations, and one commit beside another.

Figures to be compared are taken in turns within one run.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import tyro
from tyro.conf import subcommand

from benchmarks import timing
from benchmarks.commits import Commits, train_once
from benchmarks.mazes import minigrid_steps_per_second, steps_per_second
from benchmarks.racing import compare, prepare, time_layers
from benchmarks.report import Benchmark, Rows
from benchmarks.scaling import Scaling
from tutelage.curriculum.curator import Curator
from tutelage.curriculum.methods import Method
from tutelage.curriculum.parts import Parts
from tutelage.domains.maze import MazeDesign, MazeEnv
from tutelage.learning.mesh import use_cores
from tutelage.networks.maze_student import MazeStudent, maze_student, plain_maze_student
from tutelage.networks.maze_teacher import MazeTeacher, plain_maze_teacher
from tutelage.networks.racing_student import RacingStudent, plain_racing_student
from tutelage.training.config import Config, Evaluation
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.presets.racing import RacingSetup
from tutelage.types import Box, InputError


@dataclass(frozen=True)
class EnvSpeed(Benchmark):
    """Environment steps a second under random actions, beside the minigrid package if it is installed."""

    levels: tuple[int, ...] = (32, 1024)
    """How many levels to play side by side, one measurement for each."""
    steps: int = 1000
    """How many steps to take on each level."""
    view: int = 7
    """Cells along a side of the agent's view."""

    def measure(self) -> Mapping[str, Rows]:
        """Two rows for each number of levels, then minigrid's own."""
        if not self.levels or min(*self.levels, self.steps) < 1:
            raise InputError("levels and steps must be numbers of at least 1.")
        envs = {"see-through": MazeEnv(self.view, True), "occluded": MazeEnv(self.view, False)}
        rows: list[dict[str, Any]] = []
        for count in self.levels:
            for after in ("same", "fresh"):
                rates = {k: steps_per_second(env, count, self.steps, fresh=after == "fresh") for k, env in envs.items()}
                rows.append({"env": "tutelage", "levels": count, "after an episode": f"{after} level"} | rates)
        level = MazeDesign().sample(jax.random.key(0))
        with suppress(InputError):  # minigrid is optional
            rates = {name: minigrid_steps_per_second(env, level, self.steps) for name, env in envs.items()}
            rows.append({"env": "minigrid", "levels": 1, "after an episode": "same level"} | rates)
        return {"Maze steps a second": rows}


@dataclass(frozen=True)
class TrainingSpeed(Benchmark):
    """Steps a second of whole training iterations on mazes, a device for each core."""

    methods: tuple[str, ...] = ("dr", "plr", "plr-perp", "accel", "minimax", "paired", "repaired")
    """Which methods to measure; domain randomization is always among them."""
    preset: Literal["paper", "laptop"] = "paper"
    """Whose sizes."""
    plain: bool = True
    """Also measure the plain flax student, and the plain teacher of PAIRED and REPAIRED, differentiated by JAX."""
    bfloat16: bool = False
    """Also measure matrix products of bfloat16 operands."""
    teacher_lstm: bool = True
    """Give the generator of PAIRED its LSTM, as the paper does with 25 blocks."""
    num_envs: int | None = None
    """Levels side by side, if not the preset's."""
    num_steps: int | None = None
    """Steps of a rollout, if not the preset's."""
    repeats: int = 5
    """How many times each iteration is run; the best counts."""

    def measure(self) -> Mapping[str, Rows]:
        """A row for each method; the matrix products that bound them; and the curator's share."""
        if min(self.num_envs or 1, self.num_steps or 1, self.repeats) < 1 or 0 in (self.num_envs, self.num_steps):
            raise InputError("num_envs, num_steps and repeats must be at least 1.")
        use_cores()
        candidates = {name: self._parts(name) for name in dict.fromkeys(("dr", *self.methods))}
        method, parts = candidates["dr"]
        setup = self._config("dr").setup
        module = MazeStudent(dense=setup.dense, hidden=setup.hidden)
        if self.plain:
            candidates["dr, plain flax"] = method, replace(parts, student=plain_maze_student(module))
            for name in {"paired", "repaired"} & candidates.keys():
                lstm = 256 if name == "paired" and self.teacher_lstm else None
                teacher = plain_maze_teacher(MazeTeacher(filters=setup.teacher_filters, hidden=lstm))
                candidates[f"{name}, plain flax"] = candidates[name][0], replace(candidates[name][1], teacher=teacher)
        if self.bfloat16:
            candidates["dr, bfloat16"] = method, replace(parts, student=maze_student(module, dtype=jnp.bfloat16))
        rows: list[dict[str, Any]] = []
        for name, spent in timing.time_training(candidates, self.repeats):
            method = candidates[name][0]
            rate = parts.num_envs * parts.num_steps * method.mean_rollouts / spent.iteration(method.replay_rate)
            rows.append(
                {
                    "method": name,
                    "steps/s": rate,
                    "× DR": rate / rows[0]["steps/s"] if rows else 1.0,
                    "explore, s": spent.explore.wall,
                    "exploit, s": spent.exploit and spent.exploit.wall,
                    "compile, s": spent.compile,
                }
            )
        features = setup.dense or module.filters * (setup.view - 2) ** 2
        work = timing.student_flops(parts, features, setup.hidden, inputs=3 * setup.view**2 + 1)
        peak, rate = timing.product_peak(), rows[0]["steps/s"]
        bound = {"peak, GFLOP/s": peak / 1e9, "DR, MFLOP/step": work / 1e6, "roofline, steps/s": peak / work}
        insert, replay = (1e3 * spent.wall for spent in timing.time_curator(Curator(), parts)[:2])
        return {
            f"Training at the {self.preset} preset": rows,
            "Matrix products": [bound | {"DR reaches": f"{rate * work / peak:.0%}"}],
            f"The curator, K = 4000, {parts.num_envs} levels": [{"take in, ms": insert, "replay, ms": replay}],
        }

    def _config(self, name: str) -> Config[MazeSetup]:
        config = replace(MazeSetup.preset(self.preset, name), evaluation=Evaluation())
        if not self.teacher_lstm:
            config = replace(config, setup=replace(config.setup, teacher_lstm=False))
        return replace(config, num_envs=self.num_envs or config.num_envs, num_steps=self.num_steps or config.num_steps)

    def _parts(self, name: str) -> tuple[Method, Parts]:
        config = self._config(name)
        return config.method, config.curriculum().parts


@dataclass(frozen=True)
class RacingSpeed(Benchmark):
    """CarRacing: the environment beside Gymnasium's, and whole training iterations at the paper's setting.

    An action is held for eight frames. Gymnasium has a process for each core.
    """

    levels: int = 16
    """How many levels to play side by side."""
    actions: int = 125
    """How many actions to take on each level."""
    rounds: int = 3
    """How often those to be compared take turns; the best of each counts."""
    gymnasium: bool = True
    """Measure the environment beside Gymnasium's."""
    training: bool = True
    """Measure training."""
    plain: bool = False
    """Also measure training with `lax.conv`, whose gradient takes XLA minutes on a CPU."""
    layers: bool = False
    """Also measure each convolution, beside the peak of matrix products on one device."""

    def measure(self) -> Mapping[str, Rows]:
        """The environment, training and the convolutions, each if asked for."""
        if min(self.levels, self.actions, self.rounds) < 1:
            raise InputError("levels, actions and rounds must be at least 1.")
        use_cores()
        if self.levels % jax.device_count():
            raise InputError(f"levels must be a multiple of the {jax.device_count()} devices, not {self.levels}.")
        beside = {"CarRacing beside Gymnasium": self._beside_gymnasium()} if self.gymnasium else {}
        training = {"Training on CarRacing": self._train()} if self.training else {}
        return beside | training | ({"Products of the convolutions": time_layers()} if self.layers else {})

    def _beside_gymnasium(self) -> Rows:
        try:
            figures = compare(self.levels, self.actions, self.rounds)
        except ImportError as error:  # it is an optional dependency
            raise InputError(
                "This needs Gymnasium's CarRacing: pip install 'gymnasium[box2d]', or leave it out: --no-gymnasium."
            ) from error
        return [{"what": name.replace("_", " "), "measured": figure} for name, figure in figures.items()]

    def _train(self) -> Rows:
        config = replace(RacingSetup.preset("paper", "dr"), num_envs=self.levels, num_steps=self.actions)
        method, parts = config.method, config.curriculum().parts
        assert isinstance(parts.domain.env.actions, Box)
        candidates = {"dr": (method, parts)}
        if self.plain:
            plain = plain_racing_student(RacingStudent(parts.domain.env.actions))
            candidates["dr, lax.conv"] = method, replace(parts, student=plain)
        actions, timings = self.levels * self.actions, dict(timing.time_training(candidates, self.rounds))
        env = sum(timing.time_program(program, self.rounds).processor for program in prepare(self.levels, self.actions))
        return [
            {
                "training": name,
                "actions/s": actions / spent.explore.wall,
                "× DR": timings["dr"].explore.wall / spent.explore.wall,
                "iteration, s": spent.explore.wall,
                "all cores, s": spent.explore.processor,
                "environment's share": f"{env / spent.explore.processor:.0%}",
                "compile, s": spent.compile,
            }
            for name, spent in timings.items()
        ]


@dataclass(frozen=True)
class Overhead(Benchmark):
    """What a run takes beside its iterations: to start, and to evaluate, snapshot and save as its preset says."""

    options: str = "plr-perp --preset laptop --total-steps 6600000"
    """Of `tutelage train`, in one pair of quotes."""

    def measure(self) -> Mapping[str, Rows]:
        """Seconds of one run, twice: with an empty cache of compiled programs, and with a full one."""
        rows = []
        with tempfile.TemporaryDirectory() as scratch:
            for cache in ("cold", "warm"):
                turn = train_once(shlex.split(self.options), Path(scratch) / "run", Path(scratch) / "cache")
                rows.append(
                    {
                        "cache": cache,
                        "whole run, s": turn.wall,
                        "first iteration ends, s": turn.first,
                        "iterations, s": turn.all_iterations,
                        "other work after the first": f"{turn.other / (turn.wall - turn.first):.1%}",
                    }
                )
        return {f"tutelage train {self.options}": rows}


def main() -> None:
    """Measure what the command line asks for."""
    verbs: Any = (
        Annotated[EnvSpeed, subcommand("env")]
        | Annotated[TrainingSpeed, subcommand("train")]
        | Annotated[RacingSpeed, subcommand("racing")]
        | Annotated[Scaling, subcommand("scaling")]
        | Annotated[Overhead, subcommand("overhead")]
        | Annotated[Commits, subcommand("commits")]
    )
    try:
        tyro.cli(verbs, prog="python -m benchmarks", description=__doc__).run()
    except InputError as error:
        raise SystemExit(f"benchmarks: {error}") from None


if __name__ == "__main__":
    main()
