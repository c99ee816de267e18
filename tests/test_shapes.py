"""Types and shapes are checked at every call while tests run."""

import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from tutelage.curriculum import curator
from tutelage.curriculum.curator import Curator


def test_a_wrong_type_is_refused():
    with pytest.raises(TypeCheckError):
        curator.tick("no buffer")


def test_axes_of_one_name_have_one_length():
    buffer = curator.empty(Curator(capacity=4), jnp.zeros(3))
    slots = jnp.zeros(2, jnp.int32)
    curator.rescore(buffer, slots, jnp.zeros(2))
    with pytest.raises(TypeCheckError):
        curator.rescore(buffer, slots, jnp.zeros(3))


def test_records_refuse_in_words():
    with pytest.raises(ValueError, match="at least one slot"):
        Curator(capacity=0)
