"""CarRacing trains: its presets are the paper's table, and a resumed run equals one that was not interrupted."""

import json
import shutil
import typing
from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest

from tutelage.cli.train import parse
from tutelage.curriculum import scores
from tutelage.curriculum.curator import proportional
from tutelage.curriculum.methods import METHODS
from tutelage.domains.racing.env import View
from tutelage.domains.racing.texture import Canvas
from tutelage.domains.racing.track import Level
from tutelage.training import checkpoints
from tutelage.training.config import PresetName, with_curator
from tutelage.training.presets.racing import RacingSetup
from tutelage.training.train import Programs, resume, train
from tutelage.types import InputError

COARSE = Canvas(texel=4.0)


@pytest.fixture(autouse=True, scope="module")
def one_domain_for_each_setup():
    """Its test levels take long to make, and are the same for every method.

    Roads are painted with a hundredth of the texels: what can be seen has tests of its own.
    """
    whole = RacingSetup.domain

    def domain(setup):
        made = whole(setup)
        levels = (replace(level, env=replace(level.env, canvas=COARSE)) for level in made.suites["bezier"])
        return replace(made, env=replace(made.env, canvas=COARSE), suites={**made.suites, "bezier": tuple(levels)})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RacingSetup, "domain", cache(domain))
        yield


@pytest.mark.parametrize("preset", typing.get_args(PresetName))
def test_every_method_has_parts_that_fit(preset):
    for method in METHODS:
        curriculum = RacingSetup.preset(preset, method).curriculum()
        assert curriculum.method.generator.levels_per_env == 1
        assert (curriculum.parts.teacher is not None) == curriculum.method.generator.learns


def test_the_papers_preset_is_its_table():
    paper = RacingSetup.preset("paper", "plr-perp")
    ppo = paper.ppo
    assert (ppo.gamma, ppo.gae_lambda, ppo.epochs, ppo.num_minibatches) == (0.99, 0.9, 8, 4)
    assert (ppo.clip_eps, ppo.learning_rate, ppo.adam_eps, ppo.max_grad_norm) == (0.2, 3e-4, 1e-5, 0.5)
    assert (ppo.value_loss, ppo.value_coef, ppo.normalize_returns, ppo.entropy_coef) == ("squared", 0.5, True, 0.0)
    assert (paper.num_envs, paper.num_steps, paper.total_steps) == (16, 125, 5_000_000)
    curator = paper.method.curator
    assert (curator.capacity, curator.replay_rate, curator.min_fill) == (8000, 0.5, 0.5)
    assert (curator.prioritization, curator.temperature, curator.staleness) == (proportional, 1.0, 0.7)
    assert curator.score is scores.positive_value_loss
    assert RacingSetup.preset("paper", "repaired").method.curator.score is scores.max_mc_start
    assert paper.setup.head == (256, 256)
    assert paper.evaluation.last_episodes == 10
    design = paper.setup.domain().design
    assert design.disc
    assert design.spacing == 0
    entropies = [RacingSetup.preset("paper", method).teacher_ppo.entropy_coef for method in ("paired", "repaired")]
    assert entropies == [0.0, 0.01]


def test_the_released_codes_preset_differs_where_facts_say_so():
    config = RacingSetup.preset("released", "plr")
    domain = config.setup.domain()
    assert config.setup.kernels == (4, 3, 3, 3, 3, 3)
    assert config.setup.head == (100,)
    assert domain.env.view.shape == (96, 96, 12)
    assert not domain.env.start_east
    assert not domain.design.start_east
    assert not domain.env.view.zoom
    assert not any(level.env.view.zoom for level in config.test_levels(domain))
    assert not domain.design.disc
    assert domain.design.spacing == pytest.approx(0.7 / 12 * 2000 / 6)
    assert config.setup.centered_pixels
    assert config.ppo.value_loss == config.teacher_ppo.value_loss == "huber"
    repaired = RacingSetup.preset("released", "repaired")
    assert repaired.method.curator.score is scores.max_mc_start_clipped
    assert domain.design.editor.noise == 4
    limits = {level.name: level.env.frames for level in config.test_levels(domain)}
    paper = {level.name: level.env.frames for level in domain.suites["f1"]}
    assert limits == paper | {"Mexico": 3000, "Russia": 2000}
    assert (paper["Mexico"], paper["Russia"]) == (2000, 1500)


@pytest.mark.parametrize(
    ("setup", "sentence"),
    [
        (RacingSetup(kernels=(2, 2)), "Kernels, strides and channels are one for each"),
        (RacingSetup(lean=(1.0,)), "three numbers"),
        (RacingSetup(View(shrink=4)), "Nothing is left of 24×24"),
        (RacingSetup(frames=0), "at least one frame"),
        (RacingSetup(strides=(2, 2, 2, 2, 0, 1)), "at least 1; got 0"),
        (RacingSetup(head=(-4,)), "at least 1; got -4"),
    ],
)
def test_what_cannot_work_gets_a_sentence(setup, sentence):
    with pytest.raises(InputError, match=sentence):
        setup.student(setup.domain())


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [("--shrink", "5", "divisor"), ("--bumps", "-1.0", "Bumps"), ("--noise", "-1", "noise=-1")],
)
def test_what_cannot_be_seen_or_drawn_gets_a_sentence_where_it_is_asked_for(option, value, sentence, capsys):
    with pytest.raises(SystemExit):
        parse(["dr", "--domain", "racing", option, value])
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
def test_a_resumed_run_equals_one_that_was_not_interrupted(tmp_path):
    """With a buffer and edits; what a second student and a teacher save is the same in every domain."""
    programs = Programs(RacingSetup.preset("tiny", "accel"))
    whole = train(programs.config, tmp_path / "whole", programs=programs, quiet=True)
    metrics = whole.metrics()
    assert metrics["replay"].any()
    assert np.isfinite(metrics["edited/return"][metrics["replay"] == 1]).all()
    assert np.isfinite(metrics["loss"][metrics["replay"] == 1]).all()
    assert metrics["updates"][-1] > 0
    assert {(row["level"], row["solved"]) for row in whole.evaluations()} == {("Bezier1", None)}
    design = whole.domain.design
    for entry in whole.snapshots()[-1]["entries"]:
        assert bool(design.valid(design.from_json(entry["level"])))

    newest = checkpoints.read(checkpoints.saved(whole.directory / "checkpoints")[0]).arrays
    size = int(newest["buffers.size"][0])
    assert size > 4
    for slot in range(size):  # mutated ones, too
        level = Level(*(newest[f"buffers.entries.level.{name}"][0, slot] for name in Level._fields))
        again = design.from_json(json.loads(json.dumps(design.to_json(level))))
        assert all(np.array_equal(a, b) for a, b in zip(level, again, strict=True))

    copy = tmp_path / "copy"
    shutil.copytree(whole.directory, copy)
    checkpoints.saved(copy / "checkpoints")[0].unlink()
    resume(copy, programs=programs, quiet=True)
    for path in whole.directory.rglob("*"):
        if path.is_file() and path.name != "timing.csv":
            assert (copy / path.relative_to(whole.directory)).read_bytes() == path.read_bytes(), path.name


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["dr", "minimax", "paired", "plr", "plr-perp"])  # the others are trained here, too
def test_students_learn_by_every_method(method):
    config = RacingSetup.preset("tiny", method)
    curriculum = replace(config, method=with_curator(config.method, replay_rate=1.0)).curriculum()
    state = curriculum.init(jax.random.key(0))
    for i in range(2):  # a new level, then a replayed one where there is a curator
        state, metrics = curriculum.iterate(state, jax.random.key(i + 1))
    assert np.isfinite(float(metrics["loss"]))
    assert bool(metrics["replay"]) == (method in ("plr", "plr-perp"))
    assert (state.students.updates > 0).all()


@pytest.mark.slow
def test_a_generator_learns_from_two_students():
    curriculum = RacingSetup.preset("tiny", "repaired").curriculum()
    before = curriculum.init(jax.random.key(0))
    kept = [np.asarray(x) for x in jax.tree.leaves(before.generator.params)]
    after, metrics = curriculum.iterate(before, jax.random.key(1))
    assert np.isfinite(float(metrics["teacher/utility"]))
    assert any((a != b).any() for a, b in zip(kept, jax.tree.leaves(after.generator.params), strict=True))
    assert int(after.students.updates.sum()) == 0, "new levels are only scored"
    assert after.buffers.size.tolist() == [4, 4]
