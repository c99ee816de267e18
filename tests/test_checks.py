"""`check_domain`: the mazes and a toy pass, and each of many broken copies of the toy gets a sentence of its own."""

import itertools
import json
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tutelage import types
from tutelage.analysis.policy_results import COLUMNS
from tutelage.analysis.results import WHO
from tutelage.checks import check_design, check_domain, check_env, check_returns, check_suites
from tutelage.curriculum.methods import METHODS
from tutelage.domains import maze
from tutelage.training.run import CRC
from tutelage.training.run import EPISODE_COLUMNS as EPISODES
from tutelage.training.run import EVALUATION_COLUMNS as EVALUATIONS
from tutelage.types import (
    Box,
    Design,
    Discrete,
    Domain,
    Env,
    InputError,
    Step,
    TestLevel,
    require_support,
    supports,
)

LENGTH = 4


class Level(NamedTuple):
    """A corridor with a treasure at one end and a pit at the other."""

    start: jax.Array  # i32[]
    right: jax.Array  # bool[]: where the treasure is


class State(NamedTuple):
    place: jax.Array  # i32[]
    time: jax.Array  # i32[]


@dataclass(frozen=True)
class Walk(Env):
    """Step left or right; the pit and the treasure end an episode, and so does the time."""

    actions: Discrete = Discrete(2)
    horizon: int = 6

    def reset(self, key, scene):
        state = State(scene.start, jnp.int32(0))
        return state, self.look(state)

    def step(self, key, scene, state, action):
        state = State(state.place + 2 * action - 1, state.time + 1)
        goal = jnp.where(scene.right, LENGTH, 0)
        terminated = (state.place <= 0) | (state.place >= LENGTH)
        return state, Step(self.look(state), self.earn(state, goal), terminated, state.time >= self.horizon)

    def look(self, state):
        return {"place": state.place.astype(jnp.float32)}

    def earn(self, state, goal):
        return jnp.where(state.place == goal, 1.0, 0.0)


@dataclass(frozen=True)
class Steer(Walk):
    """The same with real actions, which are rounded."""

    actions: Box = Box((-1.0,), (1.0,))

    def step(self, key, scene, state, action):
        return super().step(key, scene, state, (action[0] > 0).astype(jnp.int32))


class Plan(NamedTuple):
    start: jax.Array  # i32[]
    time: jax.Array  # i32[]


@dataclass(frozen=True)
class Editor(Env):
    """Three steps, each of which moves the start."""

    actions: Discrete = Discrete(3)
    horizon: int = 3

    def reset(self, key, scene):
        return Plan(jnp.int32(1), jnp.int32(0)), jnp.zeros(2)

    def step(self, key, scene, state, action):
        state = Plan(jnp.minimum(state.start + action, LENGTH - 1), state.time + 1)
        done = state.time >= self.horizon
        return state, Step(jnp.stack(state).astype(jnp.float32), jnp.float32(0), done, jnp.bool_(False))


@dataclass(frozen=True)
class Corridors(Design):
    editor: Env = Editor()

    def sample(self, key):
        start_key, side_key = jax.random.split(key)
        return Level(jax.random.randint(start_key, (), 1, LENGTH), jax.random.bernoulli(side_key))

    def build(self, key, state):
        return Level(state.start, jnp.bool_(True))

    def mutate(self, key, level):
        return level._replace(start=jax.random.randint(key, (), 1, LENGTH))

    def valid(self, level):
        return (level.start > 0) & (level.start < LENGTH)

    def describe(self, level):
        return {"distance": jnp.where(level.right, LENGTH - level.start, level.start)}

    def image(self, level):
        return jnp.zeros((2, LENGTH, 3), jnp.uint8).at[0, level.start].set(255)


def best(env, level):
    return jnp.float32(1)


WALK, DESIGN = Walk(), Corridors()
ONE = TestLevel("one", WALK, lambda _: Level(jnp.int32(1), jnp.bool_(True)))
DOMAIN = Domain("walk", WALK, DESIGN, {"tests": (ONE,)}, best, 0.0)


@pytest.mark.slow
def test_a_domain_that_keeps_the_contracts_passes():
    check_domain(DOMAIN)


@dataclass(frozen=True)
class OnlySample(Design):
    """All that domain randomization and PLR need."""

    def sample(self, key):
        return DESIGN.sample(key)


class Mutates(OnlySample):
    def mutate(self, key, level):
        return DESIGN.mutate(key, level)


class Teaches(OnlySample):
    editor = Editor()

    def build(self, key, state):
        return DESIGN.build(key, state)


REPLAY, TEACHER = ("dr", "plr", "plr-perp"), ("minimax", "paired", "repaired")


@pytest.mark.parametrize(
    ("design", "methods"),
    [
        (DESIGN, (*REPLAY, *TEACHER, "accel")),
        (OnlySample(), REPLAY),
        (Mutates(), (*REPLAY, "accel")),
        (Teaches(), (*REPLAY, *TEACHER)),
    ],
)
def test_a_domain_serves_the_methods_that_its_design_has_members_for(design, methods):
    assert check_domain(Domain("walk", WALK, design)) == methods
    assert set(methods) <= set(METHODS)


@pytest.mark.slow
def test_every_method_is_served_by_a_full_design():
    assert set(check_domain(DOMAIN)) == set(METHODS)


def test_defaults_of_a_design():
    design, level = OnlySample(), DESIGN.sample(jax.random.key(0))
    assert bool(design.valid(level))
    assert design.describe(level) == {}
    assert design.from_json(json.loads(json.dumps(design.to_json(level)))) == jax.tree.map(np.asarray, level)
    for members in (("editor", "build"), ("mutate",), ("image",)):
        assert supports(DESIGN, *members)
        assert not supports(design, *members)


def test_a_missing_member_is_named_with_what_needs_it():
    require_support(DESIGN, "editor", "build", purpose="PAIRED")
    with pytest.raises(InputError) as raised:
        require_support(OnlySample(), "editor", "build", purpose="PAIRED")
    assert "PAIRED needs a design with `editor` and `build`, which OnlySample lacks; define" in str(raised.value)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "is a list of 2 arrays; got None"),
        ([1], "is a list of 2 arrays; got [1]"),
        ([[1], True], "should have shape (), not (1,)"),
        ([1.5, True], "should hold numbers of type int32; got 1.5"),
        ([float("nan"), True], "should hold numbers of type int32; got nan"),
        ([2**40, True], "should hold numbers of type int32; got 1099511627776"),
        (["one", True], "numbers"),
        ([{}, True], "numbers"),
        ([[[1, 2], [3]], True], "numbers in lists of equal lengths"),
        ([1, 2], "should hold numbers of type bool; got 2"),
    ],
)
def test_a_level_that_is_none_is_refused_with_a_sentence(value, sentence):
    with pytest.raises(InputError) as raised:
        OnlySample().from_json(value)
    assert sentence in str(raised.value)


def test_fields_of_an_env_need_no_defaults():
    @dataclass(frozen=True)
    class Fields(Env):
        actions: Discrete
        horizon: int

        def reset(self, key, scene):
            return WALK.reset(key, scene)

        def step(self, key, scene, state, action):
            return WALK.step(key, scene, state, action)

    check_env(Fields(Discrete(2), 6), DESIGN.sample)


def test_real_actions_pass():
    check_env(Steer(), DESIGN.sample)


def test_returns_need_no_oracle():
    check_returns(replace(DOMAIN, optimal_return=None, solved_above=None))


@pytest.mark.slow
def test_the_mazes_pass():
    check_domain(maze.domain())


CALLS = itertools.count()  # a broken environment's impure memory


def env(**methods):
    """A copy of `Walk` with some methods or fields of its own."""
    return type("Broken", (Walk,), methods)()


def stepping(change):
    """A copy of `Walk` whose `step` gives `change(state, step, action)`."""
    return env(step=lambda self, key, scene, state, action: change(*Walk.step(self, key, scene, state, action), action))


def step_with(**changes):
    """A copy of `Walk` with other parts in its `Step`s, each made from the whole."""
    return stepping(lambda state, step, action: (state, step._replace(**{k: f(step) for k, f in changes.items()})))


def restarting(self, key, scene, state, action):
    later, step = Walk.step(self, key, scene, state, action)
    begun, obs = self.reset(key, scene)
    done = step.terminated | step.truncated
    return jax.tree.map(lambda a, b: jnp.where(done, a, b), (begun, step._replace(obs=obs)), (later, step))


def callback(self, state):
    def slow(place):
        return np.float32(place)

    return {"place": jax.pure_callback(slow, jax.ShapeDtypeStruct((), jnp.float32), state.place)}


@jax.custom_batching.custom_vmap
def oddly_batched(x):
    return x


@oddly_batched.def_vmap
def _(size, batched, x):
    return x + 1, True


def leave_behind(self, state):
    """Look at the last call's state."""
    before = getattr(type(self), "memory", jnp.float32(0))
    type(self).memory = state.place.astype(jnp.float32)
    return {"place": before + 0}


ENVIRONMENTS = {
    "no reset": (env(reset=Env.reset), "`env` has no `reset`; define it in Broken as Env"),
    "not an env": (object(), "`env` has no `actions`; define it in object"),
    "actions": (Walk(actions=2), "`env.actions` is 2; make it a Discrete"),
    "no actions": (Walk(actions=Discrete(0)), "`env.actions` is Discrete(n=0); make it a Discrete of at least one"),
    "horizon": (Walk(horizon=2.5), "`env.horizon` is 2.5; make it an int"),
    "load": (env(load=lambda self, level: level.treasure), "`env.load` failed with AttributeError: 'Level' object"),
    "no pair": (env(reset=lambda *_: jnp.zeros(3)), "`env.reset` gives ShapeDtypeStruct; let it give the pair"),
    "no Step": (env(step=lambda *_: (1, 2, 3)), "`env.step` does not give the pair (state, Step)"),
    "a name as state": (env(reset=lambda *_: ("start", 0)), "`env.reset` failed with TypeError"),
    "state's dtype": (
        stepping(lambda state, step, _: (state._replace(time=state.time * 1.0), step)),
        "`env.reset` gives: its leaf `.time` is weakly typed float32[] instead of int32[]; make both alike",
    ),
    "state's shape": (
        stepping(lambda state, step, _: (state._replace(place=state.place[None]), step)),
        "its leaf `.place` is int32[1] instead of int32[]",
    ),
    "weak type": (
        env(
            reset=lambda self, key, scene: (State(scene.start, 0), {"place": jnp.float32(0)}),
            step=lambda self, key, scene, state, action: Walk.step(
                self, key, scene, state._replace(time=jnp.int32(state.time)), action
            ),
        ),
        "its leaf `.time` is int32[] instead of weakly typed int32[]",
    ),
    "state's structure": (
        stepping(lambda state, step, _: (tuple(state), step)),
        "it lacks the leaf `.place`",
    ),
    "kind of pytree": (
        env(
            reset=lambda self, key, scene: ([scene.start], {"place": jnp.float32(0)}),
            step=lambda self, key, scene, state, action: (
                (state[0],),
                Step({"place": jnp.float32(0)}, jnp.float32(0), jnp.bool_(True), jnp.bool_(False)),
            ),
        ),
        "it is a tuple instead of a list",
    ),
    "an observation's leaf": (
        step_with(obs=lambda step: step.obs | {"time": jnp.float32(0)}),
        "The observation that `env.step` gives is not of the type that `env.reset` gives: it has a leaf `['time']` too",
    ),
    "integer reward": (
        step_with(reward=lambda step: step.reward.astype(jnp.int32)),
        "`env.step` gives a `reward` of type int32[]; let it be a scalar float32[]",
    ),
    "reward's shape": (step_with(reward=lambda step: step.reward[None]), "float32[1]; let it be a scalar"),
    "terminated": (step_with(terminated=lambda step: step.reward), "float32[]; let it be a scalar bool[]"),
    "truncated": (step_with(truncated=lambda step: jnp.int32(0)), "a `truncated` of type int32[]; let it be a scalar"),
    "Python if": (
        stepping(lambda state, step, action: (state, step) if action > 0 else (step, state)),
        "`env.step` lets Python decide on an array's value",
    ),
    "Python index": (stepping(lambda state, step, action: (state, [step][action])), "`env.step` lets Python decide"),
    "numpy": (
        env(look=lambda self, state: {"place": np.sin(state.place)}),
        "`env.reset` hands a traced array to NumPy",
    ),
    "changing shape": (
        env(load=lambda self, level: jnp.arange(3)[jnp.arange(3) < level.start]),
        "`env.load` makes an array whose shape depends on values",
    ),
    "left behind": (env(look=leave_behind), "uses an array that an earlier call left behind"),
    "np.random": (
        step_with(reward=lambda step: step.reward + jnp.float32(np.random.default_rng().random())),
        "`env.step` gave two different results for the same arguments, in its leaf `[0][1].reward`; draw everything",
    ),
    "a counter": (
        env(look=lambda self, state: {"place": jnp.float32(next(CALLS))}),
        "`env.reset` gave two different results for the same arguments, in its leaf `[1]['place']`",
    ),
    "another way when traced": (
        env(load=lambda self, level: level._replace(start=level.start + isinstance(level.start, jax.core.Tracer))),
        "`env.load` gives another result inside `jax.jit`, in its leaf `.start`",
    ),
    "callback": (env(look=callback), "`env.reset` failed with NotImplementedError: vmap"),
    "odd batching": (
        env(look=lambda self, state: {"place": oddly_batched(state.place.astype(jnp.float32))}),
        "`env.reset` gives another result inside `jax.vmap`, in its leaf `[1]['place']`",
    ),
    "reward NaN": (
        stepping(lambda state, step, action: (state, step._replace(reward=jnp.log(-1.0 * action)))),
        "`env.step` gave a reward that is infinite or not a number",
    ),
    "bounds": (
        type(
            "Broken",
            (Steer,),
            {
                "step": lambda self, key, scene, state, action: (
                    lambda state, step: (state, step._replace(obs={"place": jnp.arctanh(action[0])}))
                )(*Steer.step(self, key, scene, state, action))
            },
        )(),
        "`env.step` gave an observation whose leaf `['place']` is infinite",
    ),
    "never over": (
        step_with(truncated=lambda step: jnp.bool_(False)),
        "An episode of `env` had not ended after `env.horizon` = 6 steps; let `step` say truncated",
    ),
    "always over": (
        step_with(terminated=lambda step: jnp.bool_(True)),
        "Every step of `env` said that the episode was over, though `env.horizon` is 6",
    ),
    "not distinguished": (
        step_with(
            terminated=lambda step: step.terminated | step.truncated,
            truncated=lambda step: step.terminated | step.truncated,
        ),
        "Every episode of `env` ended both terminated and truncated",
    ),
    "auto-reset": (env(step=restarting), "went back to the state that it began with; leave out the auto-reset"),
}


@pytest.mark.parametrize(("broken", "sentence"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_a_broken_environment_gets_a_sentence(broken, sentence):
    with pytest.raises(InputError) as raised:
        check_env(broken, DESIGN.sample)
    assert sentence in str(raised.value)


def design(**methods):
    """A copy of `Corridors` with some methods of its own."""
    return type("Broken", (Corridors,), methods)()


def editor(**methods):
    """A copy of `Corridors` whose editor has some methods of its own."""
    return Corridors(type("Broken", (Editor,), methods)())


DESIGNS = {
    "no sample": (design(sample=Design.sample), "`design` has no `sample`; define it in Broken as Design"),
    "not a design": (object(), "`design` is of type object; let object inherit from Design"),
    "no editor": (Corridors(None), "`design` has one of `editor` and `build`; define both"),
    "no build": (design(build=None), "`design` has one of `editor` and `build`; define both"),
    "sample": (design(sample=lambda self, key: Level(1)), "`design.sample` failed with TypeError"),
    "valid": (
        design(valid=lambda self, level: level.start),
        "`design.valid` gives int32[]; let it give a single bool[]",
    ),
    "describe": (
        design(describe=lambda self, level: [level.start]),
        "`design.describe` gives list; let it give a dict",
    ),
    "measure": (
        design(describe=lambda self, level: {"where": jnp.zeros(2)}),
        "`design.describe` gives float32[2] for 'where'; let each be a single real number",
    ),
    "metric's name": (
        design(describe=lambda self, level: {"length": level.start, "solved_start": level.start, "start": level.start}),
        "Rename ['length', 'solved_start'] in design.describe",
    ),
    "impure": (
        design(mutate=lambda self, key, level: level._replace(start=jnp.int32(next(CALLS)))),
        "`design.mutate` gave two different results for the same arguments, in its leaf `.start`",
    ),
    "equal levels": (
        design(sample=lambda self, key: Level(jnp.int32(1), jnp.bool_(True))),
        "`design.sample` made 64 equal levels in a row; let it draw from its key",
    ),
    "no levels": (
        design(
            sample=lambda self, key: (),
            valid=lambda *_: jnp.bool_(True),
            mutate=lambda *_: (),
            build=lambda *_: (),
            describe=lambda *_: {},
        ),
        "`design.sample` made 64 equal levels",
    ),
    "invalid sample": (
        design(sample=lambda self, key: Level(jax.random.randint(key, (), 0, 9), jnp.bool_(True))),
        "`design.sample` made a level that `design.valid` refuses",
    ),
    "mutant's type": (
        design(mutate=lambda self, key, level: level._replace(start=level.start / 2)),
        "A level that `design.mutate` gives is not of the type that `design.sample` gives: its leaf `.start` is",
    ),
    "invalid mutant": (
        design(mutate=lambda self, key, level: level._replace(start=level.start + 1)),
        "`design.mutate` made a level that `design.valid` refuses",
    ),
    "no edit": (design(mutate=lambda self, key, level: level), "`design.mutate` changed no level in 16 edits of each"),
    "editor": (editor(reset=Env.reset), "`design.editor` has no `reset`"),
    "early end of editing": (
        editor(step=lambda self, *args: Editor.step(Editor(horizon=2), *args)),
        "An episode of `design.editor` ended before `design.editor.horizon` = 3 steps",
    ),
    "built level's type": (
        design(build=lambda self, key, state: Level(state.start * 1.0, jnp.bool_(True))),
        "A level that `design.build` gives is not of the type that `design.sample` gives: its leaf `.start` is",
    ),
    "invalid build": (
        design(build=lambda self, key, state: Level(state.start - 9, jnp.bool_(True))),
        "`design.build` made a level that `design.valid` refuses",
    ),
    "actions without effect": (
        design(build=lambda self, key, state: Level(jnp.int32(2), jnp.bool_(True))),
        "`design.build` made 64 equal levels in a row; let the editor's actions decide",
    ),
    "infinite measure": (
        design(describe=lambda self, level: {"odds": 1.0 / (level.start * 0)}),
        "`design.describe` gives inf for 'odds'; let each be finite",
    ),
    "image": (design(image=lambda self, level: jnp.zeros((4, 4, 3))), "`design.image` gives float32[4, 4, 3]; let it"),
    "no image": (design(image=lambda self, level: None), "`design.image` gives NoneType"),
    "not JSON": (
        design(to_json=lambda self, level: level),
        "`design.to_json` failed with TypeError: Object of type",
    ),
    "cannot read": (design(from_json=lambda self, value: value["start"]), "`design.from_json` failed with TypeError"),
    "type from JSON": (
        design(from_json=lambda self, value: Level(*value)),
        "A level that comes back from JSON is not of the type that `design.sample` gives: its leaf `.start` is",
    ),
    "value from JSON": (
        design(from_json=lambda self, value: Level(np.int32(9), np.bool_(value[1]))),
        "A level that comes back from JSON differs in its leaf `.start`",
    ),
}


@pytest.mark.parametrize(("broken", "sentence"), DESIGNS.values(), ids=DESIGNS)
def test_a_broken_design_gets_a_sentence(broken, sentence):
    with pytest.raises(InputError) as raised:
        check_design(broken)
    assert sentence in str(raised.value)


SUITES = {
    "same names": ({"suites": {"tests": (ONE, ONE)}}, "Test level 'one' of suite 'tests' shares its name with another"),
    "test env": (
        {"suites": {"tests": (replace(ONE, env=env(reset=Env.reset)),)}},
        "`tests/one.env` has no `reset`",
    ),
    "test horizon": ({"suites": {"tests": (replace(ONE, env=Walk(horizon=0)),)}}, "`tests/one.env.horizon` is 0"),
    "test level": (
        {"suites": {"tests": (replace(ONE, draw=lambda key: jnp.zeros(3)),)}},
        "`tests/one.env.reset` failed with AttributeError",
    ),
    "test actions": (
        {"suites": {"tests": (replace(ONE, env=Steer()),)}},
        "Test level 'one' of suite 'tests' takes actions Box(low=(-1.0,), high=(1.0,)), the domain's env Discrete(n=2)",
    ),
    "test observations": (
        {"suites": {"tests": (replace(ONE, env=env(look=lambda self, state: {"place": state.place})),)}},
        "Test level 'one' of suite 'tests' shows other observations than the domain's env: its leaf `['place']` is",
    ),
    "invalid test level": (
        {"suites": {"tests": (replace(ONE, draw=lambda key: Level(jnp.int32(0), jnp.bool_(True))),)}},
        "Test level 'one' of suite 'tests' draws a level that `design.valid` refuses",
    ),
    "frame": (
        {"frame": lambda env, scene, state: jnp.zeros((4, 4, 3))},
        "`frame` gives float32[4, 4, 3]; let it give a picture",
    ),
    "measure": (
        {"measures": {"place": lambda env, scene, state: jnp.zeros(2)}},
        "`measures` gives float32[2] for 'place'; let each be a single real number",
    ),
    "failing measure": ({"measures": {"x": lambda env, scene, state: state.x}}, "`measures['x']` failed with Attribut"),
    "infinite measure": (
        {"measures": {"odds": lambda env, scene, state: 1.0 / (state.place * 0)}},
        "`measures` gives inf for 'odds'; let each be finite",
    ),
    "no frame": ({"frame": lambda env, scene, state: None}, "`frame` gives NoneType"),
    "test oracle": (
        {
            "suites": {"tests": (replace(ONE, env=Walk(horizon=99)),)},
            "optimal_return": lambda env, level: jnp.zeros(2 if env.horizon == 99 else ()),
        },
        "`optimal_return` gives float32[2]",
    ),
}


@pytest.mark.parametrize(("changes", "sentence"), SUITES.values(), ids=SUITES)
def test_a_broken_suite_gets_a_sentence(changes, sentence):
    with pytest.raises(InputError) as raised:
        check_suites(replace(DOMAIN, **changes))
    assert sentence in str(raised.value)


def test_a_measure_may_not_have_the_name_of_another_column():
    columns = {*EPISODES, *EVALUATIONS, *COLUMNS.values(), *WHO, CRC, "optimal"}
    assert columns == types.EPISODE_COLUMNS
    with pytest.raises(InputError, match=r"Rename \['length', 'optimal'\] in the measures of walk"):
        replace(DOMAIN, measures=dict.fromkeys(("length", "optimal", "place"), lambda env, scene, state: 0.0))
    check_suites(replace(DOMAIN, measures={"place": lambda env, scene, state: state.place}))


RETURNS = {
    "oracle's shape": (
        {"optimal_return": lambda env, level: jnp.zeros(3)},
        "`optimal_return` gives float32[3]; let it",
    ),
    "infinite oracle": ({"optimal_return": lambda env, level: jnp.float32(jnp.inf)}, "`optimal_return` is infinite"),
    "oracle too low": (
        {"optimal_return": lambda env, level: jnp.float32(0.5)},
        "Random actions earned 1 on a level whose `optimal_return` is 0.5",
    ),
    "threshold": ({"solved_above": float("nan")}, "`solved_above` is nan; make it a finite number"),
    "threshold out of reach": (
        {"solved_above": 1.0},
        "`solved_above` is 1, but the most that can be earned on any of 8 sampled levels is 1; lower it",
    ),
}


@pytest.mark.parametrize(("changes", "sentence"), RETURNS.values(), ids=RETURNS)
def test_wrong_claims_about_returns_get_a_sentence(changes, sentence):
    with pytest.raises(InputError) as raised:
        check_returns(replace(DOMAIN, **changes))
    assert sentence in str(raised.value)


def test_a_state_may_hold_a_key():
    class Keyed(Walk):
        def reset(self, key, scene):
            state, obs = Walk.reset(self, key, scene)
            return (state, key), obs

        def step(self, key, scene, state, action):
            later, step = Walk.step(self, key, scene, state[0], action)
            return (later, state[1]), step

    check_env(Keyed(), DESIGN.sample)
