"""Gathers by DirectML's index rule: a negative index counts from the end, then the mode decides."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...lowering.partition import TableShards, known_shards
from ...lowering.plain.gather import Read, gather_slices
from ...lowering.plain.moves import back_with_number
from ...lowering.plain.rows import Write, check_sortable
from ...lowering.plain.slices import Slices
from ...lowering.values.bits import carry_bits, hide_constant, index_dtype, is_narrow
from ..rules import Operands, Rule, custom, one_of
from .promises import Promises, show_indices

__all__ = [
    "READ_MODE",
    "ReadMode",
    "along_axis",
    "check_order",
    "indexed_axes_not_empty",
    "read",
    "resolve",
]

ReadMode = Literal["clip", "fill", "promise_in_bounds"]
READ_MODE = one_of("mode", get_args(ReadMode))


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


def read(
    input: Any,
    indices: Any,
    slices: Slices,
    *,
    mode: str,
    fill_value: Any,
    promises: Promises,
    sorted_along_axis: bool = False,
) -> jax.Array:
    """Reads one slice of `input` per index tuple, as lax.gather does.

    Args:
      input: the array to read.
      indices: integers [..., coordinates of a tuple]; they may be negative or out of range.
      slices: which dimensions of `input` the tuples address, and where the slices stand in the output.
      mode: a `ReadMode`: what an index out of range reads.
      fill_value: what `mode="fill"` reads there, of the dtype of `input`; None for zero.
      promises: what the caller promises about the indices.
      sorted_along_axis: whether the indices ascend along the axis that they replace.
    """
    sizes, shape = [input.shape[axis] for axis in slices.indexed], slices.shape(input.shape, indices.shape)
    if 0 in shape:
        return jnp.zeros(shape, input.dtype)
    indices = resolve(indices, sizes)
    lax_mode = "promise_in_bounds" if mode == "promise_in_bounds" else "clip"
    how = Read(
        slices,
        lax_mode,
        indices_are_sorted=promises.indices_are_sorted,
        sorted_along_axis=sorted_along_axis,
        unique_indices=promises.unique_indices,
        drops=mode == "fill",
        deterministic=promises.deterministic,
    )
    if mode == "fill" and is_narrow(input.dtype):  # whose bits are cast below: see hide_constant
        indices = indices + hide_constant(np.zeros((), indices.dtype))
    if shards := known_shards():
        of = shards.operands
        how = replace(how, shards=TableShards(of["input"], of["indices"], shards.output))
    check_order(indices, input, how.transpose)
    indices = show_indices(indices, input.shape, how.transpose)
    values = gather_slices(indices, input, how)
    if mode != "fill":
        return values
    inside = jnp.all((indices >= 0) & (indices < _row(sizes, indices)), axis=-1)
    kept = [d for d in range(values.ndim) if d not in slices.placed]
    inside = lax.broadcast_in_dim(inside, values.shape, kept)
    filling = jnp.zeros((), input.dtype) if fill_value is None else jnp.asarray(fill_value)
    return carry_bits(jnp.where, inside, values, filling, back=back_with_number(jnp.where))


def check_order(indices: jax.Array, input: Any, write: Write) -> None:
    """Refuses sums in one order of what cannot be sorted: now, as a gradient is traced later.

    Raises:
      ConstraintError: a size is symbolic, or there are 2**31 elements or updates.
    """
    if write.deterministic and not write.unique_indices and jnp.issubdtype(input.dtype, jnp.inexact):
        check_sortable("deterministic", indices, input.shape, write)


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
    wrapped = jnp.where(indices < 0, indices + _row(sizes, indices), indices)
    if indices.dtype.itemsize > target.itemsize:
        wrapped = jnp.clip(wrapped, np.asarray(-1, indices.dtype), np.asarray(largest, indices.dtype))
    return wrapped.astype(target)


def _row(sizes: Sequence[int], indices: jax.Array) -> Any:
    """Returns the sizes as a row that broadcasts against `indices`; symbolic sizes are computed by the program."""
    if all(isinstance(n, int) for n in sizes):
        row = np.asarray(sizes, indices.dtype)
    else:
        row = jnp.stack([jnp.asarray(n).astype(indices.dtype) for n in sizes])
    return row.reshape((1,) * (indices.ndim - 1) + (-1,))
