"""`as_strided` and its inverse `as_strided_scatter`: a flat buffer seen, and written, through sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import jax
import numpy as np

from ..core.arguments import as_data, as_flag, as_int, as_ints
from ..core.rules import Operands, Rule, check, custom, same_dtype
from ..core.sharding import Dims, OutSharding, as_out_sharding, on_mesh
from ..lowering.forms import forced_form
from ..lowering.strided import update, view
from ..strides.injective import collision
from ..strides.layout import Layout

__all__ = ["as_strided", "as_strided_scatter"]


def _one_dimension(x: Operands) -> str | None:
    return None if len(x["buffer"].shape) == 1 else f"its shape is {tuple(x['buffer'].shape)}"


def _not_negative(name: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        values = x[name] if isinstance(x[name], tuple) else (x[name],)
        return f"it is {x[name]}" if min((0, *values)) < 0 else None

    return custom(f"not_negative({name})", f"{{{name}}} must not be negative", broken_by)


def _too_large(x: Operands) -> str | None:
    largest = max((prod(_sizes(x)), *_sizes(x)))
    return f"they are {_sizes(x)}" if largest >= 2**63 else None


def _lengths(sizes: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        count = len(_sizes(x))
        return None if len(x["strides"]) == count else f"there are {len(x['strides'])} for {count} dimensions"

    return custom("stride_count", f"{{strides}} must have one entry per dimension of {{{sizes}}}", broken_by)


def _inside(x: Operands) -> str | None:
    sizes = _sizes(x)
    if 0 in sizes or _one_dimension(x) or len(x["strides"]) != len(sizes) or min((0, *sizes, *x["strides"])) < 0:
        return None
    last, length = x["offset"] + Layout(sizes, x["strides"]).span - 1, x["buffer"].shape[0]
    return None if last < length else f"the last coordinate is element {last} and there are {length}"


def _injective(x: Operands) -> str | None:
    sizes, strides = _sizes(x), x["strides"]
    if 0 in sizes or len(strides) != len(sizes) or min((0, *strides)) < 0:
        return None
    fact = collision(sizes, strides)
    return f"sizes {sizes} with strides {strides} {fact}" if fact else None


def _sizes(x: Operands) -> tuple[int, ...]:
    return x["sizes"] if "sizes" in x else tuple(x["updates"].shape)


_BUFFER = custom("one_dimension(buffer)", "{buffer} must be 1-D", _one_dimension)
_INSIDE = custom("inside", "{offset} + sum(({sizes} - 1) * {strides}) must be below {buffer}.{sizes}[0]", _inside)
AS_STRIDED = (
    _BUFFER,
    _not_negative("sizes"),
    _not_negative("strides"),
    _not_negative("offset"),
    custom("representable", "{sizes} must give fewer than 2**63 elements", _too_large),
    _lengths("sizes"),
    _INSIDE,
)
AS_STRIDED_SCATTER = (
    _BUFFER,
    same_dtype("updates", "buffer"),
    _not_negative("strides"),
    _not_negative("offset"),
    _lengths("updates"),
    _INSIDE,
    custom("injective", "{strides} must give every coordinate of {updates} an element of its own", _injective),
)


def as_strided(
    buffer: jax.Array | np.ndarray,
    sizes: Sequence[int],
    strides: Sequence[int],
    *,
    offset: int = 0,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Views a flat `buffer` through `sizes` and `strides`, in elements; `as_strided_scatter` writes through them.

    output[c] = buffer[offset + sum(c * strides)]

    What can be split, sliced, transposed or broadcast is, and XLA fuses it into its consumer. Only dimensions that
    overlap or interleave are read through computed indices.

    Args:
      buffer: 1-D, of any dtype that JAX moves.
      sizes: of the view; integers, at least 0.
      strides: elements, not bytes, from one coordinate to the next, one per size; integers, at least 0, and 0 repeats
        an element.
      offset: of the first element.
      deterministic: whether the gradient has the same bits in every run of a program on one kind of device; without it
        sums over overlapping windows may differ in their last bits on a GPU.
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default it follows from the operands.

    Returns:
      An array of shape `sizes` and the dtype of `buffer`.

    Raises:
      ConstraintError: `buffer` is not 1-D, a coordinate lies beyond it, a number is negative, or 2**63 elements.
      DataTypeError: a number is no integer, or 64-bit `buffer` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.as_strided(np.arange(10, dtype=np.int32), (2, 3), (5, 1)))  # rows padded to 5
      [[0 1 2]
       [5 6 7]]
      >>> print(dml_jax.as_strided(np.arange(6, dtype=np.int32), (2, 3), (1, 2)))  # column-major
      [[0 2 4]
       [1 3 5]]
      >>> print(dml_jax.as_strided(np.arange(5, dtype=np.int32), (3, 3), (1, 1)))  # overlapping windows
      [[0 1 2]
       [1 2 3]
       [2 3 4]]

    Source: the strides of DML_BUFFER_TENSOR_DESC, numpy.lib.stride_tricks.as_strided. A negative stride, which
      neither DirectML nor XLA has, is refused.
    """
    operator = "as_strided"
    return _as_strided(
        as_data(operator, "buffer", buffer),
        sizes=as_ints(operator, "sizes", sizes),
        strides=as_ints(operator, "strides", strides),
        offset=as_int(operator, "offset", offset),
        deterministic=as_flag(operator, "deterministic", deterministic),
        out_sharding=as_out_sharding(operator, out_sharding),
        form=forced_form(),
    )


def as_strided_scatter(
    buffer: jax.Array | np.ndarray,
    updates: jax.Array | np.ndarray,
    strides: Sequence[int],
    *,
    offset: int = 0,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Copies a flat `buffer` and writes `updates` through `strides`, in elements; inverts `as_strided`.

    output = copy(buffer); output[offset + sum(c * strides)] = updates[c]

    Args:
      buffer: 1-D, of any dtype that JAX moves.
      updates: what is written, of any shape and the dtype of `buffer`.
      strides: elements, not bytes, from one coordinate to the next, one per dimension of `updates`; every coordinate
        has an element of its own.
      offset: of the first element.
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default it follows from the operands.

    Returns:
      An array of the shape and dtype of `buffer`; elements that no coordinate addresses are those of `buffer`.

    Raises:
      ConstraintError: `buffer` is not 1-D, a coordinate lies beyond it, two coordinates address one element, or a
        number is negative.
      DataTypeError: another dtype, a number that is no integer, or 64-bit `buffer` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> rows = np.int32([[1, 2, 3], [4, 5, 6]])
      >>> print(dml_jax.as_strided_scatter(np.full(10, -1, np.int32), rows, (5, 1)))
      [ 1  2  3 -1 -1  4  5  6 -1 -1]

    Source: an output tensor with the strides of DML_BUFFER_TENSOR_DESC. DirectML does not say what becomes of
      elements between; they keep their content here. Overlapping outputs, which it leaves open, are refused.
    """
    operator = "as_strided_scatter"
    return _as_strided_scatter(
        as_data(operator, "buffer", buffer),
        as_data(operator, "updates", updates),
        strides=as_ints(operator, "strides", strides),
        offset=as_int(operator, "offset", offset),
        out_sharding=as_out_sharding(operator, out_sharding),
    )


@partial(jax.jit, static_argnames=("sizes", "strides", "offset", "deterministic", "form", "out_sharding"))
def _as_strided(
    buffer: jax.Array,
    *,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    deterministic: bool,
    form: str | None,
    out_sharding: OutSharding,
) -> jax.Array:
    check("as_strided", AS_STRIDED, {"buffer": buffer, "sizes": sizes, "strides": strides, "offset": offset})
    layout = Layout(sizes, strides, offset)
    dims = Dims({"buffer": ["buffer"]}, [f"output {d}" for d in range(len(sizes))])

    def viewed(buffer: jax.Array) -> jax.Array:
        return view(buffer, layout, form, deterministic)

    return on_mesh("as_strided", viewed, dims, out_sharding, buffer=buffer)


@partial(jax.jit, static_argnames=("strides", "offset", "out_sharding"))
def _as_strided_scatter(
    buffer: jax.Array, updates: jax.Array, *, strides: tuple[int, ...], offset: int, out_sharding: OutSharding
) -> jax.Array:
    operands = {"buffer": buffer, "updates": updates, "strides": strides, "offset": offset}
    check("as_strided_scatter", AS_STRIDED_SCATTER, operands)
    layout = Layout(updates.shape, strides, offset)
    dims = Dims({"buffer": ["buffer"], "updates": [f"updates {d}" for d in range(updates.ndim)]}, ["output"])

    def updated(buffer: jax.Array, updates: jax.Array) -> jax.Array:
        return update(buffer, updates, layout)

    return on_mesh("as_strided_scatter", updated, dims, out_sharding, buffer=buffer, updates=updates)
