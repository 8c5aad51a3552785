"""DirectML's index rule, for every gather and scatter: a negative index counts from the end, then the mode decides."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .scatter_rows import Write, check_sortable
from .values.bit_exact import index_dtype


def resolve(indices: jax.Array, sizes: Sequence[int]) -> jax.Array:
    """Adds the size to negative indices, once, and converts every index dtype to int32, or to int64 for larger sizes.

    An index that the type cannot hold becomes its least or greatest number, and so stays out of range on its side.
    """
    target = index_dtype(sizes)
    largest = np.iinfo(target).max
    if jnp.issubdtype(indices.dtype, jnp.unsignedinteger):
        # An unsigned index is never negative. 2**32 - 1 would be cast to -1, the last element: it stays out of range.
        if indices.dtype.itemsize >= target.itemsize:
            indices = jnp.minimum(indices, np.asarray(largest, indices.dtype))
        return indices.astype(target)
    if indices.dtype.itemsize < target.itemsize:
        # Before the size is added: no int8 holds the size of 200.
        indices = indices.astype(target)
    # Once only: of 5 elements, -1 is 4 and -7 is -2, which is out of range: there the mode decides.
    wrapped = jnp.where(indices < 0, indices + sizes_row(sizes, indices), indices)
    if indices.dtype.itemsize > target.itemsize:
        # Only now, as the size may still bring an index into range. All that are negative yet are as good as -1.
        wrapped = jnp.clip(wrapped, np.asarray(-1, indices.dtype), np.asarray(largest, indices.dtype))
    return wrapped.astype(target)


def sizes_row(sizes: Sequence[int], indices: jax.Array) -> Any:
    """Returns the sizes as a row that broadcasts against `indices`; symbolic sizes are computed by the program."""
    if all(isinstance(n, int) for n in sizes):
        row = np.asarray(sizes, indices.dtype)
    else:
        row = jnp.stack([jnp.asarray(n).astype(indices.dtype) for n in sizes])
    return row.reshape((1,) * (indices.ndim - 1) + (-1,))


def check_order(indices: jax.Array, input: Any, write: Write) -> None:
    """Refuses deterministic sums of updates that cannot be sorted: in this call, although a gradient is traced later.

    Raises:
      ConstraintError: a size is symbolic, or there are 2**31 elements or updates.
    """
    # Only floats depend on the order of a sum, and only where several updates meet.
    if write.deterministic and not write.unique_indices and jnp.issubdtype(input.dtype, jnp.inexact):
        check_sortable("deterministic", indices, input.shape, write)
