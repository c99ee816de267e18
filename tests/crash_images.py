"""What a SIGKILL can leave on the disk: a copy of a directory before every change that a process makes to it."""

import itertools
import os
import shutil
from dataclasses import replace
from pathlib import Path

from short_runs import content

from tutelage.training.train import Programs, resume, train
from tutelage.types import InputError

CHANGES = ("open", "write", "ftruncate", "replace", "rename", "link", "unlink", "mkdir", "rmdir")


def crash_images(root: Path, images: Path, work, every: int = 1) -> list[Path]:
    """Do some work below `root`, and copy `root` before each change that it makes there, and amid each write.

    Only each `every`-th of these copies is made.
    """
    originals = {name: getattr(os, name) for name in CHANGES}
    descriptors, copies, count = set(), [], itertools.count()

    def copy():
        if (number := next(count)) % every:
            return
        for name, function in originals.items():
            setattr(os, name, function)
        copies.append(images / f"{number:04}")
        shutil.copytree(root, copies[-1], symlinks=True)
        for name in CHANGES:
            setattr(os, name, recording(name))

    def changes(name, target, flags, dir_fd):
        if name in ("write", "ftruncate"):
            return target in descriptors
        if dir_fd is None and not os.fspath(target).startswith(str(root)):
            return False
        return name != "open" or bool(flags & os.O_CREAT and not os.path.exists(target))

    def recording(name):
        def call(target, *arguments, dir_fd=None, **options):
            options |= {} if dir_fd is None else {"dir_fd": dir_fd}
            if changes(name, target, arguments[0] if arguments else 0, dir_fd):
                copy()
                if name == "write" and len(arguments[0]) > 1:
                    half = originals[name](target, arguments[0][: len(arguments[0]) // 2])
                    copy()
                    return half  # whoever writes has to write the rest as well
            found = originals[name](target, *arguments, **options)
            if name == "open":
                here = dir_fd is not None or os.fspath(target).startswith(str(root))
                (descriptors.add if here else descriptors.discard)(found)
            return found

        return call

    root.mkdir(parents=True, exist_ok=True)
    for name in CHANGES:
        setattr(os, name, recording(name))
    try:
        work()
    finally:
        for name, function in originals.items():
            setattr(os, name, function)
    return copies


class Trial:
    """A short run in which everything happens that is ever written, and all that a kill can leave of it."""

    def __init__(self, config, tmp_path, programs=None):
        storage = replace(
            config.storage, checkpoint_every=2, keep=2, archive_every=3, archive_unit="iterations", snapshot_every=2
        )
        steps, evaluation = 4 * config.num_envs * config.num_steps, replace(config.evaluation, evaluate_every=3)
        self.config = replace(config, total_steps=steps, evaluation=evaluation, storage=storage)
        self.programs, self.tmp_path = programs or Programs(self.config), tmp_path
        self.whole = content(self.train(tmp_path / "whole").directory)

    def train(self, directory, seed=0, **options):
        config = replace(self.config, seed=seed)
        return train(config, directory, programs=self.programs, quiet=True, **options)

    def resume(self, directory):
        return resume(directory, allow=[type(self.config.setup).__module__], programs=self.programs, quiet=True)

    def go_on(self, directory):
        """As somebody would who finds a run like this."""
        try:
            self.resume(directory)
        except InputError as error:
            if "is not a run" not in str(error):
                raise
            self.train(directory)

    def check_kills(self, every=1):
        """Kill it at every change of a file, or at some of them, go on, and compare."""
        root = self.tmp_path / "run"
        images = crash_images(root, self.tmp_path / "images", lambda: self.train(root), every)
        assert content(root) == self.whole
        for image in images:
            self.go_on(image)
            assert content(image) == self.whole, image.name
        return len(images)
