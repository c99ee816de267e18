"""Equilibria of small dual curriculum games by enumeration of supports, to test the theory on games at large.

Suppose the student mixes policies S and the teachers mix levels T¹ and T². That each teacher is indifferent
within its support is a linear system in π alone; that the student is indifferent within S is one in (θ¹,
θ²). Unless the game is degenerate both systems are square, |S| + 1 = |T¹| + |T²|, and have one solution
each, so that all equilibria are found. Every profile is checked against all deviations before it is
returned. The number of supports grows exponentially: five policies and five levels are still a matter of seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product
from typing import NamedTuple

import numpy as np

from tutelage.games.dual import DualCurriculumGame, Profile
from tutelage.games.matrix import Matrix, Strategy

_ROUNDING = 1e-12
"""A probability below zero by no more than this is a zero that was rounded."""

Support = tuple[int, ...]


class Supports(NamedTuple):
    """The policies that the student mixes and the levels that each teacher mixes: S, T¹ and T²."""

    student: Support
    first: Support
    second: Support


def equilibria(game: DualCurriculumGame) -> Iterator[Profile]:
    """All equilibria of a non-degenerate game, small supports first; of a degenerate one, some or none."""
    policies, levels = game.payoffs.shape
    for supports in map(Supports._make, product(_subsets(policies), _subsets(levels), _subsets(levels))):
        if len(supports.student) + 1 != len(supports.first) + len(supports.second):
            continue
        if (student := _student(game, supports)) is None or (teachers := _teachers(game, supports)) is None:
            continue
        profile = Profile(student, *teachers)
        if game.is_equilibrium(profile):
            yield profile


def _subsets(actions: int) -> list[Support]:
    return list(chain.from_iterable(combinations(range(actions), size + 1) for size in range(actions)))


def _student(game: DualCurriculumGame, supports: Supports) -> Strategy | None:
    """π on S that leaves the first teacher indifferent within T¹ and the second within T²."""
    S, T1, T2 = supports
    first, second = game.first[np.ix_(S, T1)], game.second[np.ix_(S, T2)]
    indifference = np.hstack([first[:, 1:] - first[:, :1], second[:, 1:] - second[:, :1]]).T
    weights = _solve(indifference, totals=np.ones((1, len(S))))
    return None if weights is None else _extend(weights, S, game.payoffs.shape[0])


def _teachers(game: DualCurriculumGame, supports: Supports) -> tuple[Strategy, Strategy] | None:
    """θ¹ on T¹ and θ² on T² whose mixture leaves the student indifferent within S."""
    S, T1, T2 = supports
    returns = np.hstack([game.p * game.payoffs[np.ix_(S, T1)], (1 - game.p) * game.payoffs[np.ix_(S, T2)]])
    weights = _solve(returns[1:] - returns[:1], totals=np.repeat(np.eye(2), (len(T1), len(T2)), axis=1))
    if weights is None:
        return None
    levels = game.payoffs.shape[1]
    return _extend(weights[: len(T1)], T1, levels), _extend(weights[len(T1) :], T2, levels)


def _solve(indifference: Matrix, totals: Matrix) -> Strategy | None:
    """Non-negative weights that give zero for each row of `indifference` and one for each row of `totals`."""
    right = np.append(np.zeros(len(indifference)), np.ones(len(totals)))
    try:
        weights = np.linalg.solve(np.vstack([indifference, totals]), right)
    except np.linalg.LinAlgError:
        return None
    return np.maximum(weights, 0) if weights.min() >= -_ROUNDING else None


def _extend(weights: Strategy, support: Support, actions: int) -> Strategy:
    """A strategy over all actions from weights on its support."""
    strategy = np.zeros(actions)
    strategy[list(support)] = weights / weights.sum()
    return strategy
