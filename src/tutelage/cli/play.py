"""`tutelage play`: watch a trained agent for one episode."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from tyro.conf import Positional

from tutelage.evaluation.images import gif
from tutelage.evaluation.video import frames, watch
from tutelage.training.compilation import keep_programs
from tutelage.training.run import Run
from tutelage.types import Domain, InputError, Key, TestLevel


@dataclass(frozen=True)
class Play:
    """Let a trained agent play one episode, and make a video of it."""

    directory: Positional[Path]
    """The run."""
    level: str = "random"
    """A test level by its name, a .json file that holds a level, or random: one as in training."""
    gif: Path | None = None
    """Where to write the video: LEVEL.gif in the run's directory, if not said otherwise."""
    greedy: bool = False
    """Take the likeliest action instead of drawing one."""
    seed: int = 0
    """All that is random follows from this number."""
    episode: int = 0
    """Of a test level: which episode of `tutelage eval` with the same seed to show."""
    max_frames: int = 200
    """Pictures in the video; a longer episode is shown at intervals."""
    allow: tuple[str, ...] = ()
    """Modules of your own that a run names and that may be imported."""

    def run(self) -> None:
        """Play, print how it went, and write the video."""
        keep_programs()
        run = Run.load(self.directory, self.allow)
        if self.episode < 0:
            raise InputError(f"Episodes are counted from 0 upwards, not {self.episode}.")
        key = jax.random.key(self.seed)
        level_key, play_key = jax.random.split(key)
        name, where = find_level(run.domain, self.level, level_key, run.config.evaluation.suite)
        if isinstance(where, TestLevel):
            play_key = key  # with which an evaluation begins
        episode = watch(run.domain, where, run.policy, play_key, number=self.episode, greedy=self.greedy)
        out = self.gif or self.directory / f"{name}.gif"
        pictures = frames(run.domain, episode, self.max_frames)
        try:
            gif(out, pictures)
        except OSError as error:
            raise InputError(f"{out} cannot be written ({error}): give --gif a file you may write.") from None
        verdict = {None: "", True: "solved, ", False: "not solved, "}[episode.solved]
        print(f"{name}: {verdict}return {episode.total:.3f} in {episode.length} steps. The video is {out}.")


def find_level(domain: Domain, name: str, key: Key, suite: str = "") -> tuple[str, Any]:
    """What to call a level, and the level: a test level of this suite or any other, one in a file, or a random one."""
    if name == "random":
        return name, jax.jit(domain.design.sample)(key)
    if name.endswith(".json"):
        return Path(name).stem, _read(domain, Path(name))
    entries: dict[str, TestLevel] = {}
    for suite_entries in (domain.suites.get(suite, ()), *domain.suites.values()):
        entries = {entry.name: entry for entry in suite_entries} | entries  # the first suite to know a name has it
    if name not in entries:
        choices = ", ".join(entries) or "none"
        raise InputError(
            f"{domain.name} has no test level {name!r}; it has: {choices}. A .json file or random will do, too."
        )
    return name, entries[name]


def _read(domain: Domain, path: Path) -> Any:
    try:
        level = domain.design.from_json(json.loads(path.read_text()))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise InputError(f"{path} holds no level: {error}") from None
        raise InputError(f"{path} is not JSON: {error}.") from None
    if not bool(domain.design.valid(level)):
        raise InputError(f"{path} holds something that is no level of {domain.name}: it breaks the domain's rules.")
    return level
