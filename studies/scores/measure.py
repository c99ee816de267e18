"""Which score finds the levels of high regret? Rank correlations with true regret over the course of training.

    python studies/scores/measure.py runs/NAME… --out studies/scores/correlations.csv

For every archived checkpoint of each run (`tutelage train … --archive-every 120`) the student visits two sets of levels
once, as in training: fresh ones from the design, and those in its buffer. From the same visits all scores are computed,
and some variants of MaxMC that say what stands between it and regret. True regret is the oracle's optimal return less
the student's mean return over several visits more, so that no score shares its noise.

The file has a row for each run, checkpoint, set of levels and score: Spearman's ρ over all levels and over those that
can be solved, and the mean true regret of the tenth of levels that the score ranks highest, beside that of all levels
and of the tenth with the highest true regret.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tutelage.analysis.statistics import rank_correlation
from tutelage.curriculum import scores
from tutelage.curriculum.scores import Evidence
from tutelage.curriculum.step import State
from tutelage.files import csv_text, write_atomically
from tutelage.learning import ppo as ppo_lib
from tutelage.learning import returns
from tutelage.learning.rollout import collect_rollout
from tutelage.training import checkpoints
from tutelage.training.compilation import keep_programs
from tutelage.training.config import Config
from tutelage.training.run import ARCHIVE, Run
from tutelage.types import Key, Level

COLUMNS = (
    *("run", "method", "trained_with", "seed", "steps", "updates", "levels", "number", "score"),
    *("rho", "rho_solvable", "regret_of_top_tenth", "regret_of_all", "regret_of_worst_tenth"),
)


def variants(config: Config[Any]) -> dict[str, Callable[[Evidence], Float[Array, ""]]]:
    """The library's scores of one student, and MaxMC with one thing changed at a time."""
    gamma, limit = config.ppo.gamma, config.setup.max_steps

    def discounted(undiscounted: Array) -> Array:
        """A maze's return R = 1 − L / T_max tells the length L, and so what it is worth at the start."""
        return undiscounted * gamma ** ((1 - undiscounted) * limit - 1)

    def start_values(evidence: Evidence) -> Array:
        return jnp.sum(evidence.value * evidence.first) / evidence.first.sum()

    return {
        "max_mc": scores.max_mc,
        "max_mc, R_max discounted": lambda e: jnp.mean(discounted(e.best_return) - e.value),
        "max_mc, R_max by the oracle": lambda e: jnp.mean(e.optimal_return - e.value),
        "max_mc, first states only": lambda e: e.best_return - start_values(e),
        "max_mc, first states only, R_max discounted": lambda e: discounted(e.best_return) - start_values(e),
        "max_mc, mean return for V": lambda e: e.best_return - e.episodes.mean_return,
        "positive_value_loss": scores.positive_value_loss,
        "l1_value_loss": scores.l1_value_loss,
        "learnability": scores.learnability,
        "true_regret, same visit": scores.true_regret,
    }


class Visits:
    """A student's visits of levels, compiled once for a configuration."""

    def __init__(self, config: Config[Any], batch: int = 128) -> None:
        self.config, self.batch = config, batch
        self.curriculum = config.curriculum()
        self.shapes = jax.eval_shape(self.curriculum.init_program, jax.random.key(0))
        self.names = list(variants(config))
        self._visit = jax.jit(self._visited)
        self._sample = jax.jit(jax.vmap(self.curriculum.parts.domain.design.sample))

    def fresh(self, key: Key, number: int) -> Level:
        """Levels [number, ...] as the design draws them."""
        return self._sample(jax.random.split(key, number))

    def __call__(self, state: State, levels: Level, best: np.ndarray, key: Key) -> tuple[np.ndarray, ...]:
        """One visit of levels [N, ...] whose R_max so far is `best` [N]: scores [N, V], mean and optimal return [N]."""
        number, found = len(best), []
        student = jax.tree.map(lambda x: x[0], state.students)
        for start in range(0, number, self.batch):
            some = np.minimum(np.arange(start, start + self.batch), number - 1)
            keys = jax.random.split(jax.random.fold_in(key, start), self.batch)
            found.append(
                jax.device_get(self._visit(student, jax.tree.map(lambda x, i=some: x[i], levels), best[some], keys))
            )
        return tuple(np.concatenate(each)[:number].astype(np.float64) for each in zip(*found, strict=True))

    def _visited(self, student: ppo_lib.Learner, levels: Level, best: Array, keys: Key) -> tuple[Array, ...]:
        parts = self.curriculum.parts
        env, network = parts.domain.env, parts.student
        queues = jax.tree.map(lambda x: x[:, None], levels)
        rollout, _ = collect_rollout(env, network, network.pack(student.params), keys, queues, parts.num_steps)
        estimate = ppo_lib.estimate(parts.ppo, student, rollout)
        episodes = jax.vmap(returns.episodes, (1, 1))(rollout.reward, rollout.done)
        optimal = jax.vmap(partial(parts.domain.optimal_return, env))(levels)
        evidence = Evidence(
            first=rollout.first.T,
            value=rollout.value.T,
            advantage=estimate.advantage.T,
            episodes=episodes,
            best_return=jnp.maximum(best, episodes.best_return),
            regret=jnp.full_like(optimal, jnp.nan),
            optimal_return=optimal,
        )
        by_score = [jax.vmap(score)(evidence) for score in variants(self.config).values()]
        return jnp.stack(by_score, 1), episodes.mean_return, optimal


def measure(run: Run, visits: Visits, number: int, repeats: int, key: Key) -> Iterator[dict[str, Any]]:
    """The rows of one run, checkpoint after checkpoint."""
    for path in reversed(checkpoints.saved(run.directory / ARCHIVE)):
        saved = checkpoints.read(path)
        state = checkpoints.fit(saved.arrays, visits.shapes, path)
        buffer = jax.tree.map(lambda x: np.asarray(x[0]), state.buffers)
        kept = np.random.default_rng(0).permutation(int(buffer.size))[:number]
        level_key, score_key, *regret_keys = jax.random.split(
            jax.random.fold_in(key, saved.about["progress"][0]), 2 + repeats
        )
        sets = {
            "fresh": (visits.fresh(level_key, number), np.full(number, -np.inf, np.float32)),
            "buffer": (jax.tree.map(lambda x, i=kept: x[i], buffer.entries.level), buffer.entries.best_return[kept]),
        }
        for name, (levels, best) in sets.items():
            if not best.size:
                continue
            by_score, _, optimal = visits(state, levels, best, score_key)
            regret = optimal - np.mean([visits(state, levels, best, each)[1] for each in regret_keys], axis=0)
            solvable, top = optimal > 0, max(1, len(regret) // 10)
            for score, values in zip(visits.names, by_score.T, strict=True):
                yield {
                    "run": run.directory.name,
                    "method": run.config.method.name,
                    "trained_with": run.config.method.curator.score.__name__,
                    "seed": run.config.seed,
                    "steps": saved.about["progress"][1],
                    "updates": saved.about["progress"][2],
                    "levels": name,
                    "number": len(regret),
                    "score": score,
                    "rho": round(rank_correlation(values, regret).rho, 4),
                    "rho_solvable": round(rank_correlation(values[solvable], regret[solvable]).rho, 4),
                    "regret_of_top_tenth": round(float(regret[np.argsort(-values, kind="stable")[:top]].mean()), 5),
                    "regret_of_all": round(float(regret.mean()), 5),
                    "regret_of_worst_tenth": round(float(np.sort(regret)[-top:].mean()), 5),
                }


def main() -> None:
    """Measure all runs and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run directories with archived checkpoints")
    parser.add_argument("--out", type=Path, required=True, help="the CSV file to write")
    parser.add_argument("--levels", type=int, default=512, help="levels of each set")
    parser.add_argument("--visits", type=int, default=6, help="visits that true regret is averaged over")
    options = parser.parse_args()
    keep_programs()
    rows: list[dict[str, Any]] = []
    visits: Visits | None = None
    for directory in options.runs:
        run = Run.load(directory)
        if visits is None or visits.config.setup != run.config.setup or visits.config.method != run.config.method:
            visits = Visits(run.config)
        for row in measure(run, visits, options.levels, options.visits, jax.random.key(0)):
            rows.append(row)
            if row["score"] == "max_mc":
                print(f"{row['run']}, {row['steps']:,} steps, {row['levels']}: ρ of MaxMC {row['rho']:.2f}", flush=True)
        write_atomically(options.out, csv_text(rows, COLUMNS))


if __name__ == "__main__":
    main()
