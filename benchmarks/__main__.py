"""How fast this machine is: environments alone, whole training iterations, and one commit beside another.

Figures to be compared are taken in turns within one run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import tyro
from tyro.conf import subcommand

from benchmarks import timing
from benchmarks.commits import Commits
from benchmarks.mazes import minigrid_steps_per_second, steps_per_second
from benchmarks.racing import compare, prepare
from tutelage.curriculum.curator import Curator
from tutelage.curriculum.methods import Method
from tutelage.curriculum.parts import Parts
from tutelage.domains.maze import MazeDesign, MazeEnv
from tutelage.learning.mesh import use_cores
from tutelage.networks.maze_student import MazeStudent, maze_student, plain_maze_student
from tutelage.networks.maze_teacher import MazeTeacher, plain_maze_teacher
from tutelage.networks.racing_student import RacingStudent, plain_racing_student
from tutelage.training.config import Evaluation
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.presets.racing import RacingSetup
from tutelage.types import Box, InputError


@dataclass(frozen=True)
class EnvSpeed:
    """Environment steps a second under random actions, beside the minigrid package if it is installed."""

    levels: tuple[int, ...] = (32, 512, 2048)
    """How many levels to play side by side, one measurement for each."""
    steps: int = 1000
    """How many steps to take on each level."""
    view: int = 7
    """Cells along a side of the agent's view."""

    def run(self) -> None:
        """Print one line for each number of levels, then minigrid's own figure."""
        if not self.levels or min(*self.levels, self.steps) < 1:
            raise InputError("levels and steps must be numbers of at least 1.")
        envs = [MazeEnv(self.view, see_through) for see_through in (True, False)]
        print(f"{'maze steps a second':>24} {'see-through':>14} {'occluded':>14}")
        for count in self.levels:
            levels = jax.vmap(MazeDesign().sample)(jax.random.split(jax.random.key(0), count))
            rates = [steps_per_second(env, levels, self.steps) for env in envs]
            print(f"{f'tutelage, {count} levels':>24} {rates[0]:14,.0f} {rates[1]:14,.0f}", flush=True)
        try:
            rates = [minigrid_steps_per_second(env, MazeDesign().sample(jax.random.key(0)), self.steps) for env in envs]
        except InputError as error:
            print(error)
        else:
            print(f"{'minigrid, 1 level':>24} {rates[0]:14,.0f} {rates[1]:14,.0f}")


@dataclass(frozen=True)
class TrainingSpeed:
    """Steps a second of whole training iterations at the paper's maze setting, a device for each core."""

    methods: tuple[str, ...] = ("dr", "plr", "plr-perp", "accel", "minimax", "paired", "repaired")
    """Which methods to measure; domain randomisation is always among them."""
    plain: bool = True
    """Also measure the plain flax student, and the plain teacher of PAIRED and REPAIRED, differentiated by JAX."""
    bfloat16: bool = False
    """Also measure matrix products of bfloat16 operands."""
    teacher_lstm: bool = True
    """Give the generator of PAIRED its LSTM, as the paper does with 25 blocks."""
    num_envs: int = 32
    """Levels side by side."""
    num_steps: int = 256
    """Steps of a rollout."""
    repeats: int = 5
    """How many times each iteration is run; the best counts."""

    def run(self) -> None:
        """Print a line for each method: steps a second, relative to DR, and seconds to compile."""
        if min(self.num_envs, self.num_steps, self.repeats) < 1:
            raise InputError("num_envs, num_steps and repeats must be at least 1.")
        use_cores()
        method, parts = self._paper("dr")
        candidates = {"dr": (method, parts)}
        if self.plain:
            candidates["dr, plain flax"] = method, replace(parts, student=plain_maze_student(MazeStudent()))
        if self.bfloat16:
            candidates["dr, bfloat16"] = method, replace(parts, student=maze_student(dtype=jnp.bfloat16))
        for name in self.methods:
            candidates[name] = self._paper(name)
            if self.plain and name in ("paired", "repaired"):
                lstm = name == "paired" and self.teacher_lstm
                teacher = plain_maze_teacher(MazeTeacher(hidden=256 if lstm else None))
                candidates[f"{name}, plain"] = candidates[name][0], replace(candidates[name][1], teacher=teacher)
        steps = self.num_envs * self.num_steps
        print(f"{'method':>16} {'steps/s':>9} {'× DR':>6} {'explore':>9} {'exploit':>9} {'compile':>9}")
        rate = 0.0
        for label, spent in timing.time_training(candidates, self.repeats):
            method, _ = candidates[label]
            own = steps * method.mean_rollouts / spent.iteration(method.replay_rate)
            rate = rate or own  # DR comes first
            exploit = "" if spent.exploit is None else f"{spent.exploit:.2f} s"
            print(
                f"{label:>16} {own:9,.0f} {own / rate:6.2f} {spent.explore:7.2f} s {exploit:>9} {spent.compile:7.1f} s",
                flush=True,
            )
        peak, work = timing.product_peak(), timing.student_flops(parts, features=400, hidden=256, inputs=148)
        print(f"Matrix products peak at {peak / 1e9:.0f} GFLOP/s and a step of DR takes {work / 1e6:.1f} MFLOP: the")
        print(f"roofline is {peak / work:,.0f} steps/s, of which DR reaches {rate * work / peak:.0%}.")
        insert, replay = (1e3 * spent.wall for spent in timing.time_curator(Curator(), parts)[:2])
        print(f"The curator takes in {self.num_envs} levels in {insert:.1f} ms and replays them in {replay:.1f} ms.")

    def _paper(self, name: str) -> tuple[Method, Parts]:
        config = replace(
            MazeSetup.preset("paper", name), num_envs=self.num_envs, num_steps=self.num_steps, evaluation=Evaluation()
        )
        if not self.teacher_lstm:
            config = replace(config, setup=replace(config.setup, teacher_lstm=False))
        return config.method, config.curriculum().parts


@dataclass(frozen=True)
class RacingSpeed:
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

    def run(self) -> None:
        """Print what was measured."""
        if min(self.levels, self.actions, self.rounds) < 1:
            raise InputError("levels, actions and rounds must be at least 1.")
        use_cores()
        if self.levels % jax.device_count():
            raise InputError(f"levels must be a multiple of the {jax.device_count()} devices, not {self.levels}.")
        if self.gymnasium:
            self._beside_gymnasium()
        if self.training:
            self._train()

    def _beside_gymnasium(self) -> None:
        try:
            figures = compare(self.levels, self.actions, self.rounds)
        except ImportError as error:  # it is an optional dependency
            raise InputError(
                "This needs Gymnasium's CarRacing: pip install 'gymnasium[box2d]', or leave it out: --no-gymnasium."
            ) from error
        for name, figure in figures.items():
            print(f"{name.replace('_', ' '):>32} {figure:10,.1f}", flush=True)

    def _train(self) -> None:
        config = replace(RacingSetup.preset("paper", "dr"), num_envs=self.levels, num_steps=self.actions)
        method, parts = config.method, config.curriculum().parts
        assert isinstance(parts.domain.env.actions, Box)
        candidates = {"dr": (method, parts)}
        if self.plain:
            plain = plain_racing_student(RacingStudent(parts.domain.env.actions))
            candidates["dr, lax.conv"] = method, replace(parts, student=plain)
        actions = self.levels * self.actions
        print(f"{'training':>16} {'actions/s':>9} {'× DR':>6} {'iteration':>9} {'all cores':>9} {'compile':>9}")
        timings = dict(timing.time_training(candidates, self.rounds))
        for label, spent in timings.items():
            print(
                f"{label:>16} {actions / spent.explore:9,.0f} {timings['dr'].explore / spent.explore:6.2f} "
                f"{spent.explore:7.2f} s {spent.processor:7.2f} s {spent.compile:7.1f} s"
            )
        play, load = prepare(self.levels, self.actions)
        seconds = sum(timing.time_program(program, self.rounds).processor for program in (play, load))
        share = seconds / timings["dr"].processor
        print(f"The environment takes {seconds:.2f} s of all cores together: {share:.0%} of an iteration of DR.")


@dataclass(frozen=True)
class Scaling:
    """How cost grows with the buffer, the batch and the devices, in CPU seconds of all cores together.

    Unlike wall-clock time, they hardly depend on what else the machine does.
    """

    capacities: tuple[int, ...] = (4096, 32768, 262144, 1048576)
    """Buffer sizes K to measure, with the first batch size."""
    batches: tuple[int, ...] = (32, 256, 2048, 8192)
    """Batch sizes B to measure, with the first buffer size."""
    devices: tuple[int, ...] = (1, 2, 4)
    """Numbers of devices to measure an iteration of PLR⊥ on (laptop preset); more than cores are virtual."""
    repeats: int = 3
    """How many times each is run; the best counts."""

    def run(self) -> None:
        """Print a table for each."""
        if min(*self.capacities, *self.batches, *self.devices, self.repeats) < 1:
            raise InputError("capacities, batches, devices and repeats must be at least 1.")
        use_cores(max(self.devices))
        config = replace(MazeSetup.preset("laptop", "plr-perp"), evaluation=Evaluation(), devices=1)
        parts = config.curriculum().parts
        print(f"{'K':>9} {'B':>6} {'buffer':>10} {'insert':>12} {'replay':>12}")
        pairs = [(k, self.batches[0]) for k in self.capacities] + [(self.capacities[0], b) for b in self.batches[1:]]
        for capacity, batch in pairs:
            curator = Curator(capacity=capacity)
            insert, replay, size = timing.time_curator(curator, replace(parts, num_envs=batch), self.repeats)
            print(
                f"{capacity:9,} {batch:6,} {size / 2**20:7.1f} MB {1e3 * insert.processor:9.1f} ms "
                f"{1e3 * replay.processor:9.1f} ms",
                flush=True,
            )
        names = {f"{n} devices": n for n in self.devices}
        print(f"{'':>10} {'explore':>12} {'exploit':>12}")
        for name, spent in timing.time_training(dict.fromkeys(names, (config.method, parts)), self.repeats, names):
            print(f"{name:>10} {spent.processor:10.3f} s {spent.exploit_processor or 0:10.3f} s", flush=True)


def main() -> None:
    """Measure what the command line asks for."""
    verbs: Any = (
        Annotated[EnvSpeed, subcommand("env")]
        | Annotated[TrainingSpeed, subcommand("train")]
        | Annotated[RacingSpeed, subcommand("racing")]
        | Annotated[Scaling, subcommand("scaling")]
        | Annotated[Commits, subcommand("commits")]
    )
    try:
        tyro.cli(verbs, prog="python -m benchmarks", description=__doc__).run()
    except InputError as error:
        raise SystemExit(f"benchmarks: {error}") from None


if __name__ == "__main__":
    main()
