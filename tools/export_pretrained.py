"""Put a trained agent into the package: its configuration, and its policy in half precision.

    python tools/export_pretrained.py runs/NAME maze

Half precision keeps the file small. `tutelage eval --pretrained maze --suite paper` shows what it solves.
"""

from __future__ import annotations

import sys

import jax
import numpy as np

from tutelage.training import checkpoints
from tutelage.training.run import POLICY, PRETRAINED, Run, write_config


def main(directory: str, name: str) -> None:
    """Write both files."""
    run = Run.load(directory)
    params = jax.tree.map(lambda x: np.asarray(x, np.float16), run.params)
    saved = run.saved()
    assert saved is not None, "a run with a policy has saved it"
    write_config(PRETRAINED / name, run.config)
    checkpoints.write(PRETRAINED / name / POLICY, params, {"progress": list(saved.progress)})


if __name__ == "__main__":
    main(*sys.argv[1:])
