"""One of several processes that share a run: python distributed_training.py PORT PROCESSES ID VERB DIRECTORY METHOD…"""

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
EVERYTHING = "repaired with edits"
"""A teacher, two students, their buffers and children: all that can be saved."""


def config(method: str, iterations: int = 6):
    """Two devices, which may be in one process or in two; all that is ever written is."""
    from examples.own_environment import FerrySetup

    from tutelage.curriculum.methods import METHODS
    from tutelage.training.config import Storage, with_curator

    found = FerrySetup.preset("tiny", "repaired" if method == EVERYTHING else method)
    record = replace(found.method, edits=METHODS["accel"].edits) if method == EVERYTHING else found.method
    return replace(
        found,
        method=with_curator(record, capacity=16, min_fill=0.5),
        num_envs=8,
        num_steps=20,
        devices=2,
        total_steps=iterations * 8 * 20,
        evaluation=replace(found.evaluation, evaluate_every=2, episodes=2, final_episodes=3),
        storage=Storage(checkpoint_every=2, snapshot_every=3, snapshot_levels=4),
    )


def main(port: str, processes: str, number: str, verb: str, directory: str, *methods: str) -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    from tutelage import resume, train, use_cores, use_processes

    use_cores(1)
    use_processes(f"127.0.0.1:{port}", int(processes), int(number))
    for method in methods:
        if verb == "train":
            train(config(method), Path(directory) / method, quiet=True)
        else:
            resume(Path(directory) / method, allow=["examples.own_environment"], quiet=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
