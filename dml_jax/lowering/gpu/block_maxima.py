"""top_k among the blocks with the greatest maxima: all other blocks need not be sorted.

The two greatest of [3, 1 | 4, 1 | 5, 9 | 2, 6] lie in the two blocks with the greatest of the maxima 3, 4, 9 and 6.

XLA:CPU sorts integers whole, but finds the first k of floats without: so integers are searched as floats of the same
order, in blocks, or all at once if they are few.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...operations.programs.primitive import Move, by_platform
from ...operations.programs.variant_selection import Variant
from ...operations.top_k import TopKCase, first_of_all
from ...operations.values.sort_keys import float_in_order

BLOCK = 32  # elements of which one is the greatest
MANY = 4 * BLOCK  # elements for each that is wanted: a quarter of the blocks is looked into
FEW = 4  # elements for each that is wanted: of fewer all may as well be sorted


def _search_blocks(case: TopKCase) -> Move | None:
    can = case.keys.dtype == jnp.int32 and case.axis == len(case.keys.shape) - 1 and -(-case.size // BLOCK) >= case.k
    return partial(_among_blocks, case.k) if can else None


def _search(case: TopKCase) -> Move | None:
    """Integers of other sizes have no floats of the same order."""
    blocks = _search_blocks(case) if _has_blocks(case) else None
    direct = (lambda _, keys: _in_order(keys, case.k, case.axis)) if case.keys.dtype == jnp.int32 else None
    return blocks or direct


def _has_blocks(case: TopKCase) -> bool:
    return case.size >= MANY * case.k


def _among_blocks(k: int, _: None, keys: jax.Array) -> jax.Array:
    """Finds the k blocks with the greatest maxima, the first ones of equal blocks, and searches these."""
    edges = [(0, 0, 0)] * (keys.ndim - 1) + [(0, -keys.shape[-1] % BLOCK, 0)]
    padded = lax.pad(keys, np.asarray(jnp.iinfo(keys.dtype).min, keys.dtype), edges)
    blocks = padded.reshape(*keys.shape[:-1], -1, BLOCK)
    chosen = jnp.sort(_first(jnp.max(blocks, -1), k), -1)
    among = _read(blocks, chosen[..., None], -2).reshape(*keys.shape[:-1], -1)
    place = _first(among, k)
    return _read(chosen, place // BLOCK, -1) * BLOCK + place % BLOCK


def _first(keys: jax.Array, k: int) -> jax.Array:
    last = keys.ndim - 1
    return first_of_all(keys, last) if k == 1 else _in_order(keys, k, last)


def _in_order(keys: jax.Array, k: int, axis: int) -> jax.Array:
    def of_integers(keys: jax.Array) -> jax.Array:
        return lax.top_k(keys, k, axis=axis)[1]

    def of_floats(keys: jax.Array) -> jax.Array:
        return lax.top_k(float_in_order(keys), k, axis=axis)[1]

    # Only XLA:CPU is known to compare floats by their bits, NaNs among them.
    return by_platform(keys, cpu=of_floats, default=of_integers)


def _read(array: jax.Array, places: jax.Array, axis: int) -> jax.Array:
    return jnp.take_along_axis(array, places, axis, mode="promise_in_bounds")


VARIANTS = (
    Variant(
        "block_maxima", "top_k", "cuda", _search_blocks, lambda case: case.k > 1 and _has_blocks(case), on_several=True
    ),
    Variant("block_maxima", "top_k", "cpu", _search, lambda case: case.size >= FEW * case.k, on_several=True),
)
