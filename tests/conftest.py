"""Two devices for every test, shapes that are checked, and a compiler that hurries and remembers.

Nearly all of a small test's time is the compiler's: these flags ask for plain code, soon, instead of quick code, late,
and for no record of the lines of Python behind each operation.
Programs are kept for the next test, the next process and the next time; all processes share one directory.

Where the package has jaxtyping's annotations, beartype checks types and shapes at every call in the tests.
"""

import gc
import os
import signal
from pathlib import Path

from jaxtyping import install_import_hook

FLAGS = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}".strip()
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "programs"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"

# a shell ignores interrupts for what it runs in the background, and our tests are about obeying them
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKED = ["tutelage.types", "tutelage.learning", "tutelage.curriculum"]
install_import_hook(CHECKED, "shapes.check")  # before anything imports these

from tutelage.learning.mesh import use_cores  # noqa: E402
from tutelage.training.compilation import share_programs  # noqa: E402

share_programs()
use_cores(2)

# tracing makes many small objects, among which the garbage collector would look for cycles all the time
gc.freeze()
gc.set_threshold(50_000, 10, 10)

LONGEST = (
    "test_readme.py",
    "test_studies_ray.py",
    "test_training_kill.py",
    "test_racing_train.py",
    "test_distributed.py",
    "test_docs.py",
)
"""Begin with these, so that no process is left alone with one of them at the end."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONGEST)
