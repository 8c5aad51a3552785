"""Values of a running graph: NumPy arrays are constants and keep int64; JAX arrays are data."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import ConstraintError, DataTypeError
from ..operations.values.accumulation_types import wide_type
from ..operations.values.bit_exact import carry_bits
from .errors import STATIC, NotConstantError

Array = np.ndarray | jax.Array
# Functions of an operator, by the first version of ONNX's that each serves.
Operators = Mapping[str, Mapping[int, Callable[..., Any]]]


def is_narrowed(dtype: Any) -> bool:
    """Whether JAX would narrow a dtype to 32 bits, because x64 is off."""
    return jax.dtypes.canonicalize_dtype(dtype) != dtype


def float_for(dtype: Any) -> np.dtype[Any]:
    """Returns the float dtype to compute integers in; it holds all of them but the largest of 64 bits.

    Raises:
      DataTypeError: they have 64 bits, and x64 is off.
    """
    wide = np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
    if is_narrowed(wide):
        raise DataTypeError(f"{dtype} must be computed with as {wide}, which must not be narrowed, but {X64_OFF}")
    return wide


X64_OFF = "jax_enable_x64 is off: call the function with jax.enable_x64(True) around it"


@contextmanager
def at_once() -> Iterator[None]:
    """Context in which constants are computed eagerly and in 64 bits, even while a program is traced."""
    with jax.ensure_compile_time_eval(), jax.enable_x64(True), np.errstate(all="ignore"):
        yield


def on_device(value: Array) -> jax.Array:
    """Returns a value as an array of JAX.

    Raises:
      DataTypeError: 64-bit numbers while x64 is off.
    """
    if is_narrowed(value.dtype):
        raise DataTypeError(f"{value.dtype} must not be narrowed, but {X64_OFF}")
    # jnp.asarray would compile a program for each shape to copy what is NumPy's.
    return jnp.array(value) if isinstance(value, np.ndarray) else jnp.asarray(value)


def as_wide(value: Array) -> jax.Array:
    """Returns a value as a JAX array in its computation type: float32 for narrower floats."""
    return on_device(value).astype(wide_type(value.dtype))


def arrays(*values: Array) -> tuple[Any, ...]:
    """Returns NumPy and the values if all are known; else jax.numpy and the values as arrays of JAX."""
    if all(isinstance(value, np.ndarray) for value in values):
        return np, *values
    return jnp, *map(on_device, values)


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Returns the outputs of a function, which may be one alone, as a tuple."""
    return results if isinstance(results, tuple) else (results,)


def known(name: str, value: Array, decides: str = "a shape") -> np.ndarray:
    """Returns a value that must be known before a program is compiled, such as one that decides a shape.

    Raises:
      NotConstantError: it depends on data that is being traced.
    """
    if not isinstance(value, Tracer):
        return np.asarray(value)
    raise NotConstantError(
        f"{name} must be a constant or follow from shapes, because it decides {decides}, but it depends on the data of "
        "an input, or on a parameter that is given; it is known outside jax.jit, jax.vmap and jax.grad, as an "
        f"initializer, and by `to_jax(model, {STATIC})`",
        name,
    )


def known_ints(name: str, value: Any, decides: str = "a shape") -> list[int]:
    """Returns integers that must be known before a program is compiled, from an attribute or a 1-D input."""
    if not isinstance(value, (np.ndarray, jax.Array)):
        return [int(n) for n in value]
    if value.ndim > 1:
        raise ConstraintError(f"{name} must be 1-D, but its shape is {value.shape}")
    return [int(n) for n in np.atleast_1d(known(name, value, decides))]


def move_bits(move: Callable[..., Any], *data: Array) -> Any:
    """Returns `move(*data)` with every bit kept: floats whose NaNs XLA could change are moved as integers."""
    if isinstance(data[0], np.ndarray):
        return move(*data)
    return carry_bits(lambda _, *data: move(*data), None, *data)  # type: ignore[arg-type]
