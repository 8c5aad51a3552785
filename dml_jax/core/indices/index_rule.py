"""DirectML's index rule, for every gather and scatter: a negative index counts from the end, then the mode decides."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...lowering.plain.scatter_rows import Write, check_sortable
from ...lowering.values.bit_exact import index_dtype
from ..rules import Operands, Rule, custom


def indexed_axes_not_empty(axes: Callable[[Operands], Sequence[int]]) -> Rule:
    """The indexed axes have elements, unless `indices` is empty; `axes` takes the operands and returns these axes."""

    def broken_by(x: Operands) -> str | None:
        if 0 in x["indices"].shape:
            return None
        empty = [axis for axis in axes(x) if x["input"].shape[axis] == 0]
        return f"dimension {empty[0]} has size 0" if empty else None

    text = "{input} must have elements along the indexed dimensions when {indices} is not empty"
    return custom("indexed_axes_not_empty", text, broken_by)


def along_axis(rank: int, axis: int) -> tuple[list[str], list[str]]:
    """Returns names for the dimensions of an array, and of indices that replace one axis of it: see `Dims`."""
    names, axis = [f"input {d}" for d in range(rank)], axis % rank
    return names, [*names[:axis], "q", *names[axis + 1 :]]


def resolve(indices: jax.Array, sizes: Sequence[int]) -> jax.Array:
    """Adds the size to negative indices, once, and converts every index dtype to int32, or to int64 for larger sizes.

    An index that the type cannot hold becomes its least or greatest number, and so stays out of range on its side.
    """
    target = index_dtype(sizes)
    largest = np.iinfo(target).max
    if jnp.issubdtype(indices.dtype, jnp.unsignedinteger):
        if indices.dtype.itemsize >= target.itemsize:
            indices = jnp.minimum(indices, np.asarray(largest, indices.dtype))
        return indices.astype(target)
    if indices.dtype.itemsize < target.itemsize:
        indices = indices.astype(target)
    wrapped = jnp.where(indices < 0, indices + sizes_row(sizes, indices), indices)
    if indices.dtype.itemsize > target.itemsize:
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
    """Refuses deterministic sums of updates that cannot be sorted: now, as a gradient is traced later.

    Raises:
      ConstraintError: a size is symbolic, or there are 2**31 elements or updates.
    """
    if write.deterministic and not write.unique_indices and jnp.issubdtype(input.dtype, jnp.inexact):
        check_sortable("deterministic", indices, input.shape, write)
