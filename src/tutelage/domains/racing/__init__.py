"""CarRacing on Bézier tracks: Gymnasium's car, contacts and pixels as pure JAX (paper, section 6.2)."""

from __future__ import annotations

from tutelage.domains.racing import suite
from tutelage.domains.racing.design import RacingDesign
from tutelage.domains.racing.env import WHOLE_VIEW, RacingEnv, View
from tutelage.domains.racing.picture import frame
from tutelage.types import Domain

__all__ = ["RacingDesign", "RacingEnv", "View", "domain"]


def domain(view: View = WHOLE_VIEW) -> Domain:
    """CarRacing with the paper's training rules, seen through `view`."""
    return Domain(
        name="racing",
        env=RacingEnv(view=view),
        design=RacingDesign(),
        suites={
            "f1": suite.f1(view),
            "bezier": suite.bezier(view),
            "original": suite.original_car_racing(view),
        },
        frame=frame,
    )
