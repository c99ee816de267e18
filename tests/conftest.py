"""Two devices for every test, and a compiler that hurries.

Nearly all of a small test's time is the compiler's: these flags ask for plain code, soon, instead of quick code, late.
"""

import os

FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}".strip()

from tutelage.learning.mesh import use_cores  # noqa: E402

use_cores(2)
