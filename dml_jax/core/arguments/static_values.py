"""Readers of static arguments: integers, reals, flags, names and types.

Arguments of functions and fields of structs are read by the same readers. Two reals are equal only if their bits are:
compiled programs are cached by attributes, and -0.0 == 0.0.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ...errors import DataTypeError, describe, message
from .arrays import check_compiled, is_of_jax


class Real(float):
    """A float. Two of them are equal if their bits are: so -0.0 is not 0.0, and NaN is NaN."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Real):
            return float(self) == other
        one, two = float(self), float(other)
        return (one == two and math.copysign(1, one) == math.copysign(1, two)) or (one != one and two != two)

    def __hash__(self) -> int:
        return 0 if self != float(self) else hash(float(self))


@dataclass(frozen=True)
class TypedNumber:
    """A number of a NumPy type: DirectML's scalar union with one of its members."""

    dtype: np.dtype[Any]
    bits: bytes

    @classmethod
    def of(cls, number: np.generic) -> TypedNumber:
        return cls(number.dtype, number.tobytes())

    @property
    def number(self) -> np.generic:
        return np.frombuffer(self.bits, self.dtype)[0]

    def __repr__(self) -> str:
        return f"{self.dtype.name}({self.number})"


def as_int(operator: str, name: str, value: Any) -> int:
    """Returns a Python integer of at most 64 bits, which no field of DirectML exceeds.

    Raises:
      DataTypeError: a float, a bool, a string, a traced value, or an integer of more bits.
    """
    number = _as_index(operator, name, value)
    if abs(number) < 2**64:
        return number
    fact = f"it has {number.bit_length()}"
    raise DataTypeError(message(operator, f"{name} must fit 64 bits", fact, {name: value}))


def as_ints(operator: str, name: str, value: Any) -> tuple[int, ...]:
    """Returns a tuple of Python integers of at most 64 bits.

    Raises:
      DataTypeError: no sequence, or one of anything that `as_int` refuses.
    """
    return as_row(operator, name, value, as_int, "integers")


def as_dim(operator: str, name: str, value: Any) -> Any:
    """Returns a static Python integer of any size, or a symbolic one, as the sizes of jax.export are.

    Raises:
      DataTypeError: a float, a bool, a string or a traced value.
    """
    if type(value) is int or jax.export.is_symbolic_dim(value):
        return value
    return _as_index(operator, name, value)


def as_dims(operator: str, name: str, value: Any) -> tuple[int, ...]:
    """Returns a static tuple of integers, Python's or symbolic ones.

    Raises:
      DataTypeError: no sequence, or one of anything that `as_dim` refuses.
    """
    kind = type(value)
    if kind is tuple or kind is list:
        for item in value:
            if type(item) is not int:
                break
        else:
            return value if kind is tuple else tuple(value)
    return as_row(operator, name, value, as_dim, "integers")


def _as_index(operator: str, name: str, value: Any) -> int:
    with suppress(TypeError):
        if not isinstance(value, bool | np.bool_ | Tracer):
            return python.index(value)
    raise _static_value_error(operator, name, value, "an integer")


def as_dim_or_dims(operator: str, name: str, value: Any, repeated: Callable[[Any], tuple[int, ...]]) -> tuple[int, ...]:
    """Returns a static tuple of integers as `as_dims` does, or `repeated` of one integer.

    Raises:
      DataTypeError: neither an integer nor a sequence of them.
    """
    if type(value) is tuple or type(value) is list:
        return as_dims(operator, name, value)
    with suppress(DataTypeError):
        return repeated(as_dim(operator, name, value))
    return as_row(operator, name, value, as_dim, "integers, or one of them")


def as_real(operator: str, name: str, value: Any) -> Real:
    """Returns a static float of Python.

    Raises:
      DataTypeError: a bool, a complex number, a string, a traced value, or an integer beyond all floats.
    """
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, int | float | np.floating) and not isinstance(number, bool):
        with suppress(OverflowError):
            return Real(number)
    raise _static_value_error(operator, name, value, "a real number")


def as_reals(operator: str, name: str, value: Any) -> tuple[Real, ...]:
    """Returns a static tuple of floats of Python.

    Raises:
      DataTypeError: no sequence, or one of anything but real numbers.
    """
    return as_row(operator, name, value, as_real, "real numbers")


def as_real_or_reals(operator: str, name: str, value: Any) -> Any:
    """Returns a static float of Python, or a tuple of them.

    Raises:
      DataTypeError: neither a real number nor a sequence of them.
    """
    with suppress(DataTypeError):
        return as_real(operator, name, value)
    return as_row(operator, name, value, as_real, "real numbers, or one of them")


def as_row(operator: str, name: str, value: Any, read: Callable[[str, str, Any], Any], what: str) -> tuple[Any, ...]:
    """Returns the entries of a sequence as a static tuple, each read by `read`; messages call them `what`.

    Raises:
      DataTypeError: no sequence; a string, a set and a dict are none.
    """
    is_row = isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Set | Mapping | Tracer)
    if not is_row or getattr(value, "ndim", 1) != 1:
        raise _static_value_error(operator, name, value, f"a sequence of {what}")
    return tuple(read(operator, f"{name}[{i}]", item) for i, item in enumerate(value))


def as_flag(operator: str, name: str, value: Any) -> bool:
    """Returns a static bool.

    Raises:
      DataTypeError: anything else.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise _static_value_error(operator, name, value, "True or False")


def as_name(operator: str, name: str, value: Any) -> str:
    """Returns a static string; which ones are accepted is the operator's rule.

    Raises:
      DataTypeError: anything but a string.
    """
    if isinstance(value, str):
        return value
    raise _static_value_error(operator, name, value, "a string")


def as_dtype(operator: str, name: str, value: Any) -> Any:
    """Returns a static type that JAX has, of 64 bits only while x64 is on.

    Raises:
      DataTypeError: another one.
    """
    try:
        dtype = jnp.dtype(value) if value is not None else None  # which NumPy takes for float64
    except (TypeError, ValueError):
        dtype = None
    if dtype is None or not is_of_jax(dtype):
        raise _static_value_error(operator, name, value, "a type that JAX has, such as jnp.bfloat16 or 'uint8'")
    check_compiled(operator, {name: dtype})
    dtype = dtype.newbyteorder("=")
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        rule, fact = f"{name} of 64 bits needs 64-bit types", "jax_enable_x64 is off: enable it around the call"
        raise DataTypeError(message(operator, rule, fact, {name: dtype}))
    return dtype


def _static_value_error(operator: str, name: str, value: Any, wanted: str) -> DataTypeError:
    """Returns the error of a value that is not `wanted`; of a traced one, it says how to make it static."""
    traced = "it is traced: name it in static_argnums or static_argnames of jax.jit"
    fact = traced if isinstance(value, Tracer) else f"it is {describe(value)}"
    return DataTypeError(message(operator, f"{name} must be {wanted}", fact, {name: value}))
