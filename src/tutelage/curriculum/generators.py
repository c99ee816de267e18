"""Generators: where new levels come from (the slow teacher of the paper's dual curriculum).

A generator is a frozen dataclass with three methods, `init`, `propose` and `learn`. `Uniform` and `Fixed` draw levels;
`Teacher` is a policy that builds levels step by step in the design's editor and learns by PPO, rewarded at its last
step with the utility of the level it built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tutelage.curriculum.parts import Parts
from tutelage.curriculum.utilities import Utility
from tutelage.learning import mesh
from tutelage.learning import ppo as ppo_lib
from tutelage.learning.ppo import Metrics
from tutelage.learning.returns import Episodes
from tutelage.learning.rollout import collect_rollout
from tutelage.types import InputError, Key, Level, require_support


@dataclass(frozen=True)
class Generator:
    """A source of levels. Subclass it for one of your own; only `propose` is required."""

    @property
    def levels_per_env(self) -> int:
        """N: new levels of each env in one rollout. A single one is repeated; otherwise each episode takes the next."""
        return 1

    @property
    def learns(self) -> bool:
        """Whether it is a policy that learns, the teacher."""
        return False

    def check(self, parts: Parts) -> None:
        """Raise `InputError` if these parts lack something that the generator needs."""

    def init(self, parts: Parts, key: Key) -> Any:
        """The generator's state before the first iteration."""
        return ()

    def propose(self, parts: Parts, state: Any, keys: Key) -> tuple[Level, Any]:
        """(state, keys [B]) → levels for each env [B, N, ...], and a trace to learn from."""
        raise NotImplementedError

    def learn(self, parts: Parts, state: Any, trace: Any, episodes: Episodes, key: Key) -> tuple[Any, Metrics]:
        """(state, trace, students' episodes on the levels [S, B], key) → (state, metrics)."""
        return state, {}


@dataclass(frozen=True)
class Uniform(Generator):
    """Domain randomization: fresh draws from the design."""

    levels_per_env: int = 1
    """New levels of each env in one rollout, one for each episode; a single one is repeated (released code: DR draws
    a fresh level for each episode)."""

    def propose(self, parts: Parts, state: Any, keys: Key) -> tuple[Level, Any]:
        """Draw N levels for each env."""
        sample = jax.vmap(parts.domain.design.sample)
        return jax.vmap(lambda key: sample(jax.random.split(key, self.levels_per_env)))(keys), ()


@dataclass(frozen=True, eq=False)
class Fixed(Generator):
    """Draws from a given set of levels."""

    levels: Level
    """The set, leaves [M, ...]."""
    levels_per_env: int = 1
    """New levels of each env in one rollout."""

    def propose(self, parts: Parts, state: Any, keys: Key) -> tuple[Level, Any]:
        """Draw N of the M levels for each env."""
        size = jax.tree.leaves(self.levels)[0].shape[0]
        which = jax.vmap(lambda key: jax.random.randint(key, (self.levels_per_env,), 0, size))(keys)
        return jax.tree.map(lambda x: jnp.asarray(x)[which], self.levels), ()


@dataclass(frozen=True)
class Teacher(Generator):
    """A policy that builds one level for each env in the design's editor."""

    utility: Utility
    """What the teacher maximizes (paper: regret for PAIRED and REPAIRED; Minimax: adversarial)."""

    @property
    def learns(self) -> bool:
        """It does."""
        return True

    def check(self, parts: Parts) -> None:
        """A teacher needs a network, and a design with an editor."""
        require_support(parts.domain.design, "editor", "build", purpose="A method with a teacher")
        if parts.teacher is None:
            raise InputError("This method's generator is a teacher: give Parts a network for it (Parts.teacher).")

    def init(self, parts: Parts, key: Key) -> Any:
        """An untrained teacher."""
        assert parts.teacher is not None
        editor = parts.domain.design.editor
        obs = jax.eval_shape(lambda: editor.reset(key, editor.load(()))[1])
        example = jax.tree.map(lambda x: jnp.zeros((1, 1, *x.shape), x.dtype), obs)
        return ppo_lib.init(parts.teacher_ppo, parts.teacher, key, example)

    def propose(self, parts: Parts, state: ppo_lib.Learner, keys: Key) -> tuple[Level, Any]:
        """Build a level in each of B editors; the trace is the teacher's rollout."""
        assert parts.teacher is not None
        design = parts.domain.design
        weights = parts.teacher.pack(state.params)
        play_keys, build_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        rollout, built = collect_rollout(design.editor, parts.teacher, weights, play_keys, (), design.editor.horizon)
        levels = jax.vmap(design.build)(build_keys, built)
        return jax.tree.map(lambda x: x[:, None], levels), rollout

    def learn(
        self, parts: Parts, state: ppo_lib.Learner, trace: Any, episodes: Episodes, key: Key
    ) -> tuple[Any, Metrics]:
        """One PPO update from the utility of each level, a reward at the teacher's last step."""
        assert parts.teacher is not None
        ppo, utility = parts.teacher_ppo, jax.vmap(self.utility, 1)(episodes)
        rollout = trace._replace(reward=jnp.zeros_like(trace.reward).at[-1].set(utility))
        learner = ppo_lib.update_return_stats(ppo, state, rollout)
        estimate = ppo_lib.estimate(ppo, learner, rollout)
        learner, metrics = ppo_lib.update(ppo, parts.teacher, learner, rollout, estimate, key)
        return learner, metrics | {"utility": mesh.mean(utility.mean())}
