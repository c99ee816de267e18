"""What a teacher maximizes: functions of the students' returns on one of its levels; callers vmap.

The leaves of `episodes` are [S]: first the protagonist's, then the antagonist's.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from tutelage.curriculum.scores import Need, needs
from tutelage.learning.returns import Episodes

Utility = Callable[[Episodes], Float[Array, ""]]


@needs(Need.BOTH_STUDENTS)
def regret(episodes: Episodes) -> Float[Array, ""]:
    """PAIRED: the antagonist's best return − the protagonist's mean return, at least 0 (released code)."""
    return jnp.maximum(episodes.best_return[1] - episodes.mean_return[0], 0.0)


@needs(Need.BOTH_STUDENTS)
def mean_regret(episodes: Episodes) -> Float[Array, ""]:
    """The antagonist's mean return − the protagonist's, of either sign: V(π_B) − V(π_A), as the paper's text has it."""
    return episodes.mean_return[1] - episodes.mean_return[0]


def adversarial(episodes: Episodes) -> Float[Array, ""]:
    """Minimax: − the student's best return."""
    return -episodes.best_return[0]
