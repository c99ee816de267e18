"""How cost grows: of the curator, of an iteration, and of what a run is made of, in CPU time of all cores together.

Unlike wall-clock time, CPU time hardly depends on what else the machine does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter

from benchmarks import timing
from benchmarks.report import Benchmark, Rows
from tutelage.analysis import style
from tutelage.analysis.plots import png
from tutelage.curriculum.curator import Curator
from tutelage.files import write_atomically
from tutelage.learning.mesh import use_cores
from tutelage.training.config import Config, Evaluation
from tutelage.training.presets.maze import MazeSetup
from tutelage.types import InputError

MARKERS = {"exploit, s": "o", "explore, s": "s", "memory, MB": "^", "insert, ms": "o", "replay, ms": "s"}


@dataclass(frozen=True)
class Scaling(Benchmark):
    """How cost grows with the buffer, the batch, the network, the students and the devices, in CPU seconds.

    Everything else is the laptop preset's PLR⊥, or REPAIRED where there are two students.
    """

    capacities: tuple[int, ...] = (4096, 32768, 262144, 1048576)
    """Buffer sizes K to measure, with the first batch size."""
    batches: tuple[int, ...] = (32, 256, 2048, 8192)
    """Batch sizes B to measure, with the first buffer size."""
    devices: tuple[int, ...] = (1, 2, 4)
    """Numbers of devices to measure an iteration on; more than cores are virtual."""
    num_envs: tuple[int, ...] = (16, 32, 64, 128)
    """Numbers of envs."""
    num_steps: tuple[int, ...] = (128, 256, 512, 1024)
    """Lengths of a rollout."""
    hidden: tuple[int, ...] = (64, 128, 256, 512)
    """Sizes of the student's LSTM."""
    students: tuple[int, ...] = (1, 2)
    """Numbers of students, each with a buffer of its own."""
    repeats: int = 3
    """How many times each is run; the best counts."""

    def measure(self) -> Mapping[str, Rows]:
        """A table for the curator, one for the devices, and one for each size of an iteration."""
        sizes = (*self.num_envs, *self.num_steps, *self.hidden, *self.students)
        if min(*self.capacities, *self.batches, *self.devices, *sizes, self.repeats) < 1:
            raise InputError("All numbers of this benchmark must be at least 1.")
        use_cores(max(self.devices))
        tables = {"The curator": self._curator(), "An iteration": self._iterations("devices", self.devices)}
        for size in ("num_envs", "num_steps", "hidden", "students"):
            tables[f"An iteration by {size}"] = self._iterations(size, getattr(self, size))
        if self.out is not None:
            write_atomically(self.out / "Scaling.png", png(_figure(tables)))
        return tables

    def _curator(self) -> list[dict[str, Any]]:
        parts, rows = _config().curriculum().parts, []
        pairs = [(k, self.batches[0]) for k in self.capacities] + [(self.capacities[0], b) for b in self.batches[1:]]
        for capacity, batch in pairs:
            curator = Curator(capacity=capacity)
            insert, replay, size = timing.time_curator(curator, replace(parts, num_envs=batch), self.repeats)
            spent = {"insert, ms": 1e3 * insert.processor, "replay, ms": 1e3 * replay.processor}
            rows.append({"K": capacity, "B": batch, "buffer, MB": size / 2**20} | spent)
        return rows

    def _iterations(self, size: str, values: tuple[int, ...]) -> list[dict[str, Any]]:
        """CPU seconds of both kinds of iterations, and memory of the replayed one, for several values of one size."""
        configs = {str(value): _config(**{size: value}) for value in values}
        candidates = {name: (config.method, config.curriculum().parts) for name, config in configs.items()}
        devices = {name: config.devices for name, config in configs.items()}
        rows = []
        for name, spent in timing.time_training(candidates, self.repeats, devices):
            assert spent.exploit is not None
            exploit, steps = spent.exploit.processor, configs[name].num_envs * configs[name].num_steps
            row = {size: int(name), "explore, s": spent.explore.processor, "exploit, s": exploit}
            row["exploit, µs/step"] = 1e6 * exploit / (steps * configs[name].method.students)
            rows.append(row | {"memory, MB": spent.memory / 2**20})
        return rows


def _config(devices: int = 1, students: int = 1, hidden: int | None = None, **sizes: Any) -> Config[MazeSetup]:
    config = MazeSetup.preset("laptop", "plr-perp" if students == 1 else "repaired")
    if hidden is not None:
        config = replace(config, setup=replace(config.setup, hidden=hidden))
    return replace(config, evaluation=Evaluation(), devices=devices, **sizes)


def _figure(tables: Mapping[str, Rows]) -> Figure:
    """A panel for each size: time and memory relative to the smallest one."""
    curator, *iterations = tables.values()
    by_k = [row for row in curator if row["B"] == curator[0]["B"]]
    by_b = [row for row in curator if row["K"] == curator[0]["K"]]
    sizes = [("K", by_k), ("B", by_b), *((next(iter(rows[0])), rows) for rows in iterations)]
    return _panels([(size, rows) for size, rows in sizes if len(rows) > 1])


@style.drawn
def _panels(sizes: Sequence[tuple[str, Rows]]) -> Figure:
    figure, panels = style.panels(len(sizes), 4, 2.1, style.WIDTH)
    for axes, (size, rows) in zip(panels, sizes, strict=True):
        values = [row[size] for row in rows]
        for column, marker in MARKERS.items():
            if column in rows[0]:
                relative = [row[column] / rows[0][column] for row in rows]
                axes.loglog(values, relative, marker=marker, markersize=4, base=2, label=column.split(",")[0])
        axes.plot(values, [value / values[0] for value in values], color="gray", linestyle=":", label="linear")
        axes.set_title(size)
        axes.set_xticks(values, [EngFormatter(sep="", places=0)(value) for value in values])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}×"))
        axes.minorticks_off()
        axes.legend(fontsize=7)
    return figure
