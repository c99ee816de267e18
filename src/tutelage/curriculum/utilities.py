"""What a teacher maximises: functions of how the students fared on one of its levels; callers vmap.

The leaves of `episodes` are [S]: the protagonist's first, then the antagonist's.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tutelage.learning.returns import Episodes

Utility = Callable[[Episodes], jax.Array]


def regret(episodes: Episodes) -> jax.Array:
    """PAIRED's: the antagonist's best episode − the protagonist's mean, at least 0."""
    return jnp.maximum(episodes.best_return[1] - episodes.mean_return[0], 0.0)


def mean_regret(episodes: Episodes) -> jax.Array:
    """The antagonist's mean episode − the protagonist's, of either sign."""
    return episodes.mean_return[1] - episodes.mean_return[0]


def adversarial(episodes: Episodes) -> jax.Array:
    """Minimax's: − the student's best episode."""
    return -episodes.best_return[0]
