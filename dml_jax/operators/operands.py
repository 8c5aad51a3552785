"""What the operators accept as arrays and attributes, normalised before tracing so that nothing is narrowed."""

import operator as python
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import ConstraintError, DataTypeError, message
from ..rules import check, integer_indices

__all__ = ["as_data", "as_fill", "as_indices", "as_int", "as_name"]

_INTEGER = (integer_indices(),)


def as_data(operator: str, name: str, value: Any) -> Any:
    """Returns an array that JAX moves without narrowing it.

    Raises:
      DataTypeError: not an array, no type that JAX has, or 64-bit data while x64 is off.
    """
    if isinstance(value, jax.Array) and value.dtype.itemsize < 8:
        return value
    array = _as_array(operator, name, value)
    if _is_key(array) or jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype:
        return array
    rule = (
        f"{name} of type {array.dtype} needs 64-bit types: enable them (jax.config.update('jax_enable_x64', True), "
        f"or with jax.enable_x64(True) around the call), or convert {name} yourself"
    )
    raise DataTypeError(message(operator, rule, "jax_enable_x64 is off and JAX would narrow it", {name: array}))


def as_indices(operator: str, value: Any) -> Any:
    """Returns an index array; a concrete 64-bit one is clamped exactly into 32 bits when x64 is off.

    Clamping keeps the meaning: an index that 32 bits cannot hold is out of range, and stays so.

    Raises:
      DataTypeError: not an array of integers, or a traced 64-bit array while x64 is off.
    """
    if isinstance(value, jax.Array) and value.dtype.itemsize < 8:
        return value
    array = _as_array(operator, "indices", value)
    check(operator, _INTEGER, {"indices": array})
    narrow = jax.dtypes.canonicalize_dtype(array.dtype)
    if narrow == array.dtype:
        return array
    if isinstance(array, Tracer):
        rule = "traced 64-bit indices need 64-bit types: enable jax_enable_x64 where they are traced, or convert them"
        raise DataTypeError(message(operator, rule, "jax_enable_x64 is off", {"indices": array}))
    limits = np.iinfo(narrow)
    return np.clip(np.asarray(array), limits.min, limits.max).astype(narrow)


def as_int(operator: str, name: str, value: Any) -> int:
    """Returns a static Python integer.

    Raises:
      DataTypeError: a float, a bool, an array or a traced value.
    """
    if type(value) is int:
        return value
    try:
        if isinstance(value, bool | np.bool_ | Tracer):
            raise TypeError
        return python.index(value)
    except TypeError:
        rule = f"{name} must be a Python integer, known while tracing"
        raise DataTypeError(message(operator, rule, f"it is {type(value).__name__}", {name: value})) from None


def as_name(operator: str, name: str, value: Any) -> str:
    """Returns a static string; which ones are accepted is the operator's rule.

    Raises:
      DataTypeError: anything but a string.
    """
    if isinstance(value, str):
        return value
    raise DataTypeError(message(operator, f"{name} must be a string", f"it is {type(value).__name__}", {name: value}))


def as_fill(operator: str, input: Any, mode: str, fill_value: Any) -> Any:
    """Returns the fill value as a 0-d array of the input's dtype: traced, so that a new value compiles nothing.

    Raises:
      ConstraintError: a fill value without mode="fill".
      DataTypeError: no number, or one that the dtype of `input` cannot hold.
    """
    if mode != "fill":
        if fill_value is None:
            return None
        rule = 'fill_value needs mode="fill"'
        raise ConstraintError(message(operator, rule, f"mode is {mode!r}", {"fill_value": fill_value}))
    if fill_value is None and not _is_key(input):
        return np.zeros((), input.dtype)
    value = None if isinstance(fill_value, Tracer) else np.asarray(fill_value)
    filled = None
    if value is not None and value.ndim == 0 and value.dtype.kind in "biufcV" and not _is_key(input):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            filled = value.astype(input.dtype)
    if value is None or filled is None or not _holds(filled, value):
        rule = f"fill_value must be a number that {input.dtype} holds"
        raise DataTypeError(
            message(operator, rule, f"it is {fill_value!r}", {"input": input, "fill_value": fill_value})
        )
    return filled


def _holds(converted: np.ndarray, value: np.ndarray) -> bool:
    """Whether a conversion kept the number: rounding to a float is fine, overflow and truncation are not."""
    if value.dtype.kind == "c" and converted.dtype.kind != "c":
        return False
    if jnp.issubdtype(converted.dtype, jnp.inexact):
        return bool(np.isnan(value) == np.isnan(converted) and np.isinf(value) == np.isinf(converted))
    return bool(converted == value)


def _is_key(array: Any) -> bool:
    """Whether the elements are jax.random keys: moved, but no numbers."""
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def _as_array(operator: str, name: str, value: Any) -> Any:
    """An array of a type that JAX has: jax, NumPy, Python integer, or anything with `__jax_array__`."""
    if not isinstance(value, jax.Array) and hasattr(value, "__jax_array__"):
        value = value.__jax_array__()
    if isinstance(value, jax.Array):
        return value
    if not isinstance(value, np.ndarray | np.generic) and type(value) is not int:
        rule = f"{name} must be an array (jax.Array or numpy.ndarray); jax.numpy.asarray makes one"
        raise DataTypeError(message(operator, rule, f"it is {type(value).__name__}", {name: value}))
    array = np.asarray(value)
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == np.bool_):
        rule = f"{name}.dtype must be a number or bool"
        raise DataTypeError(message(operator, rule, f"it is {array.dtype}", {name: array}))
    return array.astype(array.dtype.newbyteorder("="), copy=False)
