"""Checks the arguments and results of a model against its declared inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..core.arguments.arrays import as_array
from ..core.tensors.tensor_spec import TensorSpec
from ..errors import DataTypeError, escaped
from .errors import OnnxError
from .int64_ranges import Bounded
from .sequence_pytrees import ContainerSpec, EmptyOptional, TensorSequence
from .values import Array, is_narrowed, on_device

X64 = "put jax.enable_x64(True) around the call, its jit included"


def as_value(
    what: str, spec: TensorSpec, value: Any, sizes: dict[str, int], cure: Callable[[], str] = lambda: X64
) -> Any:
    """Converts an argument to a value: an array, a list of arrays for a sequence, None for an empty optional.

    Args:
      what: the argument as messages name it, such as "input 'x'".
      spec: what the model declares.
      value: what is given.
      sizes: as in `as_input`; in a sequence each array has its own.
      cure: as in `as_input`, of a tensor; sequences and optionals cannot be declared as int32.

    Raises:
      OnnxError: the shape does not match the declared one.
      DataTypeError: another kind, or as `as_input`.
    """
    if not isinstance(spec, ContainerSpec):
        return as_input(what, spec, value, sizes, cure)
    if spec.is_optional and value is None:
        return EmptyOptional(spec.type)
    if not spec.is_sequence:
        return as_input(what, spec, value, sizes)
    if not isinstance(value, (list, tuple)):
        raise DataTypeError(f"{what}: it must be a list of arrays, but it is of the type {type(value).__name__}")
    arrays = (as_input(f"{what}, element {i}", spec, array, {}) for i, array in enumerate(value))
    return TensorSequence(spec.dtype, tuple(arrays))


def as_input(
    what: str, spec: TensorSpec, value: Any, sizes: dict[str, int], cure: Callable[[], str] = lambda: X64
) -> Array:
    """Checks and converts an array for an input or a parameter.

    While x64 is off, a 64-bit NumPy array stays one: it is a constant, which JAX does not narrow.

    Args:
      what: the argument as messages name it, such as "input 'x'".
      spec: what the model declares.
      value: an array; int32 will do where the model declares int64.
      sizes: dim_param name -> size, bound by earlier arguments; updated in place.
      cure: says what to do about 64 bits that JAX has cut.

    Raises:
      OnnxError: the shape does not match the declared one.
      DataTypeError: not an array, another type, or traced int32 for int64 while x64 is off.
    """
    array = as_array("ONNX", what, value)
    check_sizes(what, spec, array.shape, sizes)
    narrowed = is_narrowed(spec.dtype)
    if (spec.dtype, array.dtype) == (np.int64, np.int32) and not (narrowed and isinstance(array, Tracer)):
        array = (np.asarray(array) if narrowed else array).astype(np.int64)
    if array.dtype != spec.dtype:
        text = f"{what}: its type must be {spec.dtype}, but it is {array.dtype}"
        if jax.dtypes.canonicalize_dtype(spec.dtype) == array.dtype:
            text += f", as JAX makes it while x64 is off: {cure()}"
        raise DataTypeError(text)
    if narrowed or not isinstance(array, np.ndarray):
        return array
    # A copy, as the caller may write into the array; jnp.asarray would compile a program for each shape to make one.
    return jax.device_put(array.copy())


def check_sizes(what: str, spec: TensorSpec, shape: Sequence[int], sizes: dict[str, int]) -> None:
    """Compares a shape with the sizes that the model declares.

    Args:
      what: the argument as messages name it.
      spec: what the model declares.
      shape: of the array.
      sizes: dim_param name -> size, bound by earlier arguments; updated in place.

    Raises:
      OnnxError: they differ.
    """
    wanted = tuple(shape) if spec.sizes is None else spec.sizes
    if len(wanted) == len(shape):
        known = [sizes.setdefault(d, n) if isinstance(d, str) else d for d, n in zip(wanted, shape, strict=True)]
        if all(d in (None, n) for d, n in zip(known, shape, strict=True)):
            return
    shown = ["?" if d is None else f"{escaped(d)}={sizes[d]}" if d in sizes else escaped(str(d)) for d in wanted]
    raise OnnxError(f"{what}: its sizes must be [{', '.join(shown)}], but they are {list(shape)}")


def static_values(inputs: Sequence[TensorSpec], static: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Converts the values of `static=`, each to its input's dtype.

    Raises:
      OnnxError: a name is not that of a tensor input, or the shape does not match the declared one.
      DataTypeError: a value cannot be represented exactly in its input's dtype.
    """
    specs, known, sizes = {spec.name: spec for spec in inputs}, {}, {}
    for name, value in static.items():
        what = f"static value {name!r}"
        if name not in specs:
            names = f"the inputs are {', '.join(map(escaped, specs))}" if specs else "there are no inputs"
            raise OnnxError(f"{what} names no input; {names}")
        if isinstance(specs[name], ContainerSpec):
            raise OnnxError(f"{what}: only tensor inputs can be static, but this one is {specs[name]}")
        given = np.asarray(value)
        is_number = jnp.issubdtype(given.dtype, jnp.number) or given.dtype == bool
        with np.errstate(all="ignore"):
            known[name] = given.astype(specs[name].dtype) if is_number else given
            is_kept = (known[name] == given) | ((given != given) & (known[name] != known[name]))  # a NaN stays one
        if not is_number or not is_kept.all():
            raise DataTypeError(
                f"{what}: it must be exactly representable as {specs[name].dtype}, but it is {value!r:.60}"
            )
        check_sizes(what, specs[name], given.shape, sizes)
    return known


def by_name(argument: str, given: Any) -> Mapping[str, Any]:
    """Returns an argument that is a dict by name; an empty one for None.

    Raises:
      OnnxError: it is something else.
    """
    if not isinstance(given, Mapping | None):
        raise OnnxError(f"{argument} must be a dict by name, but it is {type(given).__name__}")
    return given or {}


def as_count(what: str, number: Any, least: int) -> int:
    """Returns an integer, of Python or NumPy, as a Python integer.

    Raises:
      OnnxError: it is no integer, or less than `least`.
    """
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise OnnxError(f"{what} must be an integer of at least {least}, but it is {number!r:.60}")
    return int(number)


def as_int64(array: Array) -> Any:
    """Casts int32 to int64; without x64 wraps it in `Bounded`, int32 that stands for int64."""
    return Bounded.of(jnp.asarray(array)) if is_narrowed(np.int64) else array.astype(np.int64)


def as_output(name: str, value: Any) -> Any:
    """Converts a computed value to an array of JAX, a list for a sequence, None for an empty optional.

    Raises:
      DataTypeError: 64-bit numbers while x64 is off, except int64 constants that int32 holds.
    """
    if isinstance(value, TensorSequence):
        return [as_output(name, item) for item in value.items]
    if isinstance(value, EmptyOptional):
        return None
    if isinstance(value, Bounded):
        return value.array
    if isinstance(value, np.ndarray) and value.dtype == np.int64 and np.array_equal(value, value.astype(np.int32)):
        return jnp.asarray(value)  # int32 while x64 is off
    try:
        return on_device(value)
    except DataTypeError as error:
        raise DataTypeError(f"output {name!r}: {error}") from None
