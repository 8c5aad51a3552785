"""The reader of indices: arrays of integers, or lists of Python integers, whose numbers stay the same."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ...errors import DataTypeError, describe, message
from ..rules import check, integer_indices
from .arrays import as_array, is_read, on_context_mesh

_LIMITS = np.iinfo(np.int64)


def as_indices(operator: str, name: str, value: Any) -> Any:
    """Returns an index array; a concrete 64-bit one is clamped exactly into 32 bits when x64 is off.

    Clamping keeps the meaning: an index that 32 bits cannot hold is out of range, and stays so. A Python integer, or a
    list of them, becomes the array that NumPy makes of it.

    Raises:
      DataTypeError: not an array of integers, or a traced 64-bit array while x64 is off.
    """
    if is_read(value):
        return value
    if type(value) is int or isinstance(value, list | tuple):
        value = _as_numbers(operator, name, value)
    array = as_array(operator, name, value)
    check(operator, (integer_indices(name),), {name: array})
    narrow = jax.dtypes.canonicalize_dtype(array.dtype)
    if narrow == array.dtype:
        return on_context_mesh(array)
    if isinstance(array, Tracer):
        fact = f"jax_enable_x64 is off: enable it where they are traced, or convert them by .astype(np.{narrow})"
        raise DataTypeError(message(operator, "traced 64-bit indices need 64-bit types", fact, {name: array}))
    limits = np.iinfo(narrow)
    return on_context_mesh(np.clip(np.asarray(array), limits.min, limits.max).astype(narrow))


def _as_numbers(operator: str, name: str, value: int | Sequence[Any]) -> np.ndarray:
    """Returns Python integers as an array of 64 bits, into which they are clamped; an empty list has integers, too."""
    try:
        return np.asarray(_clamp(value), np.int64)
    except (TypeError, ValueError) as error:
        rule = f"{name} must be an array, or integers in lists of one length each"
        fact = f"{error}" if isinstance(error, TypeError) else "the lengths differ"
        raise DataTypeError(message(operator, rule, fact, {name: value})) from None


def _clamp(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*map(_clamp, value)]
    if type(value) is int or isinstance(value, np.integer):
        return min(max(int(value), _LIMITS.min), _LIMITS.max)
    raise TypeError(f"they hold {describe(value)}")
