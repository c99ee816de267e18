"""Mazes: options, networks and presets (paper, section 6.1 and the appendix's table of hyperparameters)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import jax.numpy as jnp
from flax import linen as nn

from tutelage.curriculum.methods import METHODS, Method
from tutelage.curriculum.scores import max_mc
from tutelage.domains import maze
from tutelage.learning.network import Network
from tutelage.learning.ppo import PPO
from tutelage.networks.maze_student import MazeStudent, maze_student
from tutelage.networks.maze_teacher import MazeTeacher, maze_teacher
from tutelage.training.config import Config, Evaluation, PresetName, Storage, checked_name, with_curator
from tutelage.types import Discrete, Domain, InputError

ACTIVATIONS = {"relu": nn.relu, "tanh": jnp.tanh}


@dataclass(frozen=True)
class MazeSetup:
    """Partially observable mazes by MiniGrid's rules."""

    name: ClassVar[str] = "maze"
    decisive: ClassVar[tuple[str, ...]] = ("blocks",)

    size: int = 15
    """Cells along a side, border included (paper: 15)."""
    blocks: int = 25
    """Walls that a level may have (paper: 25, also 50; ACCEL 60)."""
    vary_blocks: bool = False
    """Draw the number of walls for each random level, up to `blocks` (ACCEL)."""
    clears: bool = False
    """A goal or agent placed on a wall removes it (released code) instead of moving to an empty cell (paper)."""
    view: int = 7
    """Cells along a side of what the agent sees (paper: 7; released code: 5)."""
    see_through: bool = True
    """The agent sees through walls (released code: yes)."""
    max_steps: int = 250
    """Steps after which an episode ends (paper: 250)."""
    reward: Literal["paper", "minigrid"] = "paper"
    """1 − T/T_max at the goal, or 1 − 0.9·T/T_max as the released code has it."""
    dense: int | None = None
    """Units of a fully connected layer over the student's view, in place of the paper's convolution with 16 filters."""
    hidden: int = 256
    """Size of the student's LSTM (paper: 256)."""
    lstm: bool = True
    """Give the student an LSTM (paper: yes); without one it knows only what it sees."""
    head: tuple[int, ...] = (32, 32)
    """Hidden layers of policy and value (paper: 32 32; released code: 32)."""
    activation: Literal["relu", "tanh"] = "relu"
    """Between those layers (paper: relu; released code: tanh)."""
    bfloat16: bool = False
    """Round the operands of the student's matrix products; worth it where the hardware has units for that."""
    teacher_lstm: bool = False
    """Give the teacher an LSTM of 256 (paper: only PAIRED with 25 blocks)."""
    teacher_filters: int = 128
    """Filters of the teacher's convolution (paper: 128)."""

    def domain(self) -> Domain:
        """The mazes."""
        if self.teacher_filters < 1:  # here, because most methods build no teacher
            raise InputError(f"teacher_filters must be at least 1, not {self.teacher_filters}.")
        sizes = self.size, self.blocks, self.view
        return maze.domain(*sizes, self.see_through, self.max_steps, self.reward, self.vary_blocks, self.clears)

    def student(self, domain: Domain) -> Network:
        """A convolution, maybe an LSTM, and two heads."""
        assert isinstance(domain.env.actions, Discrete)
        hidden, activation = self.hidden if self.lstm else None, ACTIVATIONS[self.activation]
        sizes = {"dense": self.dense, "hidden": hidden, "head": self.head}
        module = MazeStudent(domain.env.actions.n, activation=activation, **sizes)
        return maze_student(module, dtype=jnp.bfloat16 if self.bfloat16 else None)

    def teacher(self, domain: Domain) -> Network:
        """A convolution over the whole grid, maybe an LSTM, and two heads."""
        editor = domain.design.editor
        assert isinstance(editor.actions, Discrete)
        sizes = {"filters": self.teacher_filters, "hidden": 256 if self.teacher_lstm else None, "head": self.head}
        activation = ACTIVATIONS[self.activation]
        return maze_teacher(MazeTeacher(editor.actions.n, editor.horizon, activation=activation, **sizes))

    @classmethod
    def preset(cls, name: PresetName, method: str, blocks: int | None = None) -> Config[MazeSetup]:
        """A complete configuration that works.

        With 50 `blocks`, `paper` and `released` have the appendix's second setting: 500 million steps, and no LSTM in
        PAIRED's teacher.
        """
        presets = {"paper": _paper, "released": _released, "laptop": _laptop, "tiny": _tiny}
        config = presets[checked_name("preset", name, presets)](METHODS[checked_name("method", method, METHODS)])
        if blocks is not None:
            config = replace(config, setup=replace(config.setup, blocks=blocks))
        if blocks == 50 and name in ("paper", "released"):
            config = replace(config, setup=replace(config.setup, teacher_lstm=False), total_steps=500_000_000)
        return config


def _paper(method: Method) -> Config[MazeSetup]:
    """The appendix's table."""
    accel = method.name == "accel"
    return Config(
        method=method,
        setup=MazeSetup(teacher_lstm=method.name == "paired", blocks=60 if accel else 25, vary_blocks=accel),
        total_steps=250_000_000,
        evaluation=Evaluation("paper", evaluate_every=1000, final_episodes=100),
        storage=Storage(checkpoint_every=100, snapshot_every=1000),
    )


def _released(method: Method) -> Config[MazeSetup]:
    """What the released code runs, where it differs from the paper."""
    paper = _paper(with_curator(method, temperature=0.1, replace_equals=True))
    if method.name == "repaired":
        paper = replace(paper, method=with_curator(paper.method, replay_rate=0.95))
    explores = method.name not in ("paired", "repaired")
    return replace(
        paper,
        setup=replace(paper.setup, clears=True, view=5, reward="minigrid", head=(32,), activation="tanh"),
        ppo=PPO(entropy_coef=0.01 if explores else 0.0, bootstrap_at_rollout_end=False),
        teacher_ppo=PPO(bootstrap_at_rollout_end=False),
    )


def _laptop(method: Method) -> Config[MazeSetup]:
    """Learns in minutes.

    Larger steps on smaller minibatches, a buffer that fills in a minute, levels with 0 to 60 blocks, and time for long
    ways: 450 steps, as many as the test mazes of this size give. Env steps are nearly free beside updates, so two
    epochs and a small dense layer over the view leave time for many more of them than four epochs and the paper's
    convolution. At the paper's temperature of 0.3, rank prioritization fills 61 % of a replayed batch with one level;
    1.0 keeps batches diverse. ACCEL scores by MaxMC, since the positive value loss prefers levels of low regret here.
    `studies/recipe` has the trials, `studies/scores` the scores.
    """
    if method.name == "accel":
        method = with_curator(method, score=max_mc, replay_rate=0.5)
    # the teacher's episodes have some thirty steps, so it learns from whole batches
    quick = PPO(epochs=2, num_minibatches=8, learning_rate=1e-3, entropy_coef=0.005)
    return replace(
        _paper(with_curator(method, capacity=1000, min_fill=0.25, temperature=1.0)),
        setup=MazeSetup(blocks=60, vary_blocks=True, max_steps=450, dense=64, hidden=128, teacher_filters=32),
        total_steps=100_000_000,
        num_envs=32,
        num_steps=512,
        anneal_lr=True,
        ppo=quick,
        teacher_ppo=replace(quick, epochs=4, num_minibatches=1),
        evaluation=Evaluation("paper", evaluate_every=600, final_episodes=100),
        storage=Storage(checkpoint_every=100, snapshot_every=600),
    )


def _tiny(method: Method) -> Config[MazeSetup]:
    """Seconds, to see that everything works; nothing much is learned."""
    small = PPO(epochs=2, num_minibatches=2, learning_rate=1e-3)
    return replace(
        _paper(with_curator(method, capacity=32, min_fill=0.25)),
        setup=MazeSetup(size=7, blocks=6, view=3, max_steps=24, hidden=16, head=(16,), teacher_filters=8),
        total_steps=10 * 8 * 32,
        num_envs=8,
        num_steps=32,
        ppo=small,
        teacher_ppo=small,
        evaluation=Evaluation("maze", ("SixteenRooms", "PerfectMaze11"), evaluate_every=5, episodes=2),
        storage=Storage(checkpoint_every=2, snapshot_every=5, snapshot_levels=16),
    )
