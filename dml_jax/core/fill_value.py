"""The fill value of reads out of range: a number that the data type holds."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConstraintError, DataTypeError, describe, message
from ..lowering.bits import is_key

__all__ = ["Number", "as_fill"]

# Of any Python or NumPy type; an array has no dimensions and is known while tracing.
Number = complex | np.generic | np.ndarray | jax.Array


def as_fill(operator: str, name: str, fill_value: Any, input: Any, mode: str) -> Any:
    """Returns the fill value as a 0-d array of the input's dtype: traced, so that a new value compiles nothing.

    Raises:
      ConstraintError: a fill value without mode="fill".
      DataTypeError: no number, or one that the dtype of `input` cannot hold.
    """
    if mode != "fill":
        if fill_value is None:
            return None
        rule = f'{name} needs mode="fill"'
        raise ConstraintError(message(operator, rule, f"mode is {mode!r}", {name: fill_value}))
    value = _as_number(0 if fill_value is None else fill_value)
    filled = None if value is None or is_key(input) else _converted(value, input.dtype)
    if value is not None and filled is not None and _holds(filled, value):
        return filled
    rule = f"{name} must be a number (0 if not given), known while tracing, that {input.dtype} holds"
    fact = f"it is {describe(fill_value)}"
    raise DataTypeError(message(operator, rule, fact, {"input": input, name: fill_value}))


def _as_number(value: Any) -> np.ndarray | None:
    """A concrete number as a 0-d array; None for anything else."""
    try:
        array = np.asarray(value)
    except Exception:  # ragged lists, traced values, whatever an __array__ raises
        return None
    return array if array.ndim == 0 and array.dtype.kind in "biufcV" else None


def _converted(value: np.ndarray, dtype: Any) -> np.ndarray:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return value.astype(dtype)


def _holds(converted: np.ndarray, value: np.ndarray) -> bool:
    """Whether a conversion kept the number: rounding to a float is fine, overflow and truncation are not."""
    if value.dtype.kind == "c" and converted.dtype.kind != "c":
        return False
    if jnp.issubdtype(converted.dtype, jnp.inexact):
        return bool(np.isnan(value) == np.isnan(converted) and np.isinf(value) == np.isinf(converted))
    return bool(converted == value)
