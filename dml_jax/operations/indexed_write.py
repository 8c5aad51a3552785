"""Writes and reductions of one slice for each index tuple, by DirectML's index rule."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .gather_scatter_dimension_numbers import Slices
from .index_rule import check_order, resolve
from .programs.partition import TableShards, known_shards
from .promises import Promises, show_indices
from .scatter import scatter_slices
from .scatter_derivatives import reduce_slices
from .scatter_rows import Write
from .values.bit_exact import index_dtype


def write(
    input: Any,
    indices: Any,
    updates: Any,
    slices: Slices,
    *,
    mode: str,
    reduction: str | None,
    include_self: bool = True,
    promises: Promises,
) -> jax.Array:
    """Copies `input` and writes one slice of `updates` per index tuple, as lax.scatter does.

    Args:
      input: the array to copy.
      indices: integers [..., coordinates of a tuple]; they may be negative or out of range.
      updates: the slices.
      slices: which dimensions of `input` the tuples address, and where the slices stand in `updates`.
      mode: a `WriteMode`: where an index out of range writes.
      reduction: how an update is combined with the element; None replaces the element.
      include_self: whether an element that is reduced takes part itself.
      promises: the caller's promises about the indices.
    """
    if 0 in updates.shape:
        return jnp.asarray(input)
    sizes = [input.shape[axis] for axis in slices.indexed]
    is_wide = indices.dtype == np.uint32 and index_dtype(sizes) == np.int32
    if mode == "drop" and is_wide and not promises.indices_are_sorted:
        # Indices beyond 31 bits become negative, and XLA drops these too. So the indices are not stored a second time.
        indices = lax.bitcast_convert_type(indices, jnp.int32)
    else:
        indices = resolve(indices, sizes)
    lax_mode = "fill" if mode == "drop" else mode
    how = Write(slices, lax_mode, promises.unique_indices, promises.indices_are_sorted, promises.deterministic)
    if shards := known_shards():
        of = shards.operands
        how = replace(how, shards=TableShards(of["input"], of["indices"], of["updates"]))
    indices = show_indices(indices, input.shape, how)
    if reduction is None:
        return scatter_slices(indices, input, updates, how)
    # Minima and maxima are the same in any order.
    if reduction in ("add", "mul", "mean"):
        check_order(indices, input, how)
    return reduce_slices(indices, input, updates, how, reduction, include_self)
