"""Runs with levels and an untrained policy, for tests of what shows them."""

import json
from dataclasses import replace
from pathlib import Path

import jax
from made_up_runs import made_up_config, write_run

from tutelage.files import csv_text, read_csv, write_atomically
from tutelage.learning.policy import fresh_params
from tutelage.training import checkpoints
from tutelage.training.run import CONFIG, METRICS, POLICY, Run


def entry(run: Run, name: int, score: float | None, *, parent=-1, generation=0, oracle=True) -> dict:
    design = run.domain.design
    level = design.sample(jax.random.key(name))
    about = {key: value.item() for key, value in design.describe(level).items()}
    return {
        "id": name,
        "parent": parent,
        "generation": generation,
        "score": score,
        "best_return": 0.9,
        "age": 1,
        "return": 0.05 * name,
        "optimal_return": 0.9 if oracle else None,
        "about": about,
        "level": design.to_json(level),
    }


def write_snapshot(run: Run, iteration: int, entries: list[dict], source: str = "buffer") -> None:
    place = {"iteration": iteration, "steps": 1000 * iteration, "updates": 5 * iteration}
    about = {"source": source, "size": len(entries), "capacity": 32}
    path = run.directory / "levels" / f"{iteration:08}.json"
    write_atomically(path, json.dumps(place | about | {"entries": entries}))


def write_curriculum(run: Run) -> None:
    """Two snapshots of a buffer, in which level 5 comes from 3, 3 from 1; between them 1 left the buffer."""
    write_snapshot(run, 10, [entry(run, 1, 0.5), entry(run, 2, 0.4)])
    family = [entry(run, 5, 0.9, parent=3, generation=2), entry(run, 3, 0.7, parent=1, generation=1)]
    write_snapshot(run, 20, [*family, entry(run, 2, 0.1)])


def add_complexity(run: Run) -> None:
    rows = read_csv(run.directory / METRICS)
    measured = {"new/action_complexity": 3, "new/blocks": 20, "new/solved_shortest_path": 9}
    more = [row | measured for row in rows]
    write_atomically(run.directory / METRICS, csv_text(more, [*more[0]]))


def complete_run(directory: Path, method: str, seed: int = 0, **options) -> Run:
    """A run with everything: levels in lineages, complexity metrics, and an untrained policy."""
    run = write_run(directory, method, seed, **options)
    write_curriculum(run)
    add_complexity(run)
    checkpoints.write(run.directory / POLICY, fresh_params(run.domain, run.network, jax.random.key(seed)), {})
    return run


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'& $\\frac{ --> ]]> {{ 7 * 7 }}"


def hostile_run(directory: Path) -> Run:
    """A run with names that a careless page would execute."""
    config = made_up_config("plr", 0)
    config = replace(config, evaluation=replace(config.evaluation, suite=HOSTILE))
    run = write_run(directory, "plr", suite=HOSTILE, levels=[HOSTILE, "harmless"], config=config)
    bad = entry(run, 1, 0.5)
    bad["about"] |= {HOSTILE: HOSTILE}
    write_snapshot(run, 10, [bad, entry(run, 2, 0.4)])
    written = json.loads((directory / CONFIG).read_text())
    written["packages"] |= {HOSTILE: HOSTILE}
    write_atomically(directory / CONFIG, json.dumps(written))
    return Run.load(directory)
