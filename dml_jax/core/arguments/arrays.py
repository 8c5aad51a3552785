"""Readers of array arguments, before JAX could narrow them by tracing."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import AxisType, PartitionSpec, get_abstract_mesh, reshard

from ...errors import DataTypeError, message
from ...operations.values.bit_exact import is_key

# Types of jax.numpy that no operator takes: XLA refuses to compile most programs of them, or ends the process (jaxlib
# 0.10 to 0.12).
UNCOMPILED = {"int1", "uint1", "float6_e2m3fn", "float6_e3m2fn"}

# The types of arrays that are no tracers, as they are met: isinstance of jax.Array takes four times as long. Arrays of
# these types with elements below 64 bits need no reading; `public_function` tests that without a call.
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
    if is_key(array) or (narrow := jax.dtypes.canonicalize_dtype(array.dtype)) == array.dtype:
        return on_context_mesh(array)
    rule = f"{name} of type {array.dtype} needs 64-bit types"
    fact = (
        f"jax_enable_x64 is off and JAX would narrow it: convert it by .astype(np.{narrow}), or enable x64 "
        "(jax.config.update('jax_enable_x64', True), or with jax.enable_x64(True) around the call)"
    )
    raise DataTypeError(message(operator, rule, fact, {name: array}))


def as_data_list(operator: str, name: str, value: Any) -> tuple[Any, ...]:
    """Returns a tuple of arrays that JAX moves without narrowing them.

    Raises:
      DataTypeError: no sequence, or one of anything that `as_data` refuses.
    """
    is_row = type(value) is tuple or type(value) is list
    if is_row and all(map(is_read, value)):
        return tuple(value)
    if is_row or (isinstance(value, Sequence) and not isinstance(value, str | bytes)):
        return tuple(as_data(operator, f"{name}[{i}]", element) for i, element in enumerate(value))
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


def is_of_jax(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biufcV" and hasattr(jnp, dtype.name)


def check_compiled(operator: str, types: Mapping[str, Any]) -> None:
    """Checks that XLA compiles programs of types, given by their names in messages.

    Raises:
      DataTypeError: it does not.
    """
    for name, dtype in types.items():
        if dtype.name in UNCOMPILED:
            rule = f"{name} must be a type that XLA compiles programs of"
            raise DataTypeError(message(operator, rule, f"it is {dtype}", {name: dtype}))


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
        rule = f"{name} must be an array (jax.Array or numpy.ndarray)"
        fact = f"it is {type(value).__name__}; numpy.asarray({name}, dtype) makes one"
        raise DataTypeError(message(operator, rule, fact, {name: value}))
    array = np.asarray(value)
    if not is_of_jax(array.dtype):
        rule = f"{name}.dtype must be a type that JAX has"
        raise DataTypeError(message(operator, rule, f"it is {array.dtype}", {name: array}))
    check_compiled(operator, {f"{name}.dtype": array.dtype})
    return array.astype(array.dtype.newbyteorder("="), copy=False)
