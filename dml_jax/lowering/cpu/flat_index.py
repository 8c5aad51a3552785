"""Sums of single elements on CPUs: an addition to memory waits for the one before it at the same address.

So of each row of updates the element that is met most often, as far as three samples tell, has several places, and
updates take them in turn. With two places per row, of the row of updates to the elements 7 7 3 7 7:

    element  7   7   3   7   7
    added to p0  p1  3   p1  p0     and 7 = p0 + p1 at the end
"""

from itertools import pairwise
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..plain.reduction import Reduction
from ..plain.rows import Rows, Write
from ..values.accumulation_types import wide_type
from .cache_chunks_sum import as_image, widen

__all__ = ["add_by_number", "dim_in_parts"]

PARTS = 4
PLACES = 8  # a power of two
SHORTEST = 8 * PLACES  # of shorter rows the places would take more than an eighth of the memory of the updates


def dim_in_parts(rows: Rows) -> int | None:
    """Which of the dimensions that go along is cut into parts: the first that is long enough; None if none is."""
    sizes = [rows.shape[d] for d in rows.slices.along]
    return next((i for i, size in enumerate(sizes) if size >= PARTS), None)


def add_by_number(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Tables of one dimension, which XLA:CPU adds to at once."""
    which, wide = dim_in_parts(Rows(shape, write)), wide_type(updates.dtype)
    assert which is not None
    dim, of_indices = write.slices.along[which], write.slices.indices_along[which]
    bounds = [shape[dim] * part // PARTS for part in range(PARTS + 1)]
    mode = "drop" if write.mode == "fill" else "promise_in_bounds"
    parts = []
    for start, stop in pairwise(bounds):
        of = (*shape[:dim], stop - start, *shape[dim + 1 :])
        own, added = (lax.slice_in_dim(x, start, stop, axis=of_indices) for x in (indices, updates))
        length = added.shape[-1] if write.slices.indexed == (len(shape) - 1,) else 1  # where neighbours may meet
        at, numbers = Rows(of, write).element_of_each(own), widen(as_image(added), wide)
        parts.append(_add_numbers(at.reshape(-1, length), numbers.reshape(-1, length), prod(of), mode).reshape(of))
    return lax.concatenate(parts, dim).astype(updates.dtype)


def _add_numbers(at: jax.Array, numbers: jax.Array, count: int, mode: str) -> jax.Array:
    """The sum of the numbers for each element: (count,), of the type of `numbers`.

    Args:
      at: the number of the element of each update, (rows, length); `count` drops it.
      numbers: what is added, of the same shape.
      count: of elements.
      mode: "drop", or "promise_in_bounds" where nothing is dropped.
    """
    rows, length = at.shape
    places = rows * PLACES
    if length < SHORTEST or places + count >= 2**31:
        return jnp.zeros(count, numbers.dtype).at[at.reshape(-1)].add(numbers.reshape(-1), mode=mode)
    often = lax.optimization_barrier(_met_most_often(at))  # else it is found anew for every update
    row, turn = (lax.broadcasted_iota(jnp.int32, at.shape, d) for d in (0, 1))
    place = row * np.int32(PLACES) + (turn & np.int32(PLACES - 1))
    own = jnp.where(at == often[:, None], place, at + np.int32(places))
    sums = jnp.zeros(places + count, numbers.dtype).at[own.reshape(-1)].add(numbers.reshape(-1), mode=mode)
    of_places = sums[:places].reshape(rows, PLACES).sum(1)
    return sums.at[often + np.int32(places)].add(of_places, mode=mode)[places:]


def _met_most_often(at: jax.Array) -> jax.Array:
    """Of each row the element that two of three samples are, if any two are the same."""
    first, middle, last = (at[:, i] for i in (0, at.shape[1] // 2, -1))
    return jnp.where(middle == last, last, first)
