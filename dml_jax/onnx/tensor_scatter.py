"""ONNX's TensorScatter: writes new keys or values into a cache, in each row of the batch at an index of its own."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConstraintError
from ..operations.values.bit_exact import carry_bits
from .layout import axis_of
from .operand_checks import check_shape, check_value
from .values import Array, Operators, on_device


def tensor_scatter(
    *, past_cache: Array, update: Array, write_indices: Array | None = None, axis: int = -2, mode: str = "linear"
) -> jax.Array:
    """TensorScatter: in a circular cache of 4 rows, two of them are written at index 3 to rows 3 and 0.

    A linear one drops what lies outside of it.
    """
    check_value("mode", mode, ("linear", "circular"))
    along = axis_of("axis", axis, past_cache.ndim)
    if along == 0:
        raise ConstraintError("axis must not be 0, which is the batch, but it is")
    sizes = past_cache.shape
    check_shape("update", update, (*sizes[:along], None, *sizes[along + 1 :]))
    batch, room, count = sizes[0], sizes[along], update.shape[along]
    if count > room:
        raise ConstraintError(f"update must have at most the {room} rows of past_cache, but it has {count}")
    first: Any = jnp.zeros(batch, np.int32) if write_indices is None else write_indices
    check_shape("write_indices", first, (batch,))
    # Within [-room, room] before they become 32 bits: beyond it nothing is written.
    first = first % max(room, 1) if mode == "circular" else first.clip(-room, room)
    rows = on_device(first.astype(np.int32))[:, None] + np.arange(count, dtype=np.int32)[None]
    rows = rows % max(room, 1) if mode == "circular" else jnp.where(rows < 0, room - rows, rows)

    def write(rows: Any, cache: jax.Array, new: jax.Array) -> jax.Array:
        at = (jnp.arange(batch, dtype=np.int32)[:, None], *(slice(None),) * (along - 1), rows)
        return cache.at[at].set(jnp.moveaxis(new, along, 1), mode="drop", unique_indices=True)

    return carry_bits(write, rows, on_device(past_cache), on_device(update))


OPERATORS: Operators = {"TensorScatter": {24: tensor_scatter}}
