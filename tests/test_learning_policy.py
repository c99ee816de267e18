"""A policy outlives its training: as a file, and as somebody who acts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Recall, example, remembering
from safetensors import safe_open

from tutelage import files
from tutelage.learning.policy import Policy
from tutelage.training import checkpoints
from tutelage.training.presets.maze import MazeSetup
from tutelage.training.run import Run
from tutelage.types import InputError

KEY = jax.random.key(0)
NETWORK = remembering()
PARAMS = jax.tree.map(
    lambda x: x + jax.random.normal(KEY, x.shape), NETWORK.init(KEY, example(Recall()))
)  # not the first ones, which are indifferent


@pytest.fixture
def path(tmp_path):
    checkpoints.write(tmp_path / "policy.safetensors", PARAMS, {"method": "plr-perp"})
    return tmp_path / "policy.safetensors"


def test_acting_step_by_step_is_what_the_network_says_of_the_whole_episode():
    policy, obs = Policy(NETWORK, PARAMS), jax.random.normal(KEY, (5, 1, 2))
    first = jnp.zeros((5, 1), bool).at[0].set(True)
    _, head = NETWORK.apply(PARAMS, NETWORK.initial_carry(1), obs, first)
    keys = jax.random.split(KEY, 5)
    carry = policy.initial_carry()
    for t in range(5):
        expected = jax.tree.map(lambda x, t=t: x[t, 0], head.policy)
        greedy, _ = policy.act(obs[t, 0], carry)
        action, carry = policy.act(obs[t, 0], carry, keys[t])
        assert greedy == expected.mode()
        assert action == expected.sample(keys[t])
        assert action.shape == ()


def test_a_file_gives_back_what_was_saved(path):
    loaded = checkpoints.fit(checkpoints.read(path).arrays, jax.eval_shape(lambda: PARAMS), path)
    jax.tree.map(np.testing.assert_array_equal, loaded, PARAMS)
    with safe_open(path, framework="numpy") as file:
        assert "cell.in.kernel" in file.keys()  # noqa: SIM118, it is no dictionary
        assert "plr-perp" in str(file.metadata())


def test_a_file_that_does_not_fit_is_refused_with_names_and_shapes(path):
    other = jax.tree.map(lambda x: x, PARAMS)
    other["value"]["kernel"] = jnp.zeros((32, 1))
    with pytest.raises(InputError, match=r"value\.kernel in .* is float32\[16, 1\], but float32\[32, 1\] is needed"):
        checkpoints.fit(checkpoints.read(path).arrays, other, path)


def test_what_is_no_policy_is_said_to_be_none(tmp_path):
    with pytest.raises(InputError, match="policy\\.safetensors is not there yet"):
        _ = Run(tmp_path, MazeSetup.preset("tiny", "dr")).params
    (tmp_path / "text").write_text("not a policy")
    with pytest.raises(InputError, match="text cannot be read"):
        checkpoints.read(tmp_path / "text")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.write(path, jax.tree.map(jnp.zeros_like, PARAMS), {})
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]
