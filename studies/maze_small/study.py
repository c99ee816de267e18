"""Six methods on mazes, three seeds each, at a size that two cores finish in about an hour.

    python studies/maze_small/study.py            # trains into runs/maze_small, then writes tables and figures here
    python studies/maze_small/study.py --methods dr plr --steps 100000 --runs runs/quick --out runs/quick-compared

A core trains one run at a time. A study that was stopped goes on where it was.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import tyro

LEVELS = ("SimpleCrossing", "FourRooms", "PerfectMaze11", "SmallCorridor", "SixteenRooms", "Labyrinth", "Maze", "Maze2")
"""Test mazes from easy to hard: after so few steps the paper's own eight are out of reach of every method."""


@dataclass(frozen=True)
class Study:
    """Train six methods on mazes and compare them."""

    methods: tuple[str, ...] = ("paired", "repaired", "minimax", "dr", "plr", "plr-perp")
    """What to compare; those that take longest come first."""
    preset: Literal["paper", "released", "laptop", "tiny"] = "laptop"
    """How to train."""
    steps: int = 1_500_000
    """Environment steps of each run."""
    seeds: int = 3
    """Runs of each method."""
    episodes: int = 20
    """Episodes on each test maze, at each of five evaluations."""
    runs: Path = Path("runs/maze_small")
    """Where the runs go."""
    out: Path = Path(__file__).parent
    """Where the tables and figures go."""
    cores: int = 0
    """How many runs to train at once; 0: as many as there are cores."""


def main(study: Study) -> None:
    """Train what is missing, then compare."""
    cores = sorted(os.sched_getaffinity(0))[: study.cores or None]
    context = multiprocessing.get_context("spawn")
    jobs, free = context.Queue(), context.Queue()
    for seed in range(study.seeds):
        for method in study.methods:
            jobs.put((method, seed))
    for core in cores:
        jobs.put(None)
        free.put(core)
    workers = [context.Process(target=_work, args=(study, jobs, free)) for _ in cores]
    for worker in workers:
        worker.start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the workers get it, too: each finishes its iteration and saves
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("Not all runs are done. What is done is kept, and the same command goes on.")

    from tutelage.cli import main as tutelage

    tutelage(["compare", str(study.runs), "--out", str(study.out)])


def _work(study: Study, jobs: multiprocessing.Queue, free: multiprocessing.Queue) -> None:
    """Train one run after the other on a core of one's own."""
    os.sched_setaffinity(0, {free.get()})
    from tutelage.experiment.compilation import keep_programs
    from tutelage.experiment.train import Stopped
    from tutelage.learning.mesh import use_cores

    use_cores(1)
    keep_programs()
    while (job := jobs.get()) is not None:
        try:
            _train(study, *job)
        except Stopped:
            raise SystemExit(1) from None


def _train(study: Study, method: str, seed: int) -> None:
    """Begin a run, or go on with it."""
    from tutelage.experiment.config import Evaluation
    from tutelage.experiment.mazes import MazeSetup
    from tutelage.experiment.train import resume, train

    directory = study.runs / method / f"seed-{seed}"
    if (directory / "config.json").exists():
        resume(directory)
        return
    config = MazeSetup.preset(study.preset, method)
    every = math.ceil(study.steps / (config.batch * config.length) / 5)
    evaluation = Evaluation("maze", LEVELS, evaluate_every=every, episodes=study.episodes)
    keeping = replace(config.keeping, checkpoint_every=every, snapshot_every=every)
    train(replace(config, seed=seed, steps=study.steps, evaluation=evaluation, keeping=keeping), directory)


if __name__ == "__main__":
    main(tyro.cli(Study, description=__doc__))
