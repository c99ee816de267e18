"""What a benchmark measured: tables on the screen, and files of Markdown and JSON with the conditions beside them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from tutelage.analysis.tables import Table, markdown, number, text
from tutelage.files import write_atomically

Rows = Sequence[Mapping[str, Any]]
"""One measurement each: numbers by name."""


@dataclass(frozen=True, kw_only=True)
class Benchmark(ABC):
    """Something to measure. Its fields are the options of the command line."""

    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Also write what was measured there, as NAME.md and NAME.json."""

    @abstractmethod
    def measure(self) -> Mapping[str, Rows]:
        """Tables by caption.

        Raises:
            InputError: if it cannot be measured with these options.
        """

    def run(self) -> None:
        """Measure, print the tables and write the files."""
        before = conditions()
        measured = self.measure()
        print("\n\n".join(text(_table(caption, rows)) for caption, rows in measured.items()), flush=True)
        if self.out is None:
            return
        name = type(self).__name__
        options = {option: value for option, value in asdict(self).items() if option != "out"}
        record = {"benchmark": name, "options": options, "conditions": before, "load_after": load(), "tables": measured}
        lines = ["; ".join(f"{key}: {value}" for key, value in before.items()), ""]
        lines += [markdown(_table(caption, rows)) for caption, rows in measured.items()]
        write_atomically(self.out / f"{name}.json", json.dumps(record, indent=1, default=str).encode())
        write_atomically(self.out / f"{name}.md", "\n".join(lines).encode())


def conditions() -> dict[str, Any]:
    """The machine, the versions and what else the machine was doing."""
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": load(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version(package) for package in ("jax", "jaxlib", "flax", "numpy", "tutelage")},
        "commit": git.stdout.strip() or None,
    }


def load() -> float:
    """Processes that wanted a core in the last minute."""
    return round(os.getloadavg()[0], 2)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    wide = " with AVX-512" if "avx512f" in found.get("flags", "").split() else ""
    return found.get("model name", platform.processor()) + wide


def _table(caption: str, rows: Rows) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Table(names, [[number(row.get(name)) for name in names] for row in rows], caption)
