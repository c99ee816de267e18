"""Compiled programs on disk: an entry is there as a whole or not at all."""

import os
import subprocess
import sys

import pytest
from jax._src.lru_cache import LRUCache

from tutelage.training.compilation import share_programs


@pytest.fixture
def cache(tmp_path):
    share_programs()
    return LRUCache(str(tmp_path), max_size=-1)


def test_what_was_put_is_got(cache):
    cache.put("program", b"code")
    assert cache.get("program") == b"code"
    assert cache.get("other") is None


def test_an_interrupted_write_leaves_nothing(cache, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.put("program", b"code")
    assert cache.get("program") is None
    assert not list(tmp_path.iterdir())


def test_where_jax_limits_the_size_it_writes_by_itself(tmp_path):
    cache = LRUCache(str(tmp_path), max_size=10)
    for name in ("first", "second"):
        cache.put(name, b"7 bytes")
    assert {path.name for path in tmp_path.iterdir()} == {".lockfile", "second-cache", "second-atime"}


def test_a_jax_that_has_moved_its_cache_keeps_programs_in_its_own_way(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax._src.lru_cache", None)
    share_programs.__wrapped__()


@pytest.mark.slow
def test_processes_share_programs_and_none_reads_half_of_one(tmp_path):
    program = (
        "import jax; from tutelage.training.compilation import keep_programs; keep_programs();"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0);"
        "[print(jax.jit(lambda x, i=i: x * i + i)(1.0)) for i in range(20)]"
    )
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", program]
    both = [subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True) for _ in range(2)]
    outputs = [process.communicate() for process in both]
    assert all(process.returncode == 0 for process in both), outputs
    assert outputs[0] == outputs[1]
    assert list(tmp_path.glob("*-cache"))
    assert not list(tmp_path.glob(".*"))
