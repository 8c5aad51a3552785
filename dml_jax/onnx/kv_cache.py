"""KV cache: appends new keys and values to the past, or writes them into a buffer with room for more."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import ConstraintError
from ..operators._attention_formulas import append
from ..operators._pad import pad
from .operand_checks import check_shape
from .values import Array, on_device


def append_keys(past: Array | None, new: jax.Array, room: int, starts: Any, dtype: Any) -> jax.Array:
    """Appends new keys or values, rounded to `dtype`, to those of the past, or writes them into its room.

    Args:
      past: (batch, heads, keys, size), or None.
      new: the new ones, of the same dimensions.
      room: how many keys the result has; a shorter past is padded with zeros.
      starts: per row of the batch, the index of its first new key; or None: they come after the past.
      dtype: of the past.
    """
    new = new.astype(dtype)
    if past is None:
        return append(None, new, None)
    past = on_device(past)
    missing = 0 if starts is None else room - past.shape[2]
    past = pad(past, (0, 0, 0, 0), (0, 0, missing, 0)) if missing else past
    return append(past, new, None if starts is None else on_device(starts))


def check_room(output: jax.Array, ends: Any, room: int) -> jax.Array:
    """Returns the output with NaN in the rows of a batch whose keys have no room in the cache.

    Args:
      output: (batch, queries, width).
      ends: how many keys each row of the batch has, those of the past and new ones.
      room: keys that the cache has room for.

    Raises:
      ConstraintError: it is known that there is too little room.
    """
    if isinstance(ends, Tracer):
        return jnp.where((ends <= room).reshape(-1, 1, 1), output, np.nan)
    if (np.asarray(ends) > room).any():
        raise ConstraintError(f"a cache of {room} keys must have room for all of them, but there are {max(ends)}")
    return output


def fit_keys(name: str, array: Array, total: int | None, room: int) -> jax.Array:
    """Pads numbers of keys, along the last dimension, with zeros up to the room of the cache.

    Args:
      name: of the operand.
      array: any rank.
      total: how many keys there are; None while that is data.
      room: keys that there is room for.

    Raises:
      OnnxError: it has not a number for each key.
    """
    check_shape(name, array, (*(None,) * (array.ndim - 1), total))
    missing = room - array.shape[-1]
    if missing < 0:
        raise ConstraintError(f"{name} must have numbers for at most {room} keys, but it has {array.shape[-1]}")
    array = on_device(array)
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)]) if missing else array
