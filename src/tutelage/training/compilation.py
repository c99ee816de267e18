"""Compiled programs kept on disk, so that the second start of the same training takes seconds."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import jax

from tutelage.files import write_atomically


def keep_programs() -> None:
    """Keep compiled programs in the user's cache directory, or in the one that JAX is configured with."""
    share_programs()
    if jax.config.values["jax_compilation_cache_dir"]:
        return
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(caches / "tutelage"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


@cache
def share_programs() -> None:
    """Let several processes share one cache of programs.

    JAX writes an entry in place and never replaces it. After a kill, half an entry stays, and every later start warns
    and compiles again. Here entries are written atomically, unless JAX limits the size of the cache: then it also
    writes when each was used last.
    """
    try:
        from jax._src.lru_cache import LRUCache
    except ImportError:  # it is not public, and may move
        return
    original = LRUCache.put

    def put(self: Any, key: str, value: bytes) -> None:
        path = Path(os.fspath(self.path)) / f"{key}-cache"  # as JAX names it
        if self.eviction_enabled:
            original(self, key, value)
        elif not path.exists():
            write_atomically(path, value)

    LRUCache.put = put  # type: ignore[method-assign]
