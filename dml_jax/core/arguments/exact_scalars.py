"""Readers of numbers that the dtype of an array must hold, such as a fill value."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ...errors import ConstraintError, DataTypeError, describe, message
from ...operations.values.bit_exact import is_key
from .arrays import CONCRETE

# A number of any Python or NumPy type; an array is 0-d, and if traced it has the dtype of the data.
Number = complex | np.generic | np.ndarray | jax.Array
# Those that are the same number where they are equal, but for zeros: -0.0 equals 0.0, in parts of complex numbers too.
_REAL = {int, float} | {type(np.zeros((), code)[()]) for code in np.typecodes["AllInteger"] + np.typecodes["Float"]}


def fill_reader(needed: str) -> Callable[[str, str, Any, Any, str], Any]:
    """Returns the reader of a fill value that only the mode `needed` reads."""

    def as_fill(operator: str, name: str, fill_value: Any, input: Any, mode: str) -> Any:
        """Returns the fill value in the input's dtype, as `as_known_number` does.

        The integer 0 is None instead, which costs no operand; so is the value of a mode that needs none.

        Raises:
          ConstraintError: a fill value other than 0 without the mode that needs it.
          DataTypeError: no number, or one that the dtype of `input` cannot hold.
        """
        if mode == needed:
            value = 0 if fill_value is None else fill_value
            if type(value) is int and not value and _as_dtype_cached(value, input.dtype) is not None:
                return None
            return as_known_number(operator, name, value, input, "a number (0 if not given)")
        is_zero = isinstance(fill_value, int | float | np.number) and fill_value == 0
        if fill_value is None or (is_zero and needed != "fill"):
            return None
        rule = f'{name} needs mode="{needed}"'
        raise ConstraintError(message(operator, rule, f"mode is {mode!r}", {name: fill_value}))

    return as_fill


def as_number(operator: str, name: str, value: Any, like: Any, what: str = "a number") -> Any:
    """Returns a number as a 0-d array of a dtype, or of that of an array; a traced one as it is.

    Raises:
      DataTypeError: no number, or one that the dtype cannot hold, or a traced one of another dtype.
    """
    dtype = getattr(like, "dtype", like)
    if _is_traced(value, dtype):
        return lax.convert_element_type(value, dtype)  # a traced Python number has a weak type, the result has none
    number = _as_dtype_cached(value, dtype) if _is_plain(value) else _as_dtype_if_exact(value, dtype)
    if number is not None:
        return number
    rule = f"{name} must be {what}, known while tracing, that {dtype} holds"
    operands = {name: value} if like is dtype else {"input": like, name: value}
    fact = (
        f"it is traced, {describe(value)}, and no scalar of {dtype}"
        if isinstance(value, Tracer)
        else f"it is {describe(value)}"
    )
    raise DataTypeError(message(operator, rule, fact, operands))


def _is_traced(value: Any, dtype: Any) -> bool:
    """Whether it is a traced scalar of a dtype, which has numbers."""
    return isinstance(value, Tracer) and value.ndim == 0 and value.dtype == dtype and not is_key(value)


def as_known_number(operator: str, name: str, value: Any, like: Any, what: str = "a number") -> Any:
    """Returns a number as `as_number` does, but as a `KnownNumber` if it is one of the first few beside arrays.

    These are no operands of programs, which costs a small call less. A new number compiles a program as long as there
    are few, and none later on.
    """
    if type(like) in CONCRETE and type(value) in _REAL:
        key = operator, name, type(value), value or str(value), like.dtype  # -0.0 equals 0.0
        known = _KNOWN.get(key) or _know(key, value)
        if known is not None:
            return known
    return as_number(operator, name, value, like, what)


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["data", "dtype"])
@dataclass(frozen=True)
class KnownNumber:
    """A number that `jax.jit` compiles into its program: a tree without leaves. Two are the same if their bytes are.

    Args:
      data: the bytes of the number.
      dtype: its type.
    """

    data: bytes
    dtype: Any

    def as_array(self) -> np.ndarray:
        """Returns the number as a 0-d array."""
        return np.frombuffer(self.data, self.dtype).reshape(())


# By operator, argument, type, value and dtype; at most FEW per operator and argument.
_KNOWN: dict[tuple[Any, ...], KnownNumber] = {}
FEW = 8


def _know(key: tuple[Any, ...], value: Any) -> KnownNumber | None:
    """Keeps a number; returns None for one that the dtype does not hold, for NaN, and if there are a few already."""
    dtype, count = key[-1], sum(other[:2] == key[:2] for other in tuple(_KNOWN))
    number = _as_dtype_if_exact(value, dtype) if count < FEW and value == value else None
    return None if number is None else _KNOWN.setdefault(key, KnownNumber(number.tobytes(), dtype))


def _is_plain(value: Any) -> bool:
    """Whether a number can be found again by its value: a zero can only if it is an integer."""
    return type(value) in _REAL and bool(value or type(value) is int)


def _as_dtype_if_exact(value: Any, dtype: Any) -> np.ndarray | None:
    """Returns a number as a 0-d array of a dtype, or None if the dtype cannot hold it."""
    if type(value) is int and not -(2**63) <= value < 2**64:  # of which NumPy makes no number
        value = float(value) if jnp.issubdtype(dtype, jnp.inexact) and abs(value) < 2**1023 else None
    number = _as_number(value)
    if number is None or jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return None
    converted = _convert(number, dtype)
    return converted if _holds(converted, number) else None


# Cached, as small calls pass one number again and again.
_as_dtype_cached = lru_cache(maxsize=1024, typed=True)(_as_dtype_if_exact)


def _as_number(value: Any) -> np.ndarray | None:
    """Returns a number that is known while tracing as a 0-d array, or None for anything else."""
    try:
        array = np.asarray(value)
    except Exception:  # ragged lists, traced values, whatever an __array__ raises
        return None
    return array if array.ndim == 0 and array.dtype.kind in "biufcV" else None


def _convert(value: np.ndarray, dtype: Any) -> np.ndarray:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return value.astype(dtype)


def _holds(converted: np.ndarray, value: np.ndarray) -> bool:
    """Whether a conversion kept the number: rounding to a float is fine, overflow and truncation are not."""
    if value.dtype.kind == "c" and converted.dtype.kind != "c":
        return False
    if jnp.issubdtype(converted.dtype, jnp.inexact):
        limits = jnp.finfo(converted.dtype)
        if limits.bits < 8 and abs(value) > float(
            limits.max
        ):  # which became the greatest number, as there is no infinity
            return False
        return bool(np.isnan(value) == np.isnan(converted) and np.isinf(value) == np.isinf(converted))
    return bool(converted == value) and int(converted) == value.item()  # NumPy compares large integers as floats
