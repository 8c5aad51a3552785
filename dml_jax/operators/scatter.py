"""The writes: `scatter_elements` and `scatter_nd`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import numpy as np
from jax import lax

from ..core.arguments import as_data, as_indices, as_int, as_name
from ..core.indices import WRITE_MODE, WriteMode, indexed_axes_not_empty, tuple_size, tuples_fit, write
from ..core.promises import Promises, as_promises
from ..core.reductions import REDUCIBLE, REDUCTION, ReductionName, as_reduction
from ..core.rules import (
    Operands,
    axis_of,
    check,
    integer_indices,
    minimum_rank,
    same_dtype,
    same_rank,
    same_sizes,
    sizes_follow,
)
from ..core.sharding import Dims, OutSharding, as_out_sharding, on_mesh
from ..lowering.forms import forced_form

__all__ = ["scatter_elements", "scatter_nd"]

SCATTER_ELEMENTS = (
    integer_indices(),
    same_dtype("updates", "input"),
    minimum_rank("input", 1),
    same_rank("indices", "input"),
    axis_of("input"),
    REDUCTION,
    REDUCIBLE,
    WRITE_MODE,
    same_sizes("indices", "input", except_along="axis"),
    same_sizes("updates", "indices"),
    indexed_axes_not_empty(lambda x: [x["axis"]]),
)


def scatter_elements(
    input: jax.Array | np.ndarray,
    indices: jax.Array | np.ndarray,
    updates: jax.Array | np.ndarray,
    axis: int,
    *,
    reduction: ReductionName | None = None,
    mode: WriteMode = "drop",
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Copies `input` and writes, or combines, each element of `updates` where `indices` points along `axis`.

    output = input; output[c with c[axis] := indices[c]] = updates[c], or combined with it by `reduction`.

    Args:
      input: rank >= 1, any dtype that JAX moves.
      indices: the rank and sizes of `input` except along `axis`, where any size will do; sizes never broadcast.
        Any integer dtype. A negative index counts from the end, once; an unsigned one never does.
        If two address one element and nothing is reduced, either update may win.
      updates: the shape of `indices` and the dtype of `input`.
      axis: -rank <= axis < rank of `input`.
      reduction: None replaces what is there; "add", "mul", "min" and "max" combine it with all updates that address
        it. 8- and 16-bit floats are added and multiplied as float32 and rounded once; integers wrap; a NaN is both
        least and greatest, and -0.0 is less than 0.0; of bools "add" is or and "mul" is and.
      mode: "drop" ignores an update whose index is out of range, "clip" writes the nearest element,
        "promise_in_bounds" leaves it undefined.
      unique_indices: a promise that no two updates, after wrapping and clamping, address one element; what is dropped
        is exempt.
      indices_are_sorted: a promise that `indices` ascend along `axis` and none is negative.
      deterministic: whether sums and products of floats, and gradients, have the same bits in every run of a program on
        one kind of device, whatever the indices. For known sizes and fewer than 2**31 elements, as is the derivative of
        "mul"; others are refused.
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default it follows from the operands.

    Returns:
      An array of the shape and dtype of `input`.

    Raises:
      ConstraintError: ranks or sizes differ, `axis` or `mode` out of range, or a non-empty write to an axis of size 0.
      DataTypeError: `indices` are not integers, the dtypes of `updates` and `input` differ, or 64-bit data while
        x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> indices = np.array([[1, 0, 2], [0, 2, 1]], np.uint32)
      >>> updates = np.array([[10, 11, 12], [20, 21, 22]], np.float32)
      >>> print(dml_jax.scatter_elements(np.zeros((3, 3), np.float32), indices, updates, axis=0))
      [[20. 11.  0.]
       [10.  0. 22.]
       [ 0. 21. 12.]]

    Source: DML_SCATTER_OPERATOR_DESC. DirectML is silent about an index out of range; dropping its update is the
      choice made here. Duplicate targets are invalid there and unspecified here.
    """
    operator = "scatter_elements"
    return _scatter_elements(
        as_data(operator, "input", input),
        as_indices(operator, indices),
        as_data(operator, "updates", updates),
        axis=as_int(operator, "axis", axis),
        reduction=as_reduction(operator, reduction),
        mode=as_name(operator, "mode", mode),
        form=forced_form(),
        out_sharding=as_out_sharding(operator, out_sharding),
        promises=as_promises(operator, unique_indices, indices_are_sorted, deterministic),
    )


@partial(jax.jit, static_argnames=("axis", "reduction", "mode", "form", "out_sharding", "promises"))
def _scatter_elements(
    input: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    axis: int,
    reduction: str | None,
    mode: str,
    form: str | None,
    out_sharding: OutSharding,
    promises: Promises,
) -> jax.Array:
    operands = {
        "input": input,
        "indices": indices,
        "updates": updates,
        "axis": axis,
        "reduction": reduction,
        "mode": mode,
    }
    check("scatter_elements", SCATTER_ELEMENTS, operands)
    axis %= input.ndim
    others = tuple(d for d in range(input.ndim) if d != axis)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(),
        inserted_window_dims=(axis,),
        scatter_dims_to_operand_dims=(axis,),
        operand_batching_dims=others,
        scatter_indices_batching_dims=others,
    )

    # XLA's promise is about all indices in row-major order, coordinates of other dimensions first.
    of_xla = replace(promises, indices_are_sorted=promises.indices_are_sorted and axis == input.ndim - 1)

    def scattered(input: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        return write(
            input,
            indices[..., None],
            updates,
            numbers,
            mode=mode,
            reduction=reduction,
            form=form,
            promises=of_xla,
        )

    names = [f"input {d}" for d in range(input.ndim)]
    written = [*names[:axis], "q", *names[axis + 1 :]]
    dims = Dims({"input": names, "indices": written, "updates": written}, names)
    return on_mesh("scatter_elements", scattered, dims, out_sharding, input=input, indices=indices, updates=updates)


def _updates_shape(x: Operands) -> tuple[int, ...] | None:
    if not x["indices"].shape or not 1 <= tuple_size(x) <= len(x["input"].shape):
        return None
    return (*x["indices"].shape[:-1], *x["input"].shape[tuple_size(x) :])


SCATTER_ND = (
    integer_indices(),
    same_dtype("updates", "input"),
    minimum_rank("input", 1),
    minimum_rank("indices", 1),
    tuples_fit(),
    REDUCTION,
    REDUCIBLE,
    WRITE_MODE,
    sizes_follow("updates", _updates_shape, "{indices}.{sizes}[:-1] + {input}.{sizes}[{indices}.{sizes}[-1]:]"),
    indexed_axes_not_empty(lambda x: range(tuple_size(x))),
)


def scatter_nd(
    input: jax.Array | np.ndarray,
    indices: jax.Array | np.ndarray,
    updates: jax.Array | np.ndarray,
    *,
    reduction: ReductionName | None = None,
    mode: WriteMode = "drop",
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Copies `input` and writes, or combines, each slice of `updates` where a tuple of `indices` points.

    Tuples lie along the last dimension of `indices`.

    output = input; output[indices[q, 0], ..., indices[q, t-1], r] = updates[q, r], or combined with it by `reduction`;
    t = indices.shape[-1].

    Args:
      input: rank >= 1, any dtype that JAX moves.
      indices: rank >= 1; its last size t is the length of a tuple, 1 <= t <= rank of `input`. Any integer dtype.
        A negative index counts from the end, once; an unsigned one never does. If two tuples address one slice and
        nothing is reduced, either update may win.
      updates: of shape indices.shape[:-1] + input.shape[t:] and the dtype of `input`.
      reduction: None replaces what is there; "add", "mul", "min" and "max" combine it with all updates that address
        it. 8- and 16-bit floats are added and multiplied as float32 and rounded once; integers wrap; a NaN is both
        least and greatest, and -0.0 is less than 0.0; of bools "add" is or and "mul" is and.
      mode: "drop" ignores an update if any of its coordinates is out of range, "clip" moves each such coordinate to
        the nearest one in range, "promise_in_bounds" leaves it undefined.
      unique_indices: a promise that no two updates, after wrapping and clamping, address one slice; what is dropped
        is exempt.
      indices_are_sorted: a promise that the tuples ascend, compared coordinate by coordinate, and no coordinate is
        negative.
      deterministic: whether sums and products of floats, and gradients, have the same bits in every run of a program on
        one kind of device, whatever the indices. For known sizes and fewer than 2**31 elements, as is the derivative of
        "mul"; others are refused.
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default it follows from the operands.

    Returns:
      An array of the shape and dtype of `input`.

    Raises:
      ConstraintError: tuples too long or empty, wrong sizes of `updates`, `mode` unknown, or a non-empty write to a
        dimension of size 0.
      DataTypeError: `indices` are not integers, the dtypes of `updates` and `input` differ, or 64-bit data while
        x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(1, 9, dtype=np.float32)
      >>> tuples = np.array([[4], [3], [1], [7]], np.uint32)
      >>> print(dml_jax.scatter_nd(x, tuples, np.array([9, 10, 11, 12], np.float32)))
      [ 1. 11.  3. 10.  9.  6.  7. 12.]

    Source: DML_SCATTER_ND_OPERATOR_DESC. DirectML is silent about a coordinate out of range; dropping its update is
      the choice made here. Duplicate targets are invalid there and unspecified here.
    """
    operator = "scatter_nd"
    return _scatter_nd(
        as_data(operator, "input", input),
        as_indices(operator, indices),
        as_data(operator, "updates", updates),
        reduction=as_reduction(operator, reduction),
        mode=as_name(operator, "mode", mode),
        form=forced_form(),
        out_sharding=as_out_sharding(operator, out_sharding),
        promises=as_promises(operator, unique_indices, indices_are_sorted, deterministic),
    )


@partial(jax.jit, static_argnames=("reduction", "mode", "form", "out_sharding", "promises"))
def _scatter_nd(
    input: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    reduction: str | None,
    mode: str,
    form: str | None,
    out_sharding: OutSharding,
    promises: Promises,
) -> jax.Array:
    check(
        "scatter_nd",
        SCATTER_ND,
        {"input": input, "indices": indices, "updates": updates, "reduction": reduction, "mode": mode},
    )
    indexed = tuple(range(indices.shape[-1]))
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(indices.ndim - 1, updates.ndim)),
        inserted_window_dims=indexed,
        scatter_dims_to_operand_dims=indexed,
    )

    def scattered(input: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        return write(input, indices, updates, numbers, mode=mode, reduction=reduction, form=form, promises=promises)

    names = [f"input {d}" for d in range(input.ndim)]
    written = [f"q {d}" for d in range(indices.ndim - 1)]
    operands = {"input": names, "indices": [*written, "tuple"], "updates": [*written, *names[indices.shape[-1] :]]}
    return on_mesh(
        "scatter_nd", scattered, Dims(operands, names), out_sharding, input=input, indices=indices, updates=updates
    )
