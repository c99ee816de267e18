"""How complex is what an agent did? Lempel, Ziv and Welch's (LZW) complexity of its actions (paper, section 5.1).

LZW reads a sequence from left to right, cuts off the longest piece that it knows, and learns that piece with the next
symbol added; at first it knows the single symbols. The complexity is the number of pieces, each of which is one code of
the compressed sequence: about √(2n) for n times the same action, and never more than n.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class _Reader(NamedTuple):
    """What LZW knows while it reads. A piece is a number: 0..A−1 are the single actions, others come as learned."""

    longer: jax.Array  # i32[T + A, A]: which piece a piece with an action added is, unless that is below `begin`
    piece: jax.Array  # i32[]: the longest known piece that ends here
    codes: jax.Array  # i32[]
    begin: jax.Array  # i32[]: the first number that this episode could give: lower ones are of earlier episodes
    free: jax.Array  # i32[]: the next number to give


def lzw_codes(action: jax.Array, first: jax.Array, actions: int) -> jax.Array:
    """How many codes each episode of a trajectory needs so far.

    An episode is read on its own: nothing learned in one helps in the next.

    Args:
        action: i32[T], each in 0..A−1.
        first: bool[T], true at the first step of an episode, and so at step 0.
        actions: A, how many actions there are.

    Returns:
        i32[T]: at an episode's last step, the complexity of all its actions.
    """

    def over_step(reader: _Reader, xs: tuple[jax.Array, jax.Array]) -> tuple[_Reader, jax.Array]:
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
