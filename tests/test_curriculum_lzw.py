"""LZW complexity by hand, and beside a plain Python LZW on any actions and episodes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probes import SOON

from tutelage.curriculum.lzw import lzw_codes

LENGTH = 24


@partial(jax.jit, static_argnums=2, compiler_options=SOON)
def codes_of(action, first, actions):
    return lzw_codes(action, first, actions)


def plain(sequence, actions):
    """The codes that LZW writes for a sequence."""
    table = {(action,): action for action in range(actions)}
    piece, codes = (), []
    for action in sequence:
        if (*piece, action) in table:
            piece = (*piece, action)
        else:
            codes.append(table[piece])
            table[*piece, action] = len(table)
            piece = (action,)
    return [*codes, table[piece]]


def decoded(codes, actions):
    """The sequence that codes stand for: what makes `plain` a compression."""
    table = [(action,) for action in range(actions)]
    out = previous = table[codes[0]]
    for code in codes[1:]:
        piece = table[code] if code < len(table) else (*previous, previous[0])
        table.append((*previous, piece[0]))
        out, previous = out + piece, piece
    return list(out)


def test_pieces_by_hand():
    # 0 | 1 | 01 | 01 | 2, having learned 01, 10, 010 and 012; then, knowing nothing of these any more, 2 | 22 | 2
    action = jnp.array([0, 1, 0, 1, 0, 1, 2, 2, 2, 2, 2])
    first = jnp.zeros(11, bool).at[jnp.array([0, 7])].set(True)
    assert codes_of(action, first, 3).tolist() == [1, 2, 3, 3, 4, 4, 5, 1, 2, 2, 3]


@pytest.mark.parametrize("pieces", [1, 2, 6])
def test_the_same_action_again_and_again_is_cut_into_ever_longer_pieces(pieces):
    length = pieces * (pieces + 1) // 2  # 1 + 2 + … + pieces
    first = jnp.zeros(LENGTH, bool).at[0].set(True)
    codes = codes_of(jnp.full(LENGTH, 3), first, 4)
    assert (codes[length - 1], codes[length]) == (pieces, pieces + 1)


def test_no_repetition_means_a_code_for_every_action():
    first = jnp.zeros(LENGTH, bool).at[0].set(True)
    assert codes_of(jnp.arange(LENGTH), first, LENGTH).tolist() == list(range(1, LENGTH + 1))


@settings(deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda actions: st.tuples(
            st.just(actions),
            st.lists(st.integers(0, actions - 1), min_size=LENGTH, max_size=LENGTH),
            st.lists(st.integers(0, 5).map(lambda x: x == 0), min_size=LENGTH - 1, max_size=LENGTH - 1),
        )
    )
)
def test_it_counts_the_codes_of_a_plain_lzw(drawn):
    actions, action, later = drawn
    first = np.array([True, *later])
    found = codes_of(jnp.array(action), jnp.array(first), actions)
    for t in range(LENGTH):
        begin = np.flatnonzero(first[: t + 1])[-1]
        episode = action[begin : t + 1]
        codes = plain(episode, actions)
        assert decoded(codes, actions) == episode
        assert found[t] == len(codes)
