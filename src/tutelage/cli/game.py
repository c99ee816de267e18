"""`tutelage game`: the theory on the paper's example or on a payoff matrix of your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated

import numpy as np
from tyro.conf import CascadeSubcommandArgs, Positional, configure, subcommand

from tutelage import games
from tutelage.analysis.tables import Table, text
from tutelage.files import write_atomically
from tutelage.games.dual import check_p
from tutelage.games.matrix import Matrix, Strategy
from tutelage.types import InputError

_SHARES = [step / 40 for step in range(41)]
"""The values of p for which regret_by_p.png shows an equilibrium."""


@dataclass(frozen=True)
class Example:
    """The paper's table for Corollary 1: four policies, and two levels that need opposite ones."""

    B: float = 1.0
    """The greatest payoff."""
    levels: int = 21
    """N, how many levels there are."""
    epsilon: float | None = None
    """What π_2 and π_3 earn above pB/2 on average. The default makes them the student's best response."""

    title = "the paper's example"

    def _epsilon(self, p: float) -> float:
        return games.default_epsilon(self.B, p, self.levels) if self.epsilon is None else self.epsilon

    def payoffs(self, p: float) -> Matrix:
        return games.example_payoffs(self.B, p, self._epsilon(p), self.levels)

    def remarks(self, p: float) -> list[str]:
        """Whether the profile that the paper gives is an equilibrium."""
        game, profile = games.plr_game(self.payoffs(p), p), games.example_profile(self.levels)
        least = games.least_epsilon(self.B, p, self.levels)
        verdict = "is" if game.is_equilibrium(profile) else "is not"
        return [
            f"The paper's profile {verdict} an equilibrium of PLR's dual curriculum game",
            "  student 0.5 π_2 + 0.5 π_3; curator 0.5 θ_0 + 0.5 θ_1; generator uniform",
            f"  The student gains {game.gaps(profile).student:.4g} by deviating.",
            f"  ε = {self._epsilon(p):.4g}, and an equilibrium needs ε ≥ (1−p)B/N = {least:.4g}.",
            "",
        ]

    def sweep(self, payoffs: Matrix, shares: Sequence[float]) -> list[games.WorstCase]:
        """Worst-case regret for each p; each has its own table, so `payoffs` is not used."""
        return games.example_sweep(self.B, self.levels, shares)


@dataclass(frozen=True)
class MatrixFile:
    """Payoffs of your own: a CSV file with a line for each policy and a column for each level."""

    file: Positional[Path]
    """Numbers separated by commas; lines that begin with # are skipped."""

    @property
    def title(self) -> str:
        return self.file.name

    def payoffs(self, p: float) -> Matrix:
        """The matrix, which does not depend on p."""
        return games.read_payoffs(self.file)

    def remarks(self, p: float) -> list[str]:
        return []

    def sweep(self, payoffs: Matrix, shares: Sequence[float]) -> list[games.WorstCase]:
        return games.sweep(payoffs, shares)


@configure(CascadeSubcommandArgs)  # `game example --p 0.5` reads better than `game --p 0.5 example`
@dataclass(frozen=True)
class Game:
    """Show Theorem 1 and its corollaries on a payoff matrix, and how the six methods learn on it."""

    base: Annotated[Example, subcommand("example")] | Annotated[MatrixFile, subcommand("matrix")]
    """The base game."""
    p: float = 0.5
    """The share of levels that the first teacher, the curator, chooses: the replay rate."""
    iterations: int = 5000
    """How many iterations the methods learn for."""
    runs: int = 16
    """How many independent runs of each method."""
    seed: int = 0
    """Seed of the runs."""
    out: Path | None = None
    """A directory for the figures regret_by_p.png and regret_over_time.png; without it none are drawn."""

    def run(self) -> None:
        """Print regrets and gaps with their bounds, and draw the figures if `out` is given."""
        check_p(self.p)
        if self.seed < 0:
            raise InputError(f"A seed is a whole number from 0 upwards, not {self.seed}.")
        payoffs = self.base.payoffs(self.p)
        curves = {}
        for name, method in games.IDEAL_METHODS.items():
            rng = np.random.default_rng(self.seed)
            curves[name] = games.worst_case_over_time(payoffs, method, self.p, self.iterations, self.runs, rng)
        theory = [*_base_game(payoffs), *self.base.remarks(self.p), *_theory(payoffs, self.p)]
        print("\n".join([*theory, *_outcome(payoffs, curves)]))
        if self.out is not None:
            self._draw(self.out, payoffs, curves)

    def _draw(self, out: Path, payoffs: Matrix, curves: dict[str, Matrix]) -> None:
        # matplotlib takes a while to import, and most calls draw nothing
        from tutelage.analysis import plots, theory

        cost, learning = f"What random levels cost PLR: {self.base.title}", f"Six methods learn {self.base.title}"
        optimum = games.minimax_regret(payoffs).value
        drawings = {
            "regret_by_p.png": theory.draw_sweep(_SHARES, self.base.sweep(payoffs, _SHARES), cost),
            "regret_over_time.png": theory.draw_dynamics(curves, optimum, f"{learning}, p = {self.p:g}"),
        }
        for name, figure in drawings.items():
            write_atomically(out / name, plots.png(figure))
        print("\nFigures: " + ", ".join(str(out / name) for name in drawings))


def _base_game(payoffs: Matrix) -> list[str]:
    student, teacher, optimum = games.minimax_regret(payoffs)
    policies, levels = payoffs.shape
    lines = [f"Base game: {policies} policies × {levels} levels"]
    # Equal neighbors share a column, so that the example fits on a screen whatever its number of levels.
    groups = [list(group) for _, group in groupby(range(levels), key=lambda level: payoffs[:, level].tobytes())]
    if len(groups) <= 10 and policies <= 20:
        names = [f"θ_{group[0]}" + (f"…{group[-1]}" if len(group) > 1 else "") for group in groups]
        rows = [[f"π_{i}", *(f"{row[group[0]]:.4g}" for group in groups)] for i, row in enumerate(payoffs)]
        lines += _table(["", *names], rows)
    return [
        *lines,
        f"Minimax regret R* = {optimum:.4f}",
        f"  student {_mixture('π', student)}; teacher {_mixture('θ', teacher)}",
        "",
    ]


def _theory(payoffs: Matrix, p: float) -> list[str]:
    game, profile = games.plr_game(payoffs, p), games.plr_equilibrium(payoffs, p)
    worst, optimum, bound = games.corollary_1(payoffs, p, profile.student)
    rows = [[each.teacher, f"{each.gap:.4f}", f"{each.bound:.4f}"] for each in games.theorem_1(game, profile)]
    return [
        f"PLR's equilibrium with a uniform generator, p = {p:g} (largest gap {max(game.gaps(profile)):.1g})",
        f"  student {_mixture('π', profile.student)}; curator {_mixture('θ', profile.first)}",
        "",
        f"Theorem 1, B = {game.difference:.4g}: how far this is from an equilibrium of the base game",
        *_table(["teacher", "gap", "bound"], rows),
        "",
        "Corollary 1: the student's worst-case regret at this equilibrium",
        f"  {worst:.4f} ≤ R* + 2(B⁺−B⁻)(1−p) = {bound:.4f}; above R* by {worst - optimum:z.4f}",
        "Corollary 2: the student's worst-case regret where both teachers maximize regret",
        *_robust(payoffs, p),
        "",
    ]


def _robust(payoffs: Matrix, p: float) -> list[str]:
    try:
        profiles, regrets, optimum = games.corollary_2(payoffs, p)
    except InputError as error:  # the game is too large to search
        return [f"  {error}"]
    if not profiles:
        return ["  The search found no equilibrium that is exact up to rounding."]
    gap = max(max(games.robust_game(payoffs, p).gaps(profile)) for profile in profiles)
    return [
        f"  {min(regrets):.4f} to {max(regrets):.4f}; R* = {optimum:.4f}",
        f"  equilibria found by pivoting: {len(profiles)} (largest gap {gap:.1g}); the first:",
        f"  student {_mixture('π', profiles[0].student)}; both teachers {_mixture('θ', profiles[0].first)}",
    ]


def _outcome(payoffs: Matrix, curves: dict[str, Matrix]) -> list[str]:
    optimum = games.minimax_regret(payoffs).value
    runs, iterations = next(iter(curves.values())).shape
    regrets = {name: curve[:, -1].mean() for name, curve in curves.items()}
    rows = [[name, f"{regret:.4f}", f"{regret - optimum:z.4f}"] for name, regret in regrets.items()]
    title = f"Worst-case regret of the average student after {iterations} iterations, mean of {runs} runs"
    return [title, *_table(["method", "regret", "above R*"], rows)]


def _mixture(symbol: str, strategy: Strategy, terms: int = 6) -> str:
    """The most likely actions of a mixed strategy, as 0.5 π_0 + 0.5 π_1."""
    played = [i for i in np.argsort(-strategy, kind="stable") if strategy[i] > 1e-9]
    shown = " + ".join(f"{strategy[i]:.4g} {symbol}_{i}" for i in sorted(played[:terms]))
    return shown + (f" + {len(played) - terms} more" if len(played) > terms else "")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"  {line}" for line in text(Table(head, rows), width=1000).splitlines()]
