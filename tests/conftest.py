"""Two devices for every test, and a compiler that hurries and remembers.

Nearly all of a small test's time is the compiler's: these flags ask for plain code, soon, instead of quick code, late.
What it made is kept, for the next test that wants the same and for the next time. Each of several processes that share
the tests has a place of its own for that, since JAX may read there what another is still writing.
"""

import os
from pathlib import Path

FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}".strip()
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "programs" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(CACHE)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"

from tutelage.learning.mesh import use_cores  # noqa: E402

use_cores(2)

LONGEST = ("test_readme.py", "test_training_kill.py", "test_racing_train.py")
"""Begin with these, so that no process is left alone with one of them at the end."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONGEST)
