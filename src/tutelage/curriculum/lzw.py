"""The complexity of an agent's actions: the length of their Lempel-Ziv-Welch (LZW) compression (paper, section 6.1).

LZW reads a sequence from left to right, cuts off the longest piece in its dictionary, and adds that piece with the next
symbol to the dictionary, which at first holds the single symbols. The complexity is the number of pieces, each of which
is one code of the compressed sequence: about √(2n) for n times the same action, and never more than n.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int


class _Reader(NamedTuple):
    """The state of LZW. A piece is a number: 0..A−1 are the single actions, others are given in order of entry."""

    longer: Int[Array, "pieces A"]  # the number of each piece with an action added, unless that is below `begin`
    piece: Int[Array, ""]  # the longest known piece that ends here
    codes: Int[Array, ""]
    begin: Int[Array, ""]  # the first number of this episode: lower ones belong to earlier episodes
    free: Int[Array, ""]  # the next number to give


def lzw_codes(action: Int[Array, " T"], first: Bool[Array, " T"], actions: int) -> Int[Array, " T"]:
    """i32[T]: how many codes each episode of a trajectory needs so far.

    Every episode begins with an empty dictionary.

    Args:
        action: each in 0..A−1.
        first: true at the first step of an episode, and so at step 0.
        actions: A, how many actions there are.

    Returns:
        The codes up to each step; at an episode's last step, the complexity of all its actions.
    """

    def over_step(reader: _Reader, xs: tuple[Array, Array]) -> tuple[_Reader, Array]:
        action, first = xs
        begin = jnp.where(first, reader.free, reader.begin)
        longer = reader.longer[reader.piece, action]
        known = ~first & (longer >= begin)
        learns = ~first & ~known
        reader = _Reader(
            longer=reader.longer.at[reader.piece, action].set(jnp.where(learns, reader.free, longer)),
            piece=jnp.where(known, longer, action),
            codes=jnp.where(first, 1, reader.codes + learns),
            begin=begin,
            free=reader.free + learns,
        )
        return reader, reader.codes

    action = action.astype(jnp.int32)
    nothing, number = jnp.int32(0), jnp.int32(actions)
    start = _Reader(jnp.zeros((action.size + actions, actions), jnp.int32), nothing, nothing, number, number)
    return lax.scan(over_step, start, (action, first))[1]
