"""Reads of one slice for each index tuple, by DirectML's index rule."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .data_movement import back_with_number
from .gather import Read, gather_slices
from .gather_scatter_dimension_numbers import Slices
from .index_rule import check_order, resolve, sizes_row
from .programs.partition import TableShards, known_shards
from .promises import Promises, show_indices
from .values.bit_exact import as_guarded_bits, carry_bits


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
      mode: a `ReadMode`: the element that an index out of range reads.
      fill_value: the number that `mode="fill"` reads there, of the dtype of `input`; None for zero.
      promises: the caller's promises about the indices.
      sorted_along_axis: whether the indices ascend along the axis that they replace.
    """
    sizes, shape = [input.shape[axis] for axis in slices.indexed], slices.shape(input.shape, indices.shape)
    if 0 in shape:
        return jnp.zeros(shape, input.dtype)
    indices = resolve(indices, sizes)
    # DirectML keeps reads inside of the array. "fill" reads the nearest element as well, and replaces it below:
    # lax.gather fills with a constant alone, and this number may be data that have a gradient.
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
    if shards := known_shards():
        of = shards.operands
        computed = shards.output  # indices that are no operand are sharded as the elements that they read
        how = replace(how, shards=TableShards(of["input"], of.get("indices", computed), shards.output))
    check_order(indices, input, how.transpose)
    indices = show_indices(indices, input.shape, how.transpose)
    values = gather_slices(indices, input, how)
    if mode != "fill":
        return values
    inside = jnp.all((indices >= 0) & (indices < sizes_row(sizes, indices)), axis=-1)
    slice_dims = [d for d in range(values.ndim) if d not in slices.placed]
    inside = lax.broadcast_in_dim(inside, values.shape, slice_dims)
    filling = jnp.zeros((), input.dtype) if fill_value is None else jnp.asarray(fill_value)
    back = back_with_number(jnp.where)
    return carry_bits(jnp.where, inside, values, filling, back=back, carry=as_guarded_bits)
