"""Readers of arguments: each converts what a caller may give to one form, before JAX could narrow it by tracing."""

import operator as python
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import AxisType, PartitionSpec, get_abstract_mesh, reshard

from ...errors import DataTypeError, describe, message
from ...lowering.values.bits import is_key
from .static_values import Real

__all__ = [
    "CONCRETE",
    "UNCOMPILED",
    "as_array",
    "as_condition",
    "as_data",
    "as_data_list",
    "as_dtype",
    "as_flag",
    "as_int",
    "as_int_or_ints",
    "as_ints",
    "as_name",
    "as_real",
    "as_real_or_reals",
    "as_reals",
    "check_compiled",
    "is_read",
    "on_context_mesh",
]

# Types of jax.numpy that no operator takes: XLA refuses to compile most programs of them, or ends the process (jaxlib
# 0.10 to 0.12).
UNCOMPILED = {"int1", "uint1", "float6_e2m3fn", "float6_e3m2fn"}

# The types of arrays that are no tracers, as they are met: isinstance of jax.Array takes four times as long. What they
# hold in less than 64 bits needs no reading, which `public_function` asks without a call.
CONCRETE: set[type] = set()


def is_read(value: Any) -> bool:
    """Whether a value needs no reading: it is an array, no tracer, of a type met before and of less than 64 bits."""
    return type(value) in CONCRETE and value.dtype.itemsize < 8


def as_data(operator: str, name: str, value: Any) -> Any:
    """Returns an array that JAX moves without narrowing it.

    Raises:
      DataTypeError: not an array, no type that JAX has, or 64-bit data while x64 is off.
    """
    if is_read(value):
        return value
    array = as_array(operator, name, value)
    if is_key(array) or jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype:
        return on_context_mesh(array)
    rule = (
        f"{name} of type {array.dtype} needs 64-bit types: enable them (jax.config.update('jax_enable_x64', True), "
        f"or with jax.enable_x64(True) around the call), or convert {name} yourself"
    )
    raise DataTypeError(message(operator, rule, "jax_enable_x64 is off and JAX would narrow it", {name: array}))


def as_data_list(operator: str, name: str, value: Any) -> tuple[Any, ...]:
    """Returns a tuple of arrays that JAX moves without narrowing them.

    Raises:
      DataTypeError: no sequence, or one of anything that `as_data` refuses.
    """
    is_row = type(value) is tuple or type(value) is list
    if is_row and all(map(is_read, value)):
        return tuple(value)
    if is_row or (isinstance(value, Sequence) and not isinstance(value, str | bytes)):
        return tuple(as_data(operator, f"{name}[{i}]", one) for i, one in enumerate(value))
    rule = f"{name} must be a sequence of arrays"
    raise DataTypeError(message(operator, rule, f"it is {type(value).__name__}", {name: value}))


def as_condition(operator: str, name: str, value: Any) -> Any:
    """Returns an array of conditions of any type, which the rules check; 64-bit integers of NumPy become booleans.

    Raises:
      DataTypeError: not an array, or another one of 64 bits while x64 is off.
    """
    is_wide = isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iu" and value.dtype.itemsize == 8
    return as_data(operator, name, value != 0 if is_wide else value)


def on_context_mesh(array: Any) -> Any:
    """Returns a NumPy array on the Explicit mesh that is set, because a transpose needs the mesh in its type."""
    explicit = AxisType.Explicit in get_abstract_mesh().axis_types
    return reshard(array, PartitionSpec()) if explicit and isinstance(array, np.ndarray) else array


def as_int(operator: str, name: str, value: Any) -> Any:
    """Returns a static Python integer, or a symbolic size, as in jax.export.

    Raises:
      DataTypeError: a float, a bool, a string or a traced value.
    """
    if type(value) is int:
        return value
    try:
        if isinstance(value, bool | np.bool_ | Tracer):
            raise TypeError
        return python.index(value)
    except TypeError:
        symbolic: Any = value
        if jax.export.is_symbolic_dim(symbolic):
            return symbolic
        rule = f"{name} must be a Python integer, known while tracing"
        raise DataTypeError(message(operator, rule, _kind(value), {name: value})) from None


def as_ints(operator: str, name: str, value: Any) -> tuple[int, ...]:
    """Returns a static tuple of Python integers.

    Raises:
      DataTypeError: no sequence, or one of anything but integers.
    """
    given = type(value)
    if given is tuple or given is list:
        for item in value:
            if type(item) is not int:
                break
        else:
            return value if given is tuple else tuple(value)
    return _as_row(operator, name, value, as_int, "Python integers")


def as_int_or_ints(operator: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """Returns a static tuple of Python integers; one integer stands for `count` of them.

    Raises:
      DataTypeError: neither an integer nor a sequence of them.
    """
    if type(value) is tuple or type(value) is list:
        return as_ints(operator, name, value)
    with suppress(DataTypeError):
        return (as_int(operator, name, value),) * count
    return _as_row(operator, name, value, as_int, "Python integers, or one of them")


def as_real(operator: str, name: str, value: Any) -> Real:
    """Returns a static float of Python.

    Raises:
      DataTypeError: a bool, a complex number, a string or a traced value.
    """
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, int | float) and not isinstance(number, bool):
        with suppress(OverflowError):
            return Real(number)
    rule = f"{name} must be a real number, known while tracing"
    fact = _kind(value) if isinstance(value, Tracer) else f"it is {describe(value)}"
    raise DataTypeError(message(operator, rule, fact, {name: value}))


def as_reals(operator: str, name: str, value: Any) -> tuple[Real, ...]:
    """Returns a static tuple of floats of Python.

    Raises:
      DataTypeError: no sequence, or one of anything but real numbers.
    """
    return _as_row(operator, name, value, as_real, "real numbers")


def as_real_or_reals(operator: str, name: str, value: Any) -> Any:
    """Returns a static float of Python, or a tuple of them.

    Raises:
      DataTypeError: neither a real number nor a sequence of them.
    """
    with suppress(DataTypeError):
        return as_real(operator, name, value)
    return _as_row(operator, name, value, as_real, "real numbers, or one of them")


def _as_row(operator: str, name: str, value: Any, read: Any, what: str) -> tuple[Any, ...]:
    is_row = isinstance(value, Iterable) and not isinstance(value, str | bytes | Set | Mapping | Tracer)
    if not is_row or getattr(value, "ndim", 1) != 1:
        rule = f"{name} must be a sequence of {what}, known while tracing"
        raise DataTypeError(message(operator, rule, _kind(value), {name: value}))
    return tuple(read(operator, f"{name}[{i}]", item) for i, item in enumerate(value))


def as_name(operator: str, name: str, value: Any) -> str:
    """Returns a static string; which ones are accepted is the operator's rule.

    Raises:
      DataTypeError: anything but a string.
    """
    if isinstance(value, str):
        return value
    raise DataTypeError(message(operator, f"{name} must be a string", f"it is {type(value).__name__}", {name: value}))


def as_dtype(operator: str, name: str, value: Any) -> Any:
    """Returns a static type that JAX has, of 64 bits only while x64 is on.

    Raises:
      DataTypeError: another one.
    """
    try:
        dtype = jnp.dtype(value) if value is not None else None  # which NumPy takes for float64
    except (TypeError, ValueError):
        dtype = None
    if dtype is None or not _is_of_jax(dtype):
        rule = f"{name} must be a type that JAX has, such as jnp.bfloat16 or 'uint8'"
        raise DataTypeError(message(operator, rule, f"it is {describe(value)}", {name: value}))
    check_compiled(operator, {name: dtype})
    dtype = dtype.newbyteorder("=")
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        rule = f"{name} of 64 bits needs 64-bit types: enable jax_enable_x64 around the call"
        raise DataTypeError(message(operator, rule, "jax_enable_x64 is off", {name: dtype}))
    return dtype


def _is_of_jax(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biufcV" and hasattr(jnp, dtype.name)


def check_compiled(operator: str, types: Mapping[str, Any]) -> None:
    """Checks that XLA compiles programs of types, given by what messages call them.

    Raises:
      DataTypeError: it does not.
    """
    for name, dtype in types.items():
        if dtype.name in UNCOMPILED:
            rule = f"{name} must be a type that XLA compiles programs of"
            raise DataTypeError(message(operator, rule, f"it is {dtype}", {name: dtype}))


def as_flag(operator: str, name: str, value: Any) -> bool:
    """Returns a static bool.

    Raises:
      DataTypeError: anything else.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    rule = f"{name} must be True or False, known while tracing"
    raise DataTypeError(message(operator, rule, _kind(value), {name: value}))


def _kind(value: Any) -> str:
    """Returns the type of a value that must be static; of a traced value, what makes it static."""
    if isinstance(value, Tracer):
        return "it is traced: name it in static_argnums or static_argnames of jax.jit"
    return f"it is {type(value).__name__}"


def as_array(operator: str, name: str, value: Any) -> Any:
    """Returns an array of a type that JAX has: jax, NumPy without a mask, or anything with `__jax_array__`.

    Raises:
      DataTypeError: not an array, or no type that JAX has.
    """
    if not isinstance(value, jax.Array) and hasattr(type(value), "__jax_array__"):
        value = value.__jax_array__()
    if isinstance(value, jax.Array):
        if not isinstance(value, Tracer):
            CONCRETE.add(type(value))
        return value
    if not isinstance(value, np.ndarray | np.generic) or isinstance(value, np.ma.MaskedArray):
        rule = f"{name} must be an array (jax.Array or numpy.ndarray); numpy.asarray makes one"
        raise DataTypeError(message(operator, rule, f"it is {type(value).__name__}", {name: value}))
    array = np.asarray(value)
    if not _is_of_jax(array.dtype):
        rule = f"{name}.dtype must be a type that JAX has"
        raise DataTypeError(message(operator, rule, f"it is {array.dtype}", {name: array}))
    check_compiled(operator, {f"{name}.dtype": array.dtype})
    return array.astype(array.dtype.newbyteorder("="), copy=False)
