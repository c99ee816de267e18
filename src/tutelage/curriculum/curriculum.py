"""A method ready to run: compiled for a mesh of devices, one iteration at a time.

curriculum = Curriculum(PLR_PERP, Parts(maze.domain(), maze_student()))
init_key, key = jax.random.split(jax.random.key(0))
state = curriculum.init(init_key)
for i in range(1000):
    state, metrics = curriculum.iterate(state, jax.random.fold_in(key, i))
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tutelage.curriculum.methods import Method
from tutelage.curriculum.parts import Parts
from tutelage.curriculum.scores import Need, needs_of
from tutelage.curriculum.step import State, can_replay, init, step, wants_replay
from tutelage.learning import mesh
from tutelage.learning.ppo import Metrics
from tutelage.types import InputError, Key, require_support

_FINITE = {"student": "finite", "antagonist": "antagonist/finite", "teacher": "teacher/finite"}
"""The metric of each learner that is 0 if its update was not finite."""


class NotFiniteError(ArithmeticError):
    """A reward, value, loss or gradient was infinite or NaN, and the update was left out.

    `state` is the state after the iteration, in which the learner that failed is unchanged.
    """

    def __init__(self, message: str, state: State) -> None:
        super().__init__(message)
        self.state = state


class Curriculum:
    """A method and its parts, compiled: two programs, `explore` and `exploit`, of which `iterate` runs one."""

    def __init__(self, method: Method, parts: Parts, devices: int | None = None) -> None:
        """Prepare to run on as many devices as share the levels evenly, at most `devices`."""
        method.generator.check(parts)
        if method.edits:
            require_support(parts.domain.design, "mutate", purpose="A method with edits")
        needs = needs_of(method.curator.score) if method.curator else frozenset()
        if Need.ORACLE in needs and parts.domain.optimal_return is None:
            raise InputError("This score needs a domain with an oracle (Domain.optimal_return); choose another score.")
        if Need.SOLVED in needs and parts.domain.solved_above is None:
            raise InputError("This score needs a domain that says what is solved (Domain.solved_above).")
        self.method, self.parts = method, parts
        self.mesh = mesh.make_mesh(parts.num_envs, devices)
        self._everywhere = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec())
        self.init_program = jax.jit(partial(init, method, parts))
        self._wants_replay = jax.jit(jax.vmap(partial(wants_replay, method)))
        self._can_replay = jax.jit(partial(can_replay, method))
        self.explore, self.exploit = (
            jax.jit(
                mesh.on_devices(lambda state, key, replay=replay: step(method, parts, state, key, replay), self.mesh),
                donate_argnums=0,
            )
            for replay in (False, True)
        )
        self._ahead: dict[bool, Future[jax.stages.Compiled]] = {}

    def init(self, key: Key) -> State:
        """The state before the first iteration, the same on every device."""
        return self.place(self.init_program(key))

    def place(self, state: State) -> State:
        """A state from elsewhere, the same on every device."""
        return jax.block_until_ready(jax.device_put(state, self._everywhere))

    def metric_names(self, state: State, key: Key) -> set[str]:
        """The names of all metrics that an iteration may give."""
        state = self._placed(state)
        return {"replay"}.union(*(jax.eval_shape(program, state, key)[1] for program in self._programs.values()))

    def compile_ahead(self, state: State, key: Key) -> None:
        """Begin to compile both programs in the background, `explore` first. `dispatch` waits for the one it needs.

        With several processes this does nothing: each compiles at its first `dispatch`, all in the same order.

        Args:
            state: the shapes of a state.
            key: as in `iterate`.
        """
        if self._ahead or jax.process_count() > 1:
            return
        state, pool = self._placed(state), ThreadPoolExecutor(1)
        for replay, program in self._programs.items():
            self._ahead[replay] = pool.submit(_compile, program, state, key)
        pool.shutdown(wait=False)

    @property
    def _programs(self) -> dict[bool, Any]:
        """By whether they replay: those that the method runs."""
        return {False: self.explore} | ({True: self.exploit} if self.method.replays else {})

    def _placed(self, state: State) -> State:
        """Shapes placed as `init` places a state, so that the programs are traced once."""
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._everywhere), state)

    def iterate(self, state: State, key: Key) -> tuple[State, Metrics]:
        """One iteration. The given state is donated and cannot be used again. Equal keys give equal runs.

        Raises:
            NotFiniteError: if an update was not finite. It has the state to continue with.
        """
        replay = bool(self.wants_replay(key[None])[0]) and self.can_replay(state)
        state, metrics = self.dispatch(state, key, replay)
        check_finite(metrics, state)
        return state, metrics

    def wants_replay(self, keys: Key) -> np.ndarray:
        """bool[N]: which of the iterations with these keys replay if they can."""
        return np.asarray(self._wants_replay(keys)) if self.method.replays else np.zeros(len(keys), bool)

    def can_replay(self, state: State) -> bool:
        """Whether the buffers are full enough; it stays true. This waits for the state."""
        return bool(mesh.read(self._can_replay(state)))

    def dispatch(self, state: State, key: Key, replay: bool) -> tuple[State, Metrics]:
        """Start one iteration without waiting for it. The given state is donated; the caller calls `check_finite`."""
        program = self._ahead[replay].result() if self._ahead else self._programs[replay]
        state, metrics = program(state, key)
        return state, metrics | {"replay": jnp.float32(replay)}


def _compile(program: Any, state: State, key: Key) -> jax.stages.Compiled:
    return program.lower(state, key).compile()


def check_finite(metrics: Mapping[str, Any], state: State) -> None:
    """Raise `NotFiniteError` if an update of this iteration was not finite."""
    for who, name in _FINITE.items():
        if name in metrics and not metrics[name]:
            raise NotFiniteError(
                f"A reward, value, loss or gradient of the {who} is not finite, so nothing was learned from it. A "
                "lower learning rate, a lower max_grad_norm or rewards of a smaller scale usually help.",
                state,
            )
