"""Where flags are set: their numbers one after the other."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..forms import Choice, choose_anywhere, forced_form, known_bytes
from ..primitive import varying_alike

__all__ = ["TABLE", "numbers_set"]

WORD = 32  # flags in a word
# On two cores of an EPYC, 16384x256 of float32 with the coordinates; milliseconds.
TABLE = (Choice("cpu", "flag_words", {}, "of which are set 1 % 6.9, 10 % 9.4, 50 % 13; plain 37, 38, 54"),)


def numbers_set(is_set: jax.Array) -> tuple[jax.Array, jax.Array]:
    """How many flags are set, and their numbers in ascending order, as many as there are flags; 0 behind them.

    Args:
      is_set: (n,), bools, fewer than 2**32.
    """
    forms = {"plain": _one_by_one, "flag_words": _word_by_word}
    case = {"bytes": 4 * known_bytes(is_set)}  # those of the numbers
    found = choose_anywhere(forms if case["bytes"] else {"plain": _one_by_one}, TABLE, case, forced_form())(is_set)
    return is_set.sum(dtype=jnp.uint32), found


def _one_by_one(is_set: jax.Array) -> jax.Array:
    """Each finds its place by itself: sorting takes 1 to 4 times as long on CPUs, 2 times on an H100."""
    place = jnp.cumsum(is_set, dtype=jnp.uint32) - 1
    number = lax.iota(jnp.uint32, is_set.shape[0])
    at = jnp.where(is_set, place, jnp.asarray(is_set.shape[0], jnp.uint32))
    return jnp.zeros_like(number).at[at].set(number, mode="drop", unique_indices=True)


def _word_by_word(is_set: jax.Array) -> jax.Array:
    """Each turn writes the number of the first flag that is left of every word: as many as one has."""
    n = is_set.shape[0]
    rows = lax.pad(is_set, np.False_, [(0, -n % WORD, 0)]).reshape(-1, WORD)
    bit = np.uint32(1) << lax.broadcasted_iota(np.uint32, rows.shape, 1)
    words = jnp.sum(jnp.where(rows, bit, np.uint32(0)), 1, dtype=np.uint32)
    counts = lax.population_count(words)
    start = lax.iota(np.uint32, len(words)) * WORD

    def write(left: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        words, place, found = left
        first = words & (~words + np.uint32(1))
        number = start + lax.population_count(first - np.uint32(1))
        at = jnp.where(words != 0, place, np.uint32(n))
        return words ^ first, place + 1, found.at[at].set(number, mode="drop", unique_indices=True)

    places = jnp.cumsum(counts, dtype=np.uint32) - counts
    first = varying_alike(words, places, jnp.zeros(n, np.uint32))
    return lax.while_loop(lambda left: jnp.any(left[0] != 0), write, tuple(first))[2]
