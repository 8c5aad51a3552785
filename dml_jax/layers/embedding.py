"""Embedding tables larger than a device: sharded by rows over an axis of a mesh, inside of jax.shard_map."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.arguments.arrays import as_data
from ..errors import ConstraintError, message
from ..operations.row_exchange import AxisName, fetch_rows, send_rows
from ..operators import gather, scatter_elements, scatter_nd
from .arguments import as_count, as_int32

Array = jax.Array | np.ndarray


def embedding_lookup(table: Array, ids: Array, axis_name: AxisName) -> jax.Array:
    """Reads rows of a table that is sharded by rows. Only the ids, and the rows that they name, travel.

    Each device calls it inside of `jax.shard_map`, with its part of the table and its own ids. Its gradient sends the
    cotangents of rows to the devices that have them, where they are added up.

    Args:
      table: [row, width], the rows of this device, of any type. The parts of all devices along the axis follow each
        other and have equal sizes.
      ids: integers of any shape, numbers of rows of the whole table. A negative one counts from the end, once; one out
        of range reads the nearest row. All devices have equally many.
      axis_name: of the mesh axis that shards the table, or a tuple of several.

    Returns:
      `[*ids.shape, width]`, of the type of `table`: the bits of `gather` from the whole table.

    Raises:
      ConstraintError: not inside of a `jax.shard_map` over the axis, operands that are sharded over other Explicit
        axes, a `table` without two dimensions or rows, or 2**31 rows on all devices.
      DataTypeError: no arrays, or ids that are no integers.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from dml_jax.layers import embedding_lookup
      >>> mesh = jax.make_mesh((1,), ("rows",))
      >>> def lookup(table, ids):
      ...     return embedding_lookup(table, ids, "rows")
      >>> lookup = jax.shard_map(lookup, mesh=mesh, in_specs=jax.P("rows"), out_specs=jax.P("rows"))
      >>> table = jax.device_put(jnp.float32([[0, 1], [2, 3], [4, 5]]), jax.NamedSharding(mesh, jax.P("rows")))
      >>> ids = jax.device_put(jnp.int32([2, 0]), jax.NamedSharding(mesh, jax.P("rows")))
      >>> print(jax.jit(lookup)(table, ids))
      [[4. 5.]
       [0. 1.]]

    Source: tf.nn.embedding_lookup, of a sharded table.
    """
    name = "embedding_lookup"
    table, ids = jnp.asarray(as_data(name, "table", table)), as_int32(name, "ids", ids)
    if table.ndim != 2 or table.shape[0] == 0:
        rule = "table must be [row, width], with at least one row"
        raise ConstraintError(message(name, rule, f"its shape is {table.shape}", {"table": table}))
    count = _row_count(name, table.shape[0], axis_name, {"table": table, "ids": ids})
    if 0 in (ids.size, table.shape[1]):
        return jnp.zeros((*ids.shape, table.shape[1]), table.dtype)
    owner, place = _requests(ids.reshape(-1), table.shape[0], count, axis_name)
    return fetch_rows(owner, place, table, axis_name).reshape(*ids.shape, table.shape[1])


def embedding_gradients(ids: Array, gradients: Array, rows: int, axis_name: AxisName) -> tuple[jax.Array, jax.Array]:
    """Sends gradients of rows to the devices that have them: the gradient of `embedding_lookup`, but not dense.

    An optimizer then reads and writes only the rows that were read. `coalesce` adds up the gradients of one row.

    Args:
      ids: as `embedding_lookup` takes them.
      gradients: `[*ids.shape, width]`, of any type.
      rows: of the table, on one device.
      axis_name: as `embedding_lookup` takes it.

    Returns:
      Two arrays with a slot for each id of all devices, in the order of devices: the row of this device, int32 [slot],
      and its gradient [slot, width]. A slot whose row another device has is `rows`, which a scatter with `mode="drop"`
      leaves out, and has the gradient 0.

    Raises:
      ConstraintError: not inside of a `jax.shard_map` over the axis, operands that are sharded over other Explicit
        axes, or sizes that do not fit.
      DataTypeError: no arrays, or ids that are no integers.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from dml_jax.layers import embedding_gradients
      >>> mesh = jax.make_mesh((1,), ("rows",))
      >>> def received(ids, gradients):
      ...     return embedding_gradients(ids, gradients, 4, "rows")
      >>> received = jax.shard_map(received, mesh=mesh, in_specs=jax.P("rows"), out_specs=jax.P("rows"))
      >>> by_token = jax.NamedSharding(mesh, jax.P("rows"))
      >>> ids, gradients = jax.device_put((jnp.int32([2, 0, 2]), jnp.float32([[1], [2], [3]])), by_token)
      >>> row, gradient = jax.jit(received)(ids, gradients)
      >>> print(row, gradient.ravel())
      [2 0 2] [1. 2. 3.]

    Source: tf.IndexedSlices, sparse gradients of torch.nn.Embedding.
    """
    name = "embedding_gradients"
    ids, gradients = as_int32(name, "ids", ids), jnp.asarray(as_data(name, "gradients", gradients))
    rows = as_count(name, "rows", rows)
    if gradients.ndim != ids.ndim + 1 or gradients.shape[:-1] != ids.shape:
        rule, fact = "gradients must be [*ids.shape, width]", f"its shape is {gradients.shape}"
        raise ConstraintError(message(name, rule, fact, {"ids": ids, "gradients": gradients}))
    count = _row_count(name, rows, axis_name, {"ids": ids, "gradients": gradients})
    if ids.size == 0:
        return jnp.zeros(0, jnp.int32), jnp.zeros((0, gradients.shape[-1]), gradients.dtype)
    owner, place = _requests(ids.reshape(-1), rows, count, axis_name)
    received = send_rows(owner, gradients.reshape(ids.size, -1), axis_name)
    row = jnp.where(owner == lax.axis_index(axis_name), place, rows)
    return row.reshape(-1), received.reshape(row.size, -1)


def coalesce(rows: Array, gradients: Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Adds up the gradients of each row, so that an optimizer with a state for each row sees every row once.

    Args:
      rows: integers [slot], numbers in [0, count); others are dropped.
      gradients: [slot, width]. Floats of 8 and 16 bits are added in float32 and rounded once.
      count: how many rows the table has.

    Returns:
      The rows, each in the slot where it was first, int32 [slot], and `count` in all other slots; and the sums
      [slot, width], 0 in the other slots.

    Raises:
      ConstraintError: sizes that do not fit, or 2**31 rows.
      DataTypeError: no arrays, or rows that are no integers.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax.layers import coalesce
      >>> row, total = coalesce(jnp.int32([2, 0, 2]), jnp.float32([[1], [2], [3]]), 4)
      >>> print(row, total.ravel())
      [2 0 4] [4. 2. 0.]

    Source: torch.Tensor.coalesce.
    """
    name = "coalesce"
    rows, gradients = as_int32(name, "rows", rows), jnp.asarray(as_data(name, "gradients", gradients))
    count = as_count(name, "count", count, 2**31 - 1)
    if rows.ndim != 1 or gradients.ndim != 2 or rows.shape != gradients.shape[:1]:
        rule, fact = "gradients must be [slot, width], with a slot for each of rows", f"its shape is {gradients.shape}"
        raise ConstraintError(message(name, rule, fact, {"rows": rows, "gradients": gradients}))
    slots = jnp.arange(rows.size, dtype=jnp.int32)
    rows = jnp.where((rows < 0) | (rows > count), count, rows)
    first = scatter_elements(jnp.full(count, rows.size, jnp.int32), rows, slots, axis=0, reduction="min")
    slot = gather(first, rows, axis=0, mode="fill", fill_value=jnp.asarray(rows.size, jnp.int32))
    sums = scatter_nd(jnp.zeros_like(gradients), slot[:, None], gradients, reduction="add")
    return jnp.where(slot == slots, rows, count), sums


def _requests(ids: jax.Array, rows: int, count: int, axis: AxisName) -> tuple[jax.Array, jax.Array]:
    """The owner of each id of every device, and the place in its part, both [device, id]."""
    ids = jnp.clip(jnp.where(ids < 0, ids + count, ids), 0, count - 1)
    ids = lax.all_gather(ids, axis)
    return ids // rows, ids % rows


def _row_count(name: str, rows: int, axis: AxisName, operands: Mapping[str, jax.Array]) -> int:
    """How many rows the whole table has."""
    axes = axis if isinstance(axis, tuple) and axis else (axis,)
    known = jax.sharding.get_abstract_mesh().manual_axes
    if any(axes.count(one) > 1 or one not in known for one in axes):
        rule = "axis_name must be an axis of the jax.shard_map around the call, or a tuple of several"
        raise ConstraintError(message(name, rule, f"it is {axis!r}", operands))
    for key, x in operands.items():
        if any(spec := jax.typeof(x).sharding.spec):
            rule = f"{key} must be whole along Explicit axes of the mesh that the jax.shard_map leaves out"
            raise ConstraintError(message(name, rule, f"its sharding is {spec}", operands))
    count = rows * lax.axis_size(axis)
    if count >= 2**31:
        raise ConstraintError(message(name, "the table must have fewer than 2**31 rows", f"it has {count}", operands))
    return count
