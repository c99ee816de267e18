"""What is saved comes back bit for bit, or is said to be damaged."""

from typing import NamedTuple

import numpy as np
import pytest

from tutelage.training import checkpoints
from tutelage.training.checkpoints import DamagedError
from tutelage.types import InputError


class Tree(NamedTuple):
    weights: dict
    flags: np.ndarray
    count: np.ndarray


@pytest.fixture
def tree():
    random = np.random.default_rng(0)
    weights = {"a": random.normal(size=(3, 4)).astype(np.float32), "b": np.array([np.nan, -0.0, np.inf], np.float32)}
    return Tree(weights, random.random(7) < 0.5, np.int32(5))


def test_everything_comes_back_with_what_was_said_of_it(tmp_path, tree):
    path = checkpoints.file_of(tmp_path, 12)
    checkpoints.write(path, tree, {"place": [12, 3]})
    found = checkpoints.read(path)
    assert found.about == {"place": [12, 3]}
    back = checkpoints.fit(found.arrays, tree, path)
    assert isinstance(back, Tree)
    for name, array in checkpoints.named_arrays(tree).items():
        other = checkpoints.named_arrays(back)[name]
        assert (array.dtype, array.shape, array.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_cut_short_is_damaged(tmp_path, tree, share):
    path = checkpoints.file_of(tmp_path, 1)
    checkpoints.write(path, tree, {})
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(DamagedError, match="cannot be read"):
        checkpoints.read(path)


def test_every_flipped_bit_is_noticed(tmp_path, tree):
    path = checkpoints.file_of(tmp_path, 1)
    checkpoints.write(path, tree, {"place": [1, 2, 3]})
    data = path.read_bytes()
    for position in range(0, len(data), 5):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(DamagedError):
            checkpoints.read(path)


def test_a_file_that_is_something_else_is_damaged(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR.")  # a pickle that would run a program
    with pytest.raises(DamagedError, match="cannot be read as a checkpoint"):
        checkpoints.read(path)


def test_arrays_of_another_shape_are_refused_by_name(tmp_path, tree):
    path = tmp_path / "x.safetensors"
    arrays = checkpoints.named_arrays(tree)
    other = tree._replace(flags=np.zeros(9, bool))
    with pytest.raises(InputError, match=r"flags in .* is bool\[7\], but bool\[9\] is needed"):
        checkpoints.fit(arrays, other, path)
    with pytest.raises(InputError, match=r"lacks weights\.c"):
        checkpoints.fit(arrays, tree._replace(weights=tree.weights | {"c": np.zeros(2)}), path)
    with pytest.raises(InputError, match=r"holds weights\.b, which is not needed"):
        checkpoints.fit(arrays, tree._replace(weights={"a": tree.weights["a"]}), path)


def test_the_newest_come_first_and_can_be_archived(tmp_path, tree):
    for iteration in (9, 10, 11):
        checkpoints.write(checkpoints.file_of(tmp_path / "c", iteration), tree, {})
    checkpoints.also_in(tmp_path / "archive", checkpoints.file_of(tmp_path / "c", 9))
    assert [path.stem for path in checkpoints.saved(tmp_path / "c")] == ["00000011", "00000010", "00000009"]
    assert checkpoints.read(checkpoints.file_of(tmp_path / "archive", 9)).about == {}
