"""Readers of the arguments of these functions: numbers of groups, and how many groups there are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.arguments.indices import as_indices
from ..core.arguments.static_values import as_int
from ..errors import ConstraintError, message

_LIMITS = np.iinfo(np.int32)


def as_int32(function: str, name: str, value: Any) -> jax.Array:
    """Returns integers as int32; those beyond its range are clamped.

    Raises:
      DataTypeError: no array of integers and no list of them.
    """
    array = as_indices(function, name, value)
    if np.iinfo(array.dtype).max > _LIMITS.max:
        array = jnp.clip(array, max(_LIMITS.min, np.iinfo(array.dtype).min), _LIMITS.max)
    return jnp.asarray(array, np.int32)


def as_count(function: str, name: str, value: Any, most: int | None = None) -> int:
    """Returns a static integer of at least 1, and at most `most`.

    Raises:
      ConstraintError: it is out of range.
      DataTypeError: no integer.
    """
    count = as_int(function, name, value)
    if count < 1 or (most is not None and count > most):
        rule = f"{name} must be at least 1" + ("" if most is None else f" and at most {most}")
        raise ConstraintError(message(function, rule, f"it is {count}", {name: count}))
    return count
