"""What a SIGKILL can leave on the disk: a copy of a directory before every change that a process makes to it."""

import itertools
import os
import shutil
from pathlib import Path

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
