"""A domain of your own, from its rules to a trained agent; `docs/own_environment.md` explains it step by step.

A ferry crosses a river of ten reaches. In each the current carries it sideways, and its rudder adds −1, 0 or 1. It sees
where it is, where the dock is, and the currents of the next three reaches. Landing at the dock earns 1; running aground
ends the trip. A level is a river: some are calm, some wild, and some cannot be crossed at all.
"""
# ruff: noqa: D101

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from tutelage import (
    METHODS,
    PPO,
    Config,
    Curator,
    Curriculum,
    Design,
    Discrete,
    Domain,
    Env,
    Method,
    Network,
    Parts,
    Step,
    TestLevel,
    check_domain,
    use_cores,
)
from tutelage.learning.distributions import Categorical
from tutelage.learning.network import Head, Params, from_flax
from tutelage.learning.rollout import collect_rollout
from tutelage.training.config import Evaluation
from tutelage.types import Key

REACHES, WIDTH, STRONGEST, SIGHT = 10, 11, 2, 3


class River(NamedTuple):  # a level
    currents: jax.Array  # i32[10]: how many columns each reach carries the ferry
    dock: jax.Array  # i32[]: its column on the far bank


class Ferry(NamedTuple):  # a state
    reach: jax.Array  # i32[]
    column: jax.Array  # i32[]


@dataclass(frozen=True)
class Crossing(Env):
    actions: Discrete = Discrete(3)
    horizon: int = REACHES

    def reset(self, key: Key, scene: River) -> tuple[Ferry, jax.Array]:
        ferry = Ferry(jnp.int32(0), jnp.int32(WIDTH // 2))
        return ferry, self.observe(scene, ferry)

    def step(self, key: Key, scene: River, state: Ferry, action: jax.Array) -> tuple[Ferry, Step]:
        ferry = Ferry(state.reach + 1, state.column + scene.currents[state.reach] + action - 1)
        aground = (ferry.column < 0) | (ferry.column >= WIDTH)
        across = ferry.reach == REACHES
        reward = (across & (ferry.column == scene.dock)).astype(jnp.float32)
        return ferry, Step(self.observe(scene, ferry), reward, terminated=aground | across, truncated=jnp.bool_(False))

    def observe(self, scene: River, ferry: Ferry) -> jax.Array:  # f32[15]
        ahead = jax.lax.dynamic_slice(jnp.pad(scene.currents, (0, SIGHT)), (ferry.reach,), (SIGHT,))
        place = jnp.stack([scene.dock - ferry.column, ferry.column - WIDTH // 2])
        return jnp.concatenate([ahead / STRONGEST, place / WIDTH, jax.nn.one_hot(ferry.reach, REACHES)])


@dataclass(frozen=True)
class Survey(Env):  # the teacher's MDP: choose the dock, then the current of one reach after another
    actions: Discrete = Discrete(WIDTH)
    horizon: int = 1 + REACHES

    def reset(self, key: Key, scene: tuple[()]) -> tuple[tuple[River, jax.Array], jax.Array]:
        state = River(jnp.zeros(REACHES, jnp.int32), jnp.int32(0)), jnp.int32(0)
        return state, self.observe(key, *state)

    def step(self, key: Key, scene: tuple[()], state: Any, action: jax.Array) -> tuple[Any, Step]:
        (currents, dock), time = state
        current = action % (2 * STRONGEST + 1) - STRONGEST
        currents = jnp.where(jnp.arange(1, self.horizon) == time, current, currents)
        river, time = River(currents, jnp.where(time == 0, action, dock)), time + 1
        obs = self.observe(key, river, time)
        return (river, time), Step(obs, jnp.float32(0), time == self.horizon, jnp.bool_(False))

    def observe(self, key: Key, river: River, time: jax.Array) -> jax.Array:  # f32[27]
        clock = jax.nn.one_hot(time, self.horizon + 1)
        noise = jax.random.uniform(key, (4,))  # without it, a deterministic teacher would always build one river
        return jnp.concatenate([river.currents / STRONGEST, river.dock[None] / WIDTH, clock, noise])


@dataclass(frozen=True)
class Rivers(Design):
    def sample(self, key: Key) -> River:  # all that DR, PLR and PLR⊥ need
        currents_key, dock_key = jax.random.split(key)
        currents = jax.random.randint(currents_key, (REACHES,), -STRONGEST, STRONGEST + 1)
        return River(currents, jax.random.randint(dock_key, (), 0, WIDTH))

    editor: Survey = Survey()  # with `build`: for Minimax, PAIRED and REPAIRED

    def build(self, key: Key, state: tuple[River, jax.Array]) -> River:
        return state[0]

    def mutate(self, key: Key, level: River) -> River:  # for ACCEL: a new current in one reach
        where_key, sample_key = jax.random.split(key)
        here = jnp.arange(REACHES) == jax.random.randint(where_key, (), 0, REACHES)
        return level._replace(currents=jnp.where(here, self.sample(sample_key).currents, level.currents))

    def valid(self, level: River) -> jax.Array:  # for levels from files
        return (jnp.abs(level.currents) <= STRONGEST).all() & (level.dock >= 0) & (level.dock < WIDTH)

    def describe(self, level: River) -> dict[str, jax.Array]:  # logged during training
        return {"wildness": jnp.abs(level.currents).mean(), "passable": best_return(level)}

    def image(self, level: River) -> jax.Array:  # dock on top; wilder water is bluer
        bank = jnp.where((jnp.arange(WIDTH) == level.dock)[:, None], 0, jnp.array([90, 160, 90]))
        water = jnp.array([200, 220, 255]) - jnp.abs(level.currents)[::-1, None, None] * jnp.array([60, 60, 0])
        rows = jnp.concatenate([bank[None], jnp.broadcast_to(water, (REACHES, WIDTH, 3))])
        return rows.astype(jnp.uint8).repeat(16, 0).repeat(16, 1)


def best_return(level: River) -> jax.Array:
    """f32[]: 1 if the dock can be reached, else 0. Follows the set of reachable columns from reach to reach."""
    columns = jnp.arange(WIDTH)

    def cross(reached: jax.Array, current: jax.Array) -> tuple[jax.Array, None]:
        return (reached & (jnp.abs(columns[:, None] - columns - current) <= 1)).any(axis=1), None

    return jax.lax.scan(cross, columns == WIDTH // 2, level.currents)[0][level.dock].astype(jnp.float32)


SLALOM = TestLevel("Slalom", Crossing(), lambda key: River(jnp.array([2, 2, 2, -2, -2] * 2), jnp.int32(WIDTH // 2)))
DOMAIN = Domain(
    "ferry",
    Crossing(),
    Rivers(),
    {"tests": (SLALOM,)},
    optimal_return=lambda env, level: best_return(level),  # all test levels have the env's own time limit
    solved_above=0.0,
)


class Policy(nn.Module):
    actions: int

    @nn.compact
    def __call__(self, carry: Any, obs: jax.Array, first: jax.Array) -> tuple[Any, Head]:
        x = nn.tanh(nn.Dense(64)(nn.tanh(nn.Dense(64)(obs))))
        return carry, Head(Categorical(nn.Dense(self.actions)(x)), nn.Dense(1)(x)[..., 0])


STUDENT, TEACHER = from_flax(Policy(3)), from_flax(Policy(WIDTH))
STUDENT_PPO = PPO(learning_rate=2e-3, num_minibatches=4, entropy_coef=0.01)
TEACHER_PPO = replace(STUDENT_PPO, learning_rate=2e-4, entropy_coef=0.05)
CURATOR = Curator(capacity=512, replay_rate=0.8, min_fill=0.25, temperature=1.0)
EXAMPLES = {"PLR⊥": replace(METHODS["plr-perp"], curator=CURATOR), "PAIRED": METHODS["paired"]}


@dataclass(frozen=True)
class FerrySetup:
    """For the command line: tutelage train plr-perp --domain own_environment:FerrySetup"""

    name: ClassVar[str] = "ferry"

    def domain(self) -> Domain:
        return DOMAIN

    def student(self, domain: Domain) -> Network:
        return STUDENT

    def teacher(self, domain: Domain) -> Network:
        return TEACHER

    @classmethod
    def preset(cls, name: str, method: str) -> Config:
        record = METHODS[method]
        if record.curator:
            record = replace(record, curator=replace(record.curator, capacity=512, min_fill=0.25, temperature=1.0))
        return Config(
            record,
            cls(),
            total_steps=60 * 64 * 4 * REACHES,
            num_envs=64,
            num_steps=4 * REACHES,
            ppo=STUDENT_PPO,
            teacher_ppo=TEACHER_PPO,
            evaluation=Evaluation("tests", evaluate_every=20),
        )


@jax.jit
def crossed(params: Params) -> jax.Array:
    """f32[]: the share of the passable ones among 1,024 random rivers that a student crosses."""
    river_keys, keys = jax.random.split(jax.random.key(1), (2, 1024))
    rivers = jax.vmap(DOMAIN.design.sample)(river_keys)
    queues = jax.tree.map(lambda x: x[:, None], rivers)
    rollout, _ = collect_rollout(DOMAIN.env, STUDENT, params, keys, queues, DOMAIN.env.horizon)
    return rollout.reward.sum() / jax.vmap(best_return)(rivers).sum()


def train(method: Method, iterations: int) -> list[float]:
    """The share of rivers crossed before, during and after training."""
    parts = Parts(DOMAIN, STUDENT, STUDENT_PPO, TEACHER, TEACHER_PPO, num_envs=64, num_steps=4 * REACHES)
    curriculum = Curriculum(method, parts)
    init_key, key = jax.random.split(jax.random.key(0))
    state, history = curriculum.init(init_key), []
    for i in range(iterations + 1):
        if i > 0:
            state, _ = curriculum.iterate(state, jax.random.fold_in(key, i))
        if i % (iterations // 5) == 0:
            history.append(float(crossed(jax.tree.map(lambda x: x[0], state.students.params))))  # the first student's
            print(f"  iteration {i:3}: crosses {history[-1]:.0%} of the passable rivers")
    return history


if __name__ == "__main__":
    use_cores()
    print("This domain serves", ", ".join(check_domain(DOMAIN)))
    for name, method in EXAMPLES.items():
        print(name)
        train(method, iterations=60)
