"""Every method's programs can be lowered for accelerators, though none is at hand to run them on."""

from dataclasses import replace

import jax
import pytest
from distributed_training import EVERYTHING, config
from jax.sharding import NamedSharding, PartitionSpec
from numpy.testing import assert_allclose

from tutelage.curriculum.methods import METHODS
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.presets.racing import RacingSetup


@pytest.fixture
def accelerator(monkeypatch):
    """Whoever asks for the platform is told that it is no CPU."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def check_lowering(curriculum):
    everywhere = NamedSharding(curriculum.mesh, PartitionSpec())
    state = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=everywhere),
        jax.eval_shape(curriculum.init_program, jax.random.key(0)),
    )
    for program in (curriculum.explore, curriculum.exploit) if curriculum.method.replays else (curriculum.explore,):
        traced = program.trace(state, jax.random.key(0))
        for platform in ("cuda", "tpu"):
            assert "stablehlo.all_reduce" in traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["dr", EVERYTHING, *(pytest.param(name, marks=pytest.mark.nightly) for name in METHODS if name != "dr")]
)
def test_every_method_lowers_for_accelerators(method, accelerator):
    check_lowering(config(method).curriculum())


@pytest.mark.slow
@pytest.mark.parametrize("setup", [MazeSetup, RacingSetup])
def test_every_domain_lowers_for_accelerators(setup, accelerator):
    """With the networks of both students and of the teacher."""
    check_lowering(replace(setup.preset("tiny", "paired"), devices=2).curriculum())


@pytest.mark.slow
def test_students_side_by_side_are_students_one_after_the_other(monkeypatch):
    """As on an accelerator and as on a CPU, to rounding."""
    ends = []
    for backend in ("cpu", "gpu"):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        curriculum = config("paired").curriculum()
        ends.append(curriculum.iterate(curriculum.init(jax.random.key(0)), jax.random.key(1)))
    jax.tree.map(lambda a, b: assert_allclose(a, b, rtol=1e-4, atol=1e-5), *ends)
