"""Routing of rows to groups and back, such as tokens to experts: sorted by group, or in buffers of a capacity.

Every token is copied once for each of its experts, so every move names each copy once: no gradient is a sum by index.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.arguments.arrays import as_data
from ..errors import ConstraintError, DataTypeError, message
from ..operations.softmax import softmax
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ..operators import cumulative_summation, gather, gather_elements, scatter_elements, scatter_nd
from .arguments import as_count, as_groups, as_int32, check_dimensions, check_floats

Array = jax.Array | np.ndarray


def route(logits: Array, k: int) -> tuple[jax.Array, jax.Array]:
    """Chooses the `k` likeliest experts of each token.

    Ties go to the lower expert. The choice has no derivative; the weights have.

    Args:
      logits: floats [token, expert]; of float32, as small differences choose.
      k: how many, at most as many as there are experts.

    Returns:
      The experts of each token, int32 [token, k], the likeliest first; and their weights [token, k], the softmax over
      all experts at the chosen ones, which add up to 1 only if all are chosen. A token whose logits are all -inf has
      NaN, and derivatives of 0.

    Raises:
      ConstraintError: sizes that do not fit.
      DataTypeError: no arrays, or other types.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax.layers import route
      >>> expert, weight = route(jnp.log(jnp.float32([[1, 6, 3], [5, 0, 5]])), 2)
      >>> print(expert, weight.round(3))
      [[1 2]
       [0 2]] [[0.6 0.3]
       [0.5 0.5]]

    Source: top-k gating of mixtures of experts (Shazeer et al., 2017), without noise.
    """
    logits = as_data("route", "logits", logits)
    check_dimensions("route", "logits", logits, "token", "expert")
    check_floats("route", "logits", logits)
    wide = jnp.asarray(logits, wide_type(logits.dtype))
    _, expert = lax.top_k(lax.stop_gradient(wide), as_count("route", "k", k, most=logits.shape[-1]))
    weight = gather_elements(softmax(wide, (-1,)), expert, axis=1, unique_indices=True)
    return expert, narrow_apart(weight, logits.dtype)


def weighted_sum(copies: Array, weight: Array) -> jax.Array:
    """Adds up the `k` copies of each token, times their weights.

    Args:
      copies: [token * k, width], the copies of a token one after the other, as `jnp.repeat(tokens, k, axis=0)`.
      weight: [token, k].

    Returns:
      [token, width].

    Raises:
      ConstraintError: sizes that do not fit.
      DataTypeError: no arrays, or other types.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax.layers import weighted_sum
      >>> print(weighted_sum(jnp.float32([[1], [2], [3], [4]]), jnp.float32([[0.5, 0.5], [1, 0]])))
      [[1.5]
       [3. ]]

    Source: the last step of mixtures of experts.
    """
    copies, weight = as_data("weighted_sum", "copies", copies), as_data("weighted_sum", "weight", weight)
    if weight.ndim != 2 or copies.shape[:1] != (weight.size,):
        rule, fact = "copies must have a row for each of weight [token, k]", f"its shape is {copies.shape}"
        raise ConstraintError(message("weighted_sum", rule, fact, {"copies": copies, "weight": weight}))
    return jnp.einsum("tkw,tk->tw", jnp.reshape(copies, (*weight.shape, -1)), weight)


def group_sizes(group: Array, groups: int) -> jax.Array:
    """Counts the rows of each group, as `jax.lax.ragged_dot` takes them.

    Args:
      group: integers [row]. A row whose number is not in [0, groups), such as -1 of padding, belongs to none.
      groups: how many.

    Returns:
      int32 [group].

    Raises:
      ConstraintError: other dimensions, a number below 1, or an Explicit mesh divides the rows.
      DataTypeError: no integers.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax.layers import group_sizes
      >>> print(group_sizes(jnp.int32([2, 0, 0]), 3))
      [2 0 1]

    Source: `jax.lax.ragged_dot`.
    """
    group, groups = as_groups("group_sizes", group, "row"), as_count("group_sizes", "groups", groups)
    return scatter_elements(jnp.zeros(groups, jnp.int32), group, jnp.ones_like(group), axis=0, reduction="add")


def sort_by_group(group: Array) -> tuple[jax.Array, jax.Array]:
    """Finds the permutation that sorts rows by group, and its inverse; both are for `permute_rows`.

    Args:
      group: integers [row]. Rows of one group stay in order; those of negative numbers, such as padding, come last.

    Returns:
      Two arrays, int32 [row].

    Raises:
      ConstraintError: other dimensions, or an Explicit mesh divides the rows.
      DataTypeError: no integers.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax.layers import sort_by_group
      >>> order, inverse = sort_by_group(jnp.int32([2, 0, 0]))
      >>> print(order, inverse)
      [1 2 0] [2 0 1]

    Source: the permutation of dropless mixtures of experts (Gale et al., 2023).
    """
    order = jnp.argsort(as_groups("sort_by_group", group, "row"))
    places = jnp.arange(order.size, dtype=order.dtype)
    return order, scatter_elements(places, order, places, axis=0, unique_indices=True)


def permute_rows(rows: Array, order: Array) -> jax.Array:
    """Reads rows in another order. Its gradient is a read, too, as the indices are promised to be a permutation.

    Args:
      rows: [row, ...].
      order: integers [row], every number in [0, rows) once; anything else is undefined.

    Returns:
      An array of the shape and dtype of `rows`.

    Raises:
      ConstraintError: sizes that do not fit.
      DataTypeError: no arrays, or other types.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax.layers import permute_rows
      >>> print(permute_rows(jnp.float32([1, 2, 3]), jnp.int32([1, 2, 0])))
      [2. 3. 1.]

    Source: `gather` with promises.
    """
    return gather(rows, order, axis=0, mode="promise_in_bounds", unique_indices=True)


def buffer_slots(group: Array, groups: int, capacity: int) -> jax.Array:
    """Finds the row of each copy in the buffers of all groups, end to end; `dispatch` and `collect` take it.

    A buffer takes the first `capacity` copies of its group, and the others are dropped.

    Args:
      group: integers [copy]. A copy whose number is not in [0, groups), such as -1 of padding, is dropped.
      groups: how many.
      capacity: rows of each buffer.

    Returns:
      int32 [copy]: group * capacity + place, and groups * capacity for a copy that is dropped.

    Raises:
      ConstraintError: other dimensions, a number below 1, or an Explicit mesh divides the rows.
      DataTypeError: no integers.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax.layers import buffer_slots
      >>> print(buffer_slots(jnp.int32([2, 0, 0]), 3, capacity=1))
      [2 0 3]

    Source: the capacity of experts (Lepikhin et al., 2021).
    """
    group, groups = as_groups("buffer_slots", group, "copy"), as_count("buffer_slots", "groups", groups)
    capacity = as_count("buffer_slots", "capacity", capacity)
    arrivals = cumulative_summation(jax.nn.one_hot(group, groups, dtype=jnp.int32), axis=0)
    place = gather_elements(arrivals, group[:, None], axis=1)[:, 0] - 1
    return jnp.where((group < groups) & (place < capacity), group * capacity + place, groups * capacity)


def dispatch(copies: Array, slot: Array, buffers: Array) -> jax.Array:
    """Writes copies into the buffers of their groups, and drops those that have no slot. Its gradient is a read.

    Args:
      copies: [copy, width].
      slot: int32 [copy], as `buffer_slots` returns them.
      buffers: [group, capacity, width], such as zeros; rows that no copy has keep their content.

    Returns:
      An array of the shape and dtype of `buffers`.

    Raises:
      ConstraintError: sizes that do not fit.
      DataTypeError: no arrays, or other types.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax.layers import dispatch
      >>> print(dispatch(jnp.float32([[1], [2], [3]]), jnp.int32([2, 0, 3]), jnp.zeros((3, 1, 1))).ravel())
      [2. 0. 1.]

    Source: the capacity of experts (Lepikhin et al., 2021).
    """
    rows, slot = _rows("dispatch", buffers), as_int32("dispatch", "slot", slot, "copy")
    copies = as_data("dispatch", "copies", copies)
    operands, wanted = {"copies": copies, "slot": slot, "buffers": buffers}, (slot.size, rows.shape[1])
    if copies.shape != wanted:
        rule = f"copies must be [copy, width], a row for each slot: {wanted}"
        raise ConstraintError(message("dispatch", rule, f"its shape is {copies.shape}", operands))
    if copies.dtype != rows.dtype:
        rule = f"copies must have the dtype of buffers, {rows.dtype}"
        raise DataTypeError(message("dispatch", rule, f"it is {copies.dtype}", operands))
    written = scatter_nd(rows, slot[:, None], copies, mode="drop", unique_indices=True)
    return written.reshape(buffers.shape)


def collect(buffers: Array, slot: Array) -> jax.Array:
    """Reads the copies back, 0 for those that were dropped. Its gradient stores rows, and adds none.

    Args:
      buffers: [group, capacity, width].
      slot: int32 [copy], as `buffer_slots` returns them.

    Returns:
      [copy, width].

    Raises:
      ConstraintError: sizes that do not fit.
      DataTypeError: no arrays, or other types.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax.layers import collect
      >>> print(collect(jnp.float32([[[2]], [[0]], [[1]]]), jnp.int32([2, 0, 3])).ravel())
      [1. 2. 0.]

    Source: the capacity of experts (Lepikhin et al., 2021).
    """
    return gather(_rows("collect", buffers), slot, axis=0, mode="fill", unique_indices=True)


def _rows(function: str, buffers: Array) -> Array:
    """Returns the rows of all buffers, end to end."""
    buffers = as_data(function, "buffers", buffers)
    check_dimensions(function, "buffers", buffers, "group", "capacity", "width")
    groups, capacity, width = buffers.shape
    return buffers.reshape(groups * capacity, width)
