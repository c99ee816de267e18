"""Cutting the levels up for devices and putting them together again."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tutelage.learning import mesh
from tutelage.types import InputError


@pytest.mark.parametrize(("batch", "devices", "count"), [(8, None, 2), (8, 1, 1), (7, None, 1), (6, 99, 2)])
def test_a_mesh_has_as_many_devices_as_divide_the_levels(batch, devices, count):
    assert mesh.make_mesh(batch, devices).size == count


def test_own_and_whole_are_inverse_for_arrays_and_keys():
    tree = {"a": jnp.arange(12.0).reshape(4, 3), "b": jnp.arange(4)}
    keys = jax.random.split(jax.random.key(0), 4)

    def there_and_back(tree, keys):
        assert mesh.shard(tree)["a"].shape == (4 // mesh.count(), 3)
        return mesh.gather(mesh.shard(tree)), mesh.gather(jax.vmap(jax.random.uniform)(mesh.shard(keys)))

    for devices in (1, 2):
        run = jax.jit(mesh.on_devices(there_and_back, mesh.make_mesh(4, devices)))
        back, drawn = run(tree, keys)
        jax.tree.map(assert_array_equal, back, tree)
        assert_array_equal(drawn, jax.vmap(jax.random.uniform)(keys))


def test_means_are_of_all_devices():
    on_two = jax.jit(mesh.on_devices(lambda values: mesh.mean(mesh.shard(values).mean()), mesh.make_mesh(2)))
    assert_allclose(on_two(jnp.array([1.0, 4.0])), 2.5)


def test_cores_can_be_asked_for_only_before_jax_runs():
    assert len(jax.devices()) == 2
    mesh.use_cores(2)  # as it is already
    with pytest.raises(InputError, match=r"running with 2 CPU device\(s\).*call use_cores\(\) right after the imports"):
        mesh.use_cores(3)
    assert len(jax.devices()) == 2


def test_devices_that_are_there_already_are_no_error():
    """JAX complains even if the devices it made by itself are as many as asked for."""
    program = "import jax; jax.devices(); from tutelage.learning.mesh import use_cores; use_cores(1)"
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    path = str(Path(mesh.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
