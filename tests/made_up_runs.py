"""Run directories whose numbers are made up, for tests of what reads them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tutelage.files import csv_text, write_atomically
from tutelage.training.config import Config
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.run import EVALUATION_COLUMNS, EVALUATIONS, METRICS, PROGRESS, Run, write_config

LEVELS = ("SixteenRooms", "Labyrinth", "Maze")

STEPS, UPDATES = 1000, 5
"""Of one iteration; a method that learns from replayed levels only makes no updates in the other half."""


def made_up_config(method: str, seed: int) -> Config[MazeSetup]:
    return replace(MazeSetup.preset("tiny", method), seed=seed)


def write_run(
    directory: Path,
    method: str = "dr",
    seed: int = 0,
    *,
    iterations: int = 20,
    every: int = 5,
    levels: Sequence[str] = LEVELS,
    skill: float = 0.5,
    suite: str = "paper",
    greedy: bool = False,
    solvable: bool = True,
    config: Config | None = None,
) -> Run:
    """A run whose solved rate rises towards `skill` on the first level, and to less on the others, but for noise."""
    config = config or made_up_config(method, seed)
    rng = np.random.default_rng([seed, len(method)])
    replays = rng.random(iterations) < 0.5 if method in ("plr-perp", "repaired", "accel") else np.zeros(iterations)
    updates = UPDATES * (np.cumsum(replays) if replays.any() else np.arange(1, iterations + 1)).astype(int)
    metrics, evaluations = [], []
    for i in range(iterations):
        place = dict(zip(PROGRESS, (i + 1, STEPS * (i + 1), updates[i]), strict=True))
        progress = 1 - np.exp(-3 * (i + 1) / iterations)
        metrics.append(
            place
            | {"replay": float(replays[i]), "entropy": 2 - progress + 0.1 * rng.normal()}
            | {("replayed" if replays[i] else "new") + "/return": skill * progress + 0.05 * rng.normal()}
        )
        if (i + 1) % every == 0:
            for n, level in enumerate(levels):
                rate = float(np.clip(skill * progress * 0.9**n + 0.08 * rng.normal(), 0, 1))
                shown = {"solved": rate if solvable else None, "return": 0.7 * rate, "length": 100.0}
                about = {"suite": suite, "level": level, "episodes": 10, "greedy": greedy}
                evaluations.append(place | about | shown)
    write_config(directory, config)
    write_atomically(
        directory / METRICS, csv_text(metrics, [*PROGRESS, "replay", "entropy", "new/return", "replayed/return"])
    )
    write_atomically(directory / EVALUATIONS, csv_text(evaluations, EVALUATION_COLUMNS))
    return Run(directory, config)


def write_evaluations(directory: Path, method: str, seed: int, table: dict[tuple[int, int], Sequence[float]]) -> Run:
    """A run with exactly these solved rates, one for each level, by (steps, updates)."""
    config = made_up_config(method, seed)
    rows = [
        {"iteration": i, "steps": steps, "updates": updates, "suite": "paper", "level": LEVELS[n], "episodes": 10}
        | {"greedy": False, "solved": rate, "return": rate, "length": 9.0}
        for i, ((steps, updates), rates) in enumerate(table.items(), start=1)
        for n, rate in enumerate(rates)
    ]
    write_config(directory, config)
    write_atomically(directory / EVALUATIONS, csv_text(rows, EVALUATION_COLUMNS))
    return Run(directory, config)
