"""CarRacing: options, networks and presets (paper, section 6.2 and the appendix)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from tyro.conf import OmitArgPrefixes

from tutelage.curriculum import scores
from tutelage.curriculum.curator import proportional
from tutelage.curriculum.generators import Uniform
from tutelage.curriculum.methods import METHODS, Method
from tutelage.domains import racing
from tutelage.domains.racing.design import BEZIER_TRACKS, RELEASED_SPACING, RacingDesign
from tutelage.domains.racing.env import WHOLE_VIEW, View
from tutelage.learning.network import Network
from tutelage.learning.ppo import PPO
from tutelage.networks.racing_student import RacingStudent, racing_student
from tutelage.networks.racing_teacher import RacingTeacher, racing_teacher
from tutelage.training.config import Config, Evaluation, PresetName, Storage, checked_name, with_curator
from tutelage.types import Box, Domain, InputError


@dataclass(frozen=True)
class RacingSetup:
    """Gymnasium's car on Bézier tracks, seen as pixels."""

    name: ClassVar[str] = "racing"

    view: Annotated[View, OmitArgPrefixes] = WHOLE_VIEW
    design: Annotated[RacingDesign, OmitArgPrefixes] = BEZIER_TRACKS
    frames: int = 1000
    """Frames after which an episode ends (paper: 1000); an action is held for 8."""
    kernels: tuple[int, ...] = (2, 2, 2, 2, 3, 3)
    """Sizes of the student's convolutions (paper: 2 2 2 2 3 3; released code: 4 3 3 3 3 3)."""
    strides: tuple[int, ...] = (2, 2, 2, 2, 1, 1)
    """Strides of the student's convolutions (paper: 2 2 2 2 1 1)."""
    channels: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    """Channels of the student's convolutions (paper: 8 16 32 64 128 256)."""
    head: tuple[int, ...] = (256, 256)
    """Hidden layers of policy and value (paper, as we read it: 256 256; released code: 100)."""
    scale: float = 2**0.5
    """Gain of the policy's last layer at initialization (released code: √2)."""
    lean: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Where the untrained policy steers, accelerates and brakes: 0 in the middle, below 0 less (released code: 0)."""
    centered_pixels: bool = False
    """Give the student x/128 − 1 for a pixel x (released code: yes), not x/255 (the paper does not say)."""

    def domain(self) -> Domain:
        """The tracks, and the car on them."""
        return racing.domain(self.view, self.design, self.frames)

    def student(self, domain: Domain) -> Network:
        """Convolutions and two heads."""
        assert isinstance(domain.env.actions, Box)
        if not len(self.kernels) == len(self.strides) == len(self.channels) > 0:
            counts = f"{len(self.kernels)}, {len(self.strides)} and {len(self.channels)}"
            raise InputError(f"Kernels, strides and channels are one for each convolution; there are {counts}.")
        sizes = (*self.kernels, *self.strides, *self.channels, *self.head)
        if min(sizes) < 1:
            raise InputError(f"Kernels, strides, channels and layers of the head are at least 1; got {min(sizes)}.")
        side = pixels = self.view.shape[0]
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            side = (side - kernel) // stride + 1
        if side < 1:
            raise InputError(
                f"Nothing is left of {pixels}×{pixels} pixels after {len(self.kernels)} convolutions: shrink the view "
                "less, or take fewer convolutions or smaller strides."
            )
        if len(self.lean) != len(domain.env.actions.low):
            raise InputError(f"lean is three numbers, for steering, gas and brake; got {len(self.lean)}.")
        layers = self.kernels, self.strides, self.channels, self.head
        return racing_student(RacingStudent(domain.env.actions, *layers, self.scale, self.lean, self.centered_pixels))

    def teacher(self, domain: Domain) -> Network:
        """Two convolutions over the sketch and two heads."""
        editor = domain.design.editor
        return racing_teacher(RacingTeacher(editor.actions, editor.horizon))

    @classmethod
    def preset(cls, name: PresetName, method: str) -> Config[RacingSetup]:
        """A complete configuration that works."""
        presets = {"paper": _paper, "released": _released, "laptop": _laptop, "tiny": _tiny}
        return presets[checked_name("preset", name, presets)](METHODS[checked_name("method", method, METHODS)])


PAPER_PPO = PPO(
    gamma=0.99,
    gae_lambda=0.9,
    epochs=8,
    num_minibatches=4,
    value_loss="squared",
    learning_rate=3e-4,
    normalize_returns=True,
)


def _paper(method: Method) -> Config[RacingSetup]:
    """The appendix's table."""
    return Config(
        method=_curated(method),
        setup=RacingSetup(),
        total_steps=5_000_000,
        num_envs=16,
        num_steps=125,
        ppo=PAPER_PPO,
        teacher_ppo=replace(PAPER_PPO, entropy_coef=0.01 if method.name == "repaired" else 0.0),
        evaluation=Evaluation("f1", evaluate_every=500, final_episodes=10),
        storage=Storage(checkpoint_every=50, snapshot_every=250),
    )


def _released(method: Method) -> Config[RacingSetup]:
    """What the released code runs, where it differs from the paper."""
    paper = _paper(method)
    score = {"score": scores.max_mc_start_clipped} if method.name == "repaired" else {}
    return replace(
        paper,
        setup=RacingSetup(
            view=View(stack=4, zoom=False),
            design=RacingDesign(disc=False, spacing=RELEASED_SPACING, noise=4, start_east=False),
            kernels=(4, 3, 3, 3, 3, 3),
            head=(100,),
            centered_pixels=True,
        ),
        method=with_curator(paper.method, replace_equals=True, **score),
        ppo=replace(paper.ppo, value_loss="huber", bootstrap_at_rollout_end=False),
        teacher_ppo=replace(paper.teacher_ppo, value_loss="huber", bootstrap_at_rollout_end=False),
        evaluation=replace(paper.evaluation, suite="f1-released"),
    )


def _laptop(method: Method) -> Config[RacingSetup]:
    """Learns in minutes: a ninth of the pixels, in gray; rounder tracks; an untrained policy that hardly brakes."""
    quick = replace(PAPER_PPO, gae_lambda=0.95, epochs=4, num_minibatches=8, value_loss="huber", learning_rate=5e-4)
    return replace(
        _paper(method),
        setup=RacingSetup(
            view=View(gray=True, shrink=3, stack=2),
            design=RacingDesign(bumps=20.0),
            kernels=(2, 2, 2, 3),
            strides=(2, 2, 2, 1),
            channels=(16, 32, 64, 64),
            head=(100,),
            scale=0.01,
            lean=(0.0, 0.0, -3.0),
        ),
        total_steps=400_000,
        num_envs=32,
        anneal_lr=True,
        method=_curated(method, capacity=1000, min_fill=0.25),
        ppo=quick,
        teacher_ppo=replace(quick, entropy_coef=0.01),
        evaluation=Evaluation("bezier", evaluate_every=50, episodes=4),
        storage=Storage(checkpoint_every=25, snapshot_every=50),
    )


def _tiny(method: Method) -> Config[RacingSetup]:
    """A minute or two, mostly compilation, to see that everything works; nothing is learned."""
    small = replace(PAPER_PPO, epochs=2, num_minibatches=2)
    return replace(
        _paper(method),
        setup=RacingSetup(
            view=View(gray=True, shrink=6),
            frames=64,
            kernels=(2, 2),
            strides=(2, 2),
            channels=(4, 8),
            head=(16,),
            lean=(0.0, 0.0, -3.0),
        ),
        total_steps=6 * 4 * 8,
        num_envs=4,
        num_steps=8,
        method=_curated(method, capacity=16, min_fill=0.25),
        ppo=small,
        teacher_ppo=small,
        evaluation=Evaluation("bezier", ("Bezier1",), evaluate_every=3, episodes=2),
        storage=Storage(checkpoint_every=2, snapshot_every=3, snapshot_levels=8),
    )


def _curated(method: Method, capacity: int = 8000, min_fill: float = 0.5) -> Method:
    """The paper's curator for CarRacing, and one track in each env and rollout: a track's texture is 5.5 MB."""
    if isinstance(method.generator, Uniform):
        method = replace(method, generator=Uniform(levels_per_env=1))
    return with_curator(
        method,
        score=scores.max_mc_start if method.name == "repaired" else scores.positive_value_loss,
        capacity=capacity,
        min_fill=min_fill,
        prioritization=proportional,
        temperature=1.0,
        staleness=0.7,
    )
