"""One configuration that trains in a moment, compiled once for all tests of a process that want to see it trained."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from tutelage.training.config import Evaluation, Storage
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.train import Programs

CONFIG = replace(
    MazeSetup.preset("tiny", "accel"),
    total_steps=18 * 8 * 32,
    evaluation=Evaluation("maze", ("PerfectMaze11",), evaluate_every=4, episodes=2, final_episodes=3),
    storage=Storage(
        checkpoint_every=2, keep=3, archive_every=10, archive_unit="updates", snapshot_every=4, snapshot_levels=16
    ),
)


@cache
def short_programs() -> Programs:
    return Programs(CONFIG)


def content(directory: Path) -> dict[str, bytes]:
    """All that must be the same bit for bit: everything but how long it took."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files if path.name != "timing.csv"}
