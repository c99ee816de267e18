"""CarRacing on Bézier tracks: Gymnasium's car, contacts and pixels as pure JAX (paper, section 6.2)."""

from __future__ import annotations

from tutelage.domains.racing import suite
from tutelage.domains.racing.design import BEZIER_TRACKS, RacingDesign
from tutelage.domains.racing.env import WHOLE_VIEW, RacingEnv, View
from tutelage.domains.racing.image import frame
from tutelage.types import Domain

__all__ = ["RacingDesign", "RacingEnv", "View", "domain"]


def domain(view: View = WHOLE_VIEW, design: RacingDesign = BEZIER_TRACKS, frames: int = 1000) -> Domain:
    """CarRacing with the paper's training rules, seen through `view`, on levels of `design`.

    `frames` is the time limit in training; test levels have their own rules.
    """
    return Domain(
        name="racing",
        env=RacingEnv(frames=frames, view=view, start_east=design.start_east),
        design=design,
        suites={
            "f1": suite.f1(view),
            "f1-released": suite.f1(view, suite.RELEASED_FRAMES),
            "bezier": suite.bezier(view),
            "original": suite.original_car_racing(view),
        },
        frame=frame,
    )
