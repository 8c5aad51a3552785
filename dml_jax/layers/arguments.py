"""Readers of the arguments of these functions: numbers of groups, and how many groups there are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.arguments.indices import as_indices
from ..core.arguments.static_values import as_int
from ..errors import ConstraintError, DataTypeError, message

_LIMITS = np.iinfo(np.int32)


def check_dimensions(function: str, name: str, array: jax.Array | np.ndarray, *dimensions: str) -> None:
    """Refuses an array that has not these dimensions, such as "token" and "expert"."""
    if array.ndim != len(dimensions):
        rule, fact = f"{name} must be [{', '.join(dimensions)}]", f"its shape is {array.shape}"
        raise ConstraintError(message(function, rule, fact, {name: array}))


def check_floats(function: str, name: str, array: jax.Array | np.ndarray) -> None:
    """Refuses an array of other numbers."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        rule, fact = f"{name} must be floats", f"they are {array.dtype}"
        raise DataTypeError(message(function, rule, fact, {name: array}))


def as_int32(function: str, name: str, value: Any, *dimensions: str) -> jax.Array:
    """Returns integers as int32; those beyond its range are clamped.

    Raises:
      ConstraintError: `dimensions` are given, and the array has others.
      DataTypeError: no array of integers and no list of them.
    """
    array = as_indices(function, name, value)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        rule, fact = f"{name}.dtype must be an integer type", f"it is {array.dtype}"
        raise DataTypeError(message(function, rule, fact, {name: array}))
    if dimensions:
        check_dimensions(function, name, array, *dimensions)
    if np.iinfo(array.dtype).max > _LIMITS.max:
        array = jnp.clip(array, max(_LIMITS.min, np.iinfo(array.dtype).min), _LIMITS.max)
    return jnp.asarray(array, np.int32)


def as_groups(function: str, value: Any, dimension: str) -> jax.Array:
    """Returns the groups of rows as int32 [dimension]; a negative number becomes the greatest one: none is counted.

    Raises:
      ConstraintError: other dimensions, or an Explicit mesh divides the rows.
      DataTypeError: no array of integers and no list of them.
    """
    group = as_int32(function, "group", value, dimension)
    check_whole(function, group=group)
    return jnp.where(group < 0, _LIMITS.max, group)


def check_whole(function: str, **arrays: jax.Array | np.ndarray) -> None:
    """Refuses rows that an Explicit mesh divides, as those of one group may lie on several devices."""
    for name, array in arrays.items():
        spec = jax.typeof(array).sharding.spec
        if any(axes is not None for axes in spec[:1]):
            rule = f"{name} must have all rows on each device: jax.reshard it, or call {function} in a jax.shard_map"
            raise ConstraintError(message(function, rule, f"its sharding is {spec}", arrays))


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
