"""The example of a domain of one's own: it passes the checks, its students learn, and less would do for PLR."""

import importlib.util
import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tutelage import METHODS, Curriculum, Parts
from tutelage.checks import check_domain
from tutelage.cli import main
from tutelage.types import Design, Domain, supports

PATH = Path(__file__).parents[1] / "examples" / "own_environment.py"


def load():
    spec = importlib.util.spec_from_file_location("own_environment", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLE = load()


@pytest.mark.slow
def test_it_passes_the_checks():
    assert isinstance(EXAMPLE.DOMAIN, Domain)
    assert set(check_domain(EXAMPLE.DOMAIN)) == set(METHODS)


@pytest.mark.slow
def test_its_oracle_finds_what_trying_everything_finds():
    def lands(river):
        """Whether any of all 3¹⁰ ways leads to the dock, without leaving the river."""
        rudder = np.array(list(itertools.product((-1, 0, 1), repeat=EXAMPLE.REACHES)))
        columns = EXAMPLE.WIDTH // 2 + np.cumsum(rudder + np.asarray(river.currents), axis=1)
        afloat = ((columns >= 0) & (columns < EXAMPLE.WIDTH)).all(axis=1)
        return bool((afloat & (columns[:, -1] == river.dock)).any())

    rivers = [EXAMPLE.DOMAIN.design.sample(jax.random.key(i)) for i in range(20)]
    rivers.append(EXAMPLE.River(jnp.full(EXAMPLE.REACHES, 2, jnp.int32), jnp.int32(0)))
    found = [float(EXAMPLE.best_return(river)) for river in rivers]
    assert found == [float(lands(river)) for river in rivers]
    assert 0.0 in found
    assert 1.0 in found


@dataclass(frozen=True)
class OnlySample(Design):
    def sample(self, key):
        return EXAMPLE.Rivers().sample(key)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dr", "plr", "plr-perp"])
def test_a_design_with_only_sample_trains_by_domain_randomization_and_replay(name):
    domain = Domain("rivers", EXAMPLE.Crossing(), OnlySample())
    assert not supports(domain.design, "image")
    method = METHODS[name]
    if method.curator:
        method = replace(method, curator=replace(method.curator, capacity=16, min_fill=0.5))
    curriculum = Curriculum(method, Parts(domain, EXAMPLE.STUDENT, num_envs=8, num_steps=EXAMPLE.REACHES))
    state, replayed = curriculum.init(jax.random.key(0)), set()
    for i in range(6):
        state, metrics = curriculum.iterate(state, jax.random.key(i))
        replayed.add(bool(metrics["replay"]))
    assert replayed == ({False, True} if method.curator else {False})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PLR⊥", "PAIRED"])
def test_its_students_learn(name):
    history = EXAMPLE.train(EXAMPLE.EXAMPLES[name], iterations=40)
    assert history[0] < 0.2
    assert max(history[-2:]) > 0.45


@pytest.mark.slow
def test_the_command_line_takes_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(PATH.parent)
    run, allow = str(tmp_path / "ferry"), ("--allow", "own_environment")
    domain = ("--domain", "own_environment:FerrySetup")
    main(["train", "plr-perp", *domain, "--total-steps", "20000", "--evaluate-every", "0", "--out", run])
    main(["resume", run, *allow])
    main(["eval", run, *allow, "--baselines", "--episodes", "2"])
    main(["report", run, *allow])
    said = capsys.readouterr().out
    assert "Slalom" in said
    assert (tmp_path / "ferry" / "report.html").exists()
    with pytest.raises(SystemExit):
        main(["resume", run])
    assert "own_environment:FerrySetup is not part of tutelage" in capsys.readouterr().err
