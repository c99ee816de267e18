"""What a run is told: presets are complete, files round-trip, and nonsense is refused in a sentence."""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tutelage.curriculum import scores
from tutelage.curriculum.generators import Fixed, Uniform
from tutelage.curriculum.methods import METHODS
from tutelage.learning.ppo import PPO
from tutelage.training.config import Config, Evaluation, Storage, with_curator
from tutelage.training.presets import SETUPS, setup_named
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.run import Progress
from tutelage.training.serialization import differences, find, name_of
from tutelage.training.train import Programs, _advanced, _replays
from tutelage.types import InputError

PRESETS = ("paper", "released", "laptop", "tiny")
EVERY = [(setup, preset, method) for setup in SETUPS.values() for preset in PRESETS for method in METHODS]


@pytest.mark.parametrize(("setup", "preset", "method"), EVERY)
def test_every_preset_is_whole_and_survives_a_file(setup, preset, method):
    config = setup.preset(preset, method)
    config.check()
    assert (config.method.name, config.method.replays) == (method, METHODS[method].replays)
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_the_papers_maze_preset_is_its_table():
    config = MazeSetup.preset("paper", "plr-perp")
    assert (config.num_envs, config.num_steps, config.total_steps) == (32, 256, 250_000_000)
    assert config.ppo == PPO(0.995, 0.95, 5, 1, 0.2, "clipped", 0.5, 0.0, 1e-4, 0, 1e-5, 0.5)
    curator = config.method.curator
    assert (curator.capacity, curator.replay_rate, curator.temperature, curator.staleness) == (4000, 0.5, 0.3, 0.3)
    assert curator.score is scores.max_mc
    assert (config.setup.view, config.setup.blocks, config.setup.hidden) == (7, 25, 256)
    assert MazeSetup.preset("paper", "paired").setup.teacher_lstm


@pytest.mark.parametrize("preset", ["paper", "released"])
@pytest.mark.parametrize("method", METHODS)
def test_fifty_blocks_are_the_appendixs_second_setting(preset, method):
    first, second = MazeSetup.preset(preset, method), MazeSetup.preset(preset, method, blocks=50)
    assert (second.setup.blocks, second.total_steps, second.setup.teacher_lstm) == (50, 500_000_000, False)
    setup = replace(first.setup, blocks=50, teacher_lstm=False)
    assert second == replace(first, setup=setup, total_steps=500_000_000)


def test_another_number_of_blocks_changes_nothing_else():
    for preset, blocks in (("paper", 25), ("paper", 30), ("laptop", 50)):
        config = MazeSetup.preset(preset, "paired")
        changed = replace(config, setup=replace(config.setup, blocks=blocks))
        assert MazeSetup.preset(preset, "paired", blocks=blocks) == changed


def test_the_released_codes_preset_differs_where_facts_say_so():
    released = MazeSetup.preset("released", "repaired")
    assert released.method.curator.replay_rate == 0.95
    assert released.ppo.entropy_coef == 0.0
    assert MazeSetup.preset("released", "dr").ppo.entropy_coef == 0.01
    assert (released.setup.view, released.setup.head, released.setup.activation) == (5, (32,), "tanh")
    assert MazeSetup.preset("released", "plr").method.curator.temperature == 0.1
    assert released.setup.domain().design.clears
    assert not MazeSetup.preset("paper", "repaired").setup.domain().design.clears


def tiny(base="plr-perp", **changes):
    return replace(MazeSetup.preset("tiny", base), **changes)


IMPOSSIBLE = {
    "num_minibatches = 3 does not divide the": tiny(ppo=PPO(num_minibatches=3)),
    "teacher_ppo.num_minibatches = 5 does not divide the": tiny("paired", teacher_ppo=PPO(num_minibatches=5)),
    "replay rate of 0 there are none": tiny(method=with_curator(METHODS["plr-perp"], replay_rate=0.0)),
    "total_steps must be at least 1, not 0": tiny(total_steps=0),
    "keep must be at least 1, not 0": tiny(storage=Storage(keep=0)),
    "There is no suite of maze 'f1'; choose one of paper, maze": tiny(evaluation=Evaluation("f1")),
    "There is no level in the suite maze 'Nowhere'": tiny(evaluation=Evaluation("maze", ("Nowhere",))),
    "total_updates must be at least 1, not 0": tiny(total_updates=0),
    "final_episodes must be at least 1, not 0": tiny(evaluation=Evaluation("maze", final_episodes=0)),
    "anneal_updates over some updates: choose one": tiny(anneal_lr=True, ppo=PPO(anneal_updates=10)),
    "A seed is a number from 0 to 4294967295, not -1": tiny(seed=-1),
    "A seed is a number from 0 to 4294967295, not 4294967296": tiny(seed=2**32),
}


@pytest.mark.parametrize("sentence", list(IMPOSSIBLE))
def test_what_cannot_work_is_refused_before_anything_starts(sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        IMPOSSIBLE[sentence].curriculum()


def test_learning_rates_fall_to_zero_at_the_end_that_comes_first():
    config = replace(MazeSetup.preset("laptop", "dr"), evaluation=Evaluation())
    per_iteration = config.ppo.epochs * config.ppo.num_minibatches
    whole = config.curriculum().parts.ppo.anneal_updates
    assert whole == math.ceil(config.total_steps / (config.num_envs * config.num_steps) * per_iteration)
    assert replace(config, total_updates=320).curriculum().parts.ppo.anneal_updates == 320
    assert replace(config, total_updates=10**9).curriculum().parts.ppo.anneal_updates == whole


def changed(path, value):
    out = tiny().to_json()
    *groups, name = path.split(".")
    place = out
    for group in groups:
        place = place[group]
    place[name] = value
    return out


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("colour", 3, "There is no option colour; known here are: method, setup, total_steps"),
        ("setup.colour", 3, "There is no option setup.colour; known here are: size"),
        ("ppo.learning_rate", "fast", "ppo.learning_rate must be of type float, not 'fast'"),
        ("num_envs", 2.5, "num_envs must be of type int, not 2.5"),
        ("num_envs", True, "num_envs must be of type int, not True"),
        ("method", "sgd", "method must be a group of options, not 'sgd'"),
        ("method.curator.score", 3, "method.curator.score must be the name of a function, not 3"),
        ("method.curator.score", "best", "There is no 'best' in tutelage"),
        ("method.curator.score", "os:system", "os:system is not part of tutelage, and no file may decide"),
        ("method.generator.class", "os:path", "--allow os"),
        ("method.generator", 1, "method.generator must be a group of options with the entry 'class'"),
        ("ppo", 3, "ppo must be a group of options, not 3"),
        ("setup", None, "setup must be a group of options with the entry 'class'"),
        ("setup.class", "chess", "There is no 'chess' in tutelage"),
        ("setup", {"class": "uniform"}, "uniform cannot be the setup: it lacks name and domain and student"),
        ("method.generator", {"class": "maze"}, "maze cannot be the method.generator: it lacks propose and learns"),
        ("setup.class", "max-mc", "max-mc in setup is not a dataclass"),
        ("setup.head", 32, "setup.head must be a list, not 32"),
    ],
)
def test_a_file_with_nonsense_is_refused(path, value, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        Config.from_json(changed(path, value))


def test_a_file_that_lacks_an_option_is_refused():
    content = tiny().to_json()
    del content["total_steps"]
    with pytest.raises(InputError, match="The option total_steps is missing"):
        Config.from_json(content)


def test_only_what_changes_learning_separates_two_runs():
    one = tiny()
    assert not differences(one.learning(), replace(one, total_steps=99, storage=Storage(keep=7)).learning())
    assert differences(one.learning(), replace(one, seed=1).learning()) == ["seed: 0 and 1"]
    other = replace(one, ppo=replace(one.ppo, clip_eps=0.3))
    assert differences(one.learning(), other.learning()) == ["ppo.clip_eps: 0.2 and 0.3"]


def test_annealing_spreads_over_the_updates_to_be_expected():
    # 100 iterations, of which the first fills the buffer and half of the others replay; 2 × 2 updates each
    config = tiny(anneal_lr=True, total_steps=100 * 8 * 32)
    assert config.curriculum().parts.ppo.anneal_updates == 198
    assert tiny("dr", anneal_lr=True, total_steps=100 * 8 * 32).curriculum().parts.ppo.anneal_updates == 400


@pytest.mark.parametrize("total_updates", [None, 16_000])
@pytest.mark.parametrize("method", METHODS)
def test_as_many_iterations_are_expected_as_there_are(method, total_updates):
    """Iterations are decided as in training; new levels fill the buffer, a quarter of which must be full."""
    config = tiny(method, anneal_lr=True, total_steps=10_000 * 8 * 32, total_updates=total_updates)
    config = replace(config, method=with_curator(config.method, capacity=40_000))
    curriculum = config.curriculum()
    proposed, taught, progress = 0, 0, Progress()
    full = SimpleNamespace(
        wants_replay=curriculum.wants_replay, can_replay=lambda _: proposed >= config.method.curator.min_fill * 40_000
    )
    replays = _replays(full, jax.random.key(0))
    while not progress.finished(config):
        replay = replays(None, progress.iteration)
        proposed, taught = proposed + 8 * (not replay), taught + 4 * (not replay)
        progress = _advanced(progress, config, curriculum, replay)
    parts = curriculum.parts
    assert parts.ppo.anneal_updates == pytest.approx(progress.updates, rel=0.03)
    assert parts.teacher_ppo.anneal_updates == pytest.approx(taught, rel=0.03)
    assert config.expected_steps() == pytest.approx(progress.steps, rel=0.03)


def test_a_setup_is_known_by_name_and_imported_only_if_the_user_says_so():
    assert setup_named("maze") is MazeSetup
    assert setup_named("tutelage.training.presets.maze:MazeSetup") is MazeSetup
    with pytest.raises(InputError, match="does not come with tutelage"):
        setup_named("chess")
    with pytest.raises(InputError, match="cannot be imported"):
        setup_named("nowhere_at_all:Setup")
    with pytest.raises(InputError, match="is not a Setup: it lacks teacher"):
        setup_named("test_training_config:Untaught")
    with pytest.raises(InputError, match="is not a Setup: it lacks name"):
        setup_named("os:path")
    for name in (":", ":Setup", "os:", ".here:Setup"):
        with pytest.raises(InputError, match="is named module:Class"):
            setup_named(name)


def my_score(evidence):
    """A user's own."""
    return evidence.value.max()


def test_a_function_of_the_users_own_is_saved_by_name_and_read_only_where_it_is_allowed():
    config = tiny(method=with_curator(METHODS["plr-perp"], score=my_score))
    content = json.loads(json.dumps(config.to_json()))
    assert content["method"]["curator"]["score"] == "test_training_config:my_score"
    with pytest.raises(InputError, match="--allow test_training_config"):
        Config.from_json(content)
    assert Config.from_json(content, allow=["test_training_config"]) == config
    assert "test_training_config:my_score" in config.names()
    assert find(name_of(scores.max_mc)) is scores.max_mc


class Untaught:
    """All but a teacher."""

    name = "untaught"
    domain = student = preset = MazeSetup.domain


@dataclass(frozen=True)
class Sequences(MazeSetup):
    head: Sequence[int] = (16,)
    scales: list[float] = field(default_factory=lambda: [1.0, math.nan])
    functions: tuple[Callable[..., Any], ...] = (my_score,)


def test_lists_are_read_as_tuples():
    config = tiny(setup=Sequences(head=[8, 8]))
    config.check_saved()
    setup = Config.from_json(json.loads(json.dumps(config.to_json())), ["test_training_config"]).setup
    assert (setup.head, setup.scales[0], setup.functions) == ((8, 8), 1.0, (my_score,))
    assert isinstance(setup.scales, tuple)
    assert math.isnan(setup.scales[1])


@dataclass(frozen=True)
class Anything(MazeSetup):
    extra: Any = 3


@dataclass(frozen=True)
class Mapped(MazeSetup):
    extra: dict[str, int] | None = 3


@dataclass(frozen=True)
class Growing(MazeSetup):
    def __post_init__(self):
        object.__setattr__(self, "hidden", self.hidden + 1)


@pytest.mark.parametrize(
    ("setup", "sentence"),
    [
        (
            Anything(),
            "could not be read again: setup.extra is declared as typing.Any, which cannot be read from a file",
        ),
        (Mapped(), "could not be read again: setup.extra is declared as dict[str, int], which cannot"),
        (Growing(), "would be another when it is read again"),
    ],
)
def test_what_could_be_saved_but_not_be_read_is_refused(setup, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        Programs(tiny(setup=setup))


def test_what_has_no_name_cannot_be_saved(monkeypatch):
    monkeypatch.setattr(my_score, "__module__", "__main__")
    with pytest.raises(InputError, match=r"my_score is defined in the program that runs, .*: put it into a module"):
        tiny(method=with_curator(METHODS["plr-perp"], score=my_score)).to_json()
    with pytest.raises(InputError, match="define it at the top level of a module"):
        tiny(method=with_curator(METHODS["plr-perp"], score=lambda evidence: 0.0)).to_json()
    with pytest.raises(InputError, match="A configuration can hold"):
        tiny("dr", method=replace(METHODS["dr"], generator=Fixed(jnp.zeros(3)))).to_json()
    assert replace(METHODS["dr"], generator=Uniform(2)).generator.levels_per_env == 2
