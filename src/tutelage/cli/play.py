"""`tutelage play`: one episode of a trained agent, as a video."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from tyro.conf import Positional

from tutelage.cli.options import check_file, file_name, open_runs, prepare, seed_key
from tutelage.evaluation.images import gif
from tutelage.evaluation.video import frames, require_pictures, watch
from tutelage.files import read_json
from tutelage.training.config import checked_name
from tutelage.types import Domain, InputError, Key, TestLevel


@dataclass(frozen=True)
class Play:
    """Let a trained agent play one episode, and make a video of it."""

    directory: Positional[Path | None] = None
    """The run."""
    pretrained: str | None = None
    """Instead of a run, an agent that comes with tutelage: maze."""
    level: str = "random"
    """A test level by its name, a .json file that holds a level, or random: one as in training."""
    gif: Path | None = None
    """The file to write; by default LEVEL.gif in the run's directory, or here for a pretrained agent."""
    greedy: bool = False
    """Take the greedy action instead of sampling one."""
    seed: int = 0
    """The level and all actions follow from this number."""
    episode: int = 0
    """On a test level: which episode of `tutelage eval` with the same seed to show."""
    max_frames: int = 200
    """Frames of the video, at most; longer episodes skip frames."""
    allow: tuple[str, ...] = ()
    """Modules of your own that a run names and that may be imported."""

    def run(self) -> None:
        prepare()
        key = seed_key(self.seed)
        if self.max_frames < 1:
            raise InputError(f"A video has at least one frame, not {self.max_frames}.")
        if not 0 <= self.episode < 2**32:
            raise InputError(f"Episodes count from 0 upwards; there is none with the number {self.episode}.")
        run, *others = open_runs([self.directory] if self.directory else [], self.pretrained, self.allow)
        if others:
            raise InputError(f"{self.directory} has {1 + len(others)} runs: name one of them, such as {run.directory}.")
        require_pictures(run.domain)
        level_key, play_key = jax.random.split(key)
        name, where = find_level(run.domain, self.level, level_key, run.config.evaluation.suite)
        if isinstance(where, TestLevel):
            play_key = key  # the key of an evaluation
        out = self.gif or (Path() if self.pretrained else run.directory) / f"{file_name(name)}.gif"
        check_file(out, "--gif", ".gif")
        episode = watch(run.domain, where, run.policy, play_key, number=self.episode, greedy=self.greedy)
        gif(out, frames(run.domain, episode, self.max_frames))
        verdict = {None: "", True: "solved, ", False: "not solved, "}[episode.solved]
        print(f"{name}: {verdict}return {episode.total:.3f} in {episode.length} steps. The video is {out}.")


def find_level(domain: Domain, name: str, key: Key, suite: str = "") -> tuple[str, Any]:
    """A name and a level: a test level of this suite or any other, one in a file, or a random one."""
    if name == "random":
        return name, jax.jit(domain.design.sample)(key)
    if name.endswith(".json"):
        return Path(name).stem, _read(domain, Path(name))
    entries: dict[str, TestLevel] = {}
    for suite_entries in (domain.suites.get(suite, ()), *domain.suites.values()):
        entries = {entry.name: entry for entry in suite_entries} | entries  # the first suite with a name has precedence
    checked_name(f"test level of {domain.name}", name, [*entries, "random", "FILE.json"])
    return name, entries[name]


def _read(domain: Domain, path: Path) -> Any:
    content = read_json(path)
    try:
        level = domain.design.from_json(content)
    except InputError as error:
        raise InputError(f"{path} holds no level: {error}") from None
    if not bool(domain.design.valid(level)):
        raise InputError(f"{path} holds no valid level of {domain.name} (by `design.valid`).")
    return level
