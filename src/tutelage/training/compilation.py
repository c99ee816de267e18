"""Compiled programs kept on disk, so that the second start of the same training takes seconds."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def keep_programs() -> None:
    """Keep what is compiled in the user's cache, or where JAX has been told to already."""
    if jax.config.values["jax_compilation_cache_dir"]:
        return
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(caches / "tutelage"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
