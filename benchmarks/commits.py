"""Is one commit faster than another? Both run the same training command, in turns, on the same machine.

Only the command line and a run's `timing.csv` are used, so commits with other names inside can be compared, too.
Machines are noisy: the ratio of each turn's two times is taken, and a difference counts only if the 95 % interval of
their mean (Student's t on the logarithms) leaves out 1.
"""

from __future__ import annotations

import csv
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy import stats

from benchmarks.report import Benchmark, Rows
from tutelage.types import InputError


@dataclass(frozen=True)
class Turn:
    """What one run of the command took, in seconds."""

    wall: float
    """The whole command."""
    processor: float
    """The same, of all cores together."""
    first: float
    """Until the first iteration, which compiles, was written down."""
    seconds: Sequence[float]
    """Each iteration."""

    @property
    def iterations(self) -> float:
        """All iterations but the first tenth, some of which compile."""
        return sum(self.seconds[len(self.seconds) // 10 :])

    @property
    def all_iterations(self) -> float:
        """All iterations."""
        return sum(self.seconds)

    @property
    def other(self) -> float:
        """What was no iteration after the first: evaluations, snapshots, checkpoints, and the end."""
        return self.wall - self.first - sum(self.seconds[1:])

    @property
    def start(self) -> float:
        """All that was no iteration."""
        return self.wall - self.all_iterations


def train_once(
    options: Sequence[str], out: Path, cache: Path, source: Path | None = None, cwd: Path | None = None
) -> Turn:
    """Run `tutelage train` with these options in a process of its own, of this package or of another `source`."""
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    command = [sys.executable, "-m", "tutelage", "train", *options, "--out", str(out), "--overwrite"]
    before, begin, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), time.time()
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise InputError(f"{' '.join(command[2:])} failed: {done.stderr.strip()[-500:]}")
    with (out / "timing.csv").open() as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Turn(wall, processor, (out / "config.json").stat().st_ctime - begun, seconds)


@dataclass(frozen=True)
class Ratio:
    """New time over old time: the geometric mean over turns, and its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, old: Sequence[float], new: Sequence[float]) -> Ratio:
        """Of paired times."""
        logs = [math.log(b / a) for a, b in zip(old, new, strict=True)]
        mean = statistics.fmean(logs)
        error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
        half = float(stats.t.ppf(0.975, max(len(logs) - 1, 1))) * error
        return cls(*(math.exp(x) if x < 700 else math.inf for x in (mean, mean - half, mean + half)))

    @property
    def verdict(self) -> str:
        """A word for it."""
        return "faster" if self.high < 1 else "slower" if self.low > 1 else "no difference beyond noise"


@dataclass(frozen=True)
class Commits(Benchmark):
    """Compare the speed of two commits: both train with the same options, in turns."""

    old: str = "HEAD~1"
    """A commit, branch or tag."""
    new: str = "HEAD"
    """Another one."""
    options: tuple[str, ...] = ("plr-perp", "--preset", "laptop", "--total-steps", "1500000")
    """Of `tutelage train`."""
    turns: int = 5
    """How often each of them runs, after one run that fills its cache of compiled programs."""

    def measure(self) -> Mapping[str, Rows]:
        """Both medians, the ratio with its interval, and whether that is more than noise."""
        if self.turns < 2:
            raise InputError("A comparison needs at least two turns, or there is no telling what is noise.")
        with tempfile.TemporaryDirectory() as scratch:
            places = {name: Path(scratch) / name for name in ("old", "new")}
            try:
                for name, revision in (("old", self.old), ("new", self.new)):
                    _git("worktree", "add", "--detach", "--quiet", str(places[name]), revision)
                    self._turn(places[name])
                taken: dict[str, list[Turn]] = {name: [] for name in places}
                for turn in range(self.turns):
                    for name, place in places.items():
                        taken[name].append(self._turn(place))
                    print(f"turn {turn + 1} of {self.turns}; load {os.getloadavg()[0]:.1f}", flush=True)
            finally:
                for place in places.values():
                    remove = ["git", "worktree", "remove", "--force", str(place)]
                    subprocess.run(remove, capture_output=True, check=False)
        rows = []
        for what in ("iterations", "processor", "start"):
            old, new = ([getattr(turn, what) for turn in taken[name]] for name in ("old", "new"))
            ratio = Ratio.of(old, new)
            medians = {name: statistics.median(times) for name, times in (("old", old), ("new", new))}
            interval = f"{ratio.low:.3f} … {ratio.high:.3f}"
            rows.append(
                {"seconds, median": what} | medians | {"new/old": f"{ratio.mean:.3f}", "95 % interval": interval}
            )
            rows[-1]["verdict"] = ratio.verdict
        return {f"{self.new} beside {self.old}": rows}

    def _turn(self, place: Path) -> Turn:
        return train_once(self.options, place / "run", place / "cache", place / "src", place)


def _git(*arguments: str) -> None:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"git {' '.join(arguments[:2])} failed: {done.stderr.strip()}")
