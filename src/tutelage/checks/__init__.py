"""Does a domain keep the contracts of `types`? A checker for people who bring their own environment.

`check_domain` draws, edits and plays a few levels and raises an `InputError` at the first broken promise: one sentence
that names the method and the leaf, and says what to do. Its four parts can be called alone, too.
"""

from __future__ import annotations

from tutelage.checks.design import check_design
from tutelage.checks.domain import check_returns, check_suites
from tutelage.checks.env import check_env
from tutelage.types import Domain, Key

__all__ = ["check_design", "check_domain", "check_env", "check_returns", "check_suites"]


def check_domain(domain: Domain, *, key: Key | None = None, episodes: int = 8) -> None:
    """Check everything that the library will ask of a domain.

    Args:
        domain: what to check.
        key: all that is drawn in the checks comes from it; by default `jax.random.key(0)`.
        episodes: E, how many levels are played with random actions.

    Raises:
        InputError: at the first promise that is not kept.
    """
    check_design(domain.design, key=key)
    check_env(domain.env, domain.design.sample, key=key, episodes=episodes)
    check_suites(domain, key=key)
    check_returns(domain, key=key, episodes=episodes)
