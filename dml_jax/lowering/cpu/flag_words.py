"""Nonzero on CPUs by words of 32 flags: a step of a loop writes the index of one flag of every word, with vectors.

In [0, 1, 1, 0 | 1, 0, 0, 1], in words of four, one step finds flags 1 and 4, which are the first and the third of all,
and the next one 2 and 7. XLA:CPU would write the number of each flag by itself, and count with a scan over all.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...operations.programs.mesh_types import varying_alike
from ...operations.programs.variant_selection import Variant

WORD = 32  # flags in a word


def _word_by_word(_: None, is_set: jax.Array) -> jax.Array:
    """Each turn writes the index of the first flag left in every word; as many turns as a word may have flags."""
    n = is_set.shape[0]
    rows = lax.pad(is_set, np.False_, [(0, -n % WORD, 0)]).reshape(-1, WORD)
    bit = np.uint32(1) << lax.broadcasted_iota(np.uint32, rows.shape, 1)
    words = jnp.sum(jnp.where(rows, bit, np.uint32(0)), 1, dtype=np.uint32)
    counts = lax.population_count(words)
    start = lax.iota(np.uint32, len(words)) * WORD

    def write(left: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        words, place, indices = left
        first = words & (~words + np.uint32(1))
        number = start + lax.population_count(first - np.uint32(1))
        at = jnp.where(words != 0, place, np.uint32(n))
        return words ^ first, place + 1, indices.at[at].set(number, mode="drop", unique_indices=True)

    places = jnp.cumsum(counts, dtype=np.uint32) - counts
    first = varying_alike(words, places, jnp.zeros(n, np.uint32))
    return lax.while_loop(lambda left: jnp.any(left[0] != 0), write, tuple(first))[2]


VARIANTS = (Variant("flag_words", "nonzero", "cpu", lambda _: _word_by_word, lambda _: True),)
