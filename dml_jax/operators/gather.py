"""The reads: `gather`, `gather_elements` and `gather_nd`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import numpy as np
from jax import lax

from ..core.arguments import as_data, as_indices, as_int, as_name
from ..core.fill_value import Number, as_fill
from ..core.indices import READ_MODE, ReadMode, indexed_axes_not_empty, read, tuple_size, tuples_fit
from ..core.promises import Promises, as_promises
from ..core.rules import Operands, axis_of, check, custom, integer_indices, minimum_rank, same_rank, same_sizes
from ..core.sharding import Dims, OutSharding, as_out_sharding, on_mesh
from ..lowering.forms import forced_form

__all__ = ["gather", "gather_elements", "gather_nd"]

GATHER = (
    integer_indices(),
    minimum_rank("input", 1),
    axis_of("input"),
    READ_MODE,
    indexed_axes_not_empty(lambda x: [x["axis"]]),
)


def gather(
    input: jax.Array | np.ndarray,
    indices: jax.Array | np.ndarray | np.integer | int,
    axis: int,
    *,
    mode: ReadMode = "clip",
    fill_value: Number | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Reads the slices of `input` that `indices` names along `axis`.

    output[pre, q, post] = input[pre, indices[q], post], with q over all coordinates of indices.

    Args:
      input: rank >= 1, any dtype that JAX moves.
      indices: any shape, any integer dtype. A negative index counts from the end, once; an unsigned one never does.
      axis: -rank <= axis < rank of `input`.
      mode: "clip" reads the nearest element for an index out of range, "fill" gives `fill_value`,
        "promise_in_bounds" leaves it undefined.
      fill_value: a number that the dtype of `input` holds; 0 by default. For mode="fill" only.
      indices_are_sorted: a promise that `indices` ascend in row-major order and none is negative.
      unique_indices: a promise that no two indices, after wrapping and clamping, address one slice; what is out of
        range under "fill" is exempt. The gradient then stores instead of adding up.
      deterministic: whether the gradient has the same bits in every run of a program on one kind of device, whatever
        the indices; without it sums of floats may differ in their last bits on a GPU. For known sizes and fewer than
        2**31 elements; others are refused.
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default it follows from the operands.

    Returns:
      An array of shape input.shape[:axis] + indices.shape + input.shape[axis+1:] and the dtype of `input`.

    Raises:
      ConstraintError: `axis` or `mode` out of range, or a non-empty read from an axis of size 0.
      DataTypeError: `indices` are not integers, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
      >>> print(dml_jax.gather(x, np.array([0, 1, 1, 2], np.uint32), axis=0))
      [[1. 2.]
       [3. 4.]
       [3. 4.]
       [5. 6.]]

    Source: DML_GATHER_OPERATOR_DESC. DirectML promises only that a bad index reads inside the input;
      reading the nearest element along `axis` is the choice made here.
    """
    operator = "gather"
    input = as_data(operator, "input", input)
    return _gather(
        input,
        as_indices(operator, indices),
        as_fill(operator, input, mode, fill_value),
        axis=as_int(operator, "axis", axis),
        mode=as_name(operator, "mode", mode),
        form=forced_form(),
        out_sharding=as_out_sharding(operator, out_sharding),
        promises=as_promises(operator, unique_indices, indices_are_sorted, deterministic),
    )


@partial(jax.jit, static_argnames=("axis", "mode", "form", "out_sharding", "promises"))
def _gather(
    input: jax.Array,
    indices: jax.Array,
    fill: jax.Array | None,
    *,
    axis: int,
    mode: str,
    form: str | None,
    out_sharding: OutSharding,
    promises: Promises,
) -> jax.Array:
    check("gather", GATHER, {"input": input, "indices": indices, "axis": axis, "mode": mode})
    axis %= input.ndim
    before, after = input.shape[:axis], input.shape[axis + 1 :]
    shape = before + indices.shape + after
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(*range(axis), *range(axis + indices.ndim, len(shape))),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    slice_sizes = (*before, 1, *after)

    def gathered(input: jax.Array, indices: jax.Array, fill: jax.Array | None) -> jax.Array:
        return read(
            input,
            indices[..., None],
            numbers,
            slice_sizes,
            shape,
            mode=mode,
            fill_value=fill,
            form=form,
            promises=promises,
        )

    kept, picked = ([f"{name} {d}" for d in range(rank)] for name, rank in (("input", input.ndim), ("q", indices.ndim)))
    dims = Dims({"input": kept, "indices": picked}, [*kept[:axis], *picked, *kept[axis + 1 :]])
    return on_mesh("gather", gathered, dims, out_sharding, input=input, indices=indices, fill_value=fill)


GATHER_ELEMENTS = (
    integer_indices(),
    minimum_rank("input", 1),
    same_rank("indices", "input"),
    axis_of("input"),
    READ_MODE,
    same_sizes("indices", "input", except_along="axis"),
    indexed_axes_not_empty(lambda x: [x["axis"]]),
)


def gather_elements(
    input: jax.Array | np.ndarray,
    indices: jax.Array | np.ndarray,
    axis: int,
    *,
    mode: ReadMode = "clip",
    fill_value: Number | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Reads one element of `input` per element of `indices`, which replaces the coordinate along `axis`.

    output[c] = input[c with c[axis] := indices[c]]

    Args:
      input: rank >= 1, any dtype that JAX moves.
      indices: the rank and sizes of `input` except along `axis`, where any size will do; sizes never broadcast.
        Any integer dtype. A negative index counts from the end, once; an unsigned one never does.
      axis: -rank <= axis < rank of `input`.
      mode: "clip" reads the nearest element for an index out of range, "fill" gives `fill_value`,
        "promise_in_bounds" leaves it undefined.
      fill_value: a number that the dtype of `input` holds; 0 by default. For mode="fill" only.
      indices_are_sorted: a promise that `indices` ascend along `axis` and none is negative, which lets XLA read
        faster on some devices.
      unique_indices: a promise that no two indices, after wrapping and clamping, address one element; what is out of
        range under "fill" is exempt. The gradient then stores instead of adding up.
      deterministic: whether the gradient has the same bits in every run of a program on one kind of device, whatever
        the indices; without it sums of floats may differ in their last bits on a GPU. For known sizes and fewer than
        2**31 elements; others are refused.
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default it follows from the operands.

    Returns:
      An array of the shape of `indices` and the dtype of `input`.

    Raises:
      ConstraintError: ranks or sizes differ, `axis` or `mode` out of range, or a non-empty read from an axis of size 0.
      DataTypeError: `indices` are not integers, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)
      >>> print(dml_jax.gather_elements(x, np.array([[1, 2, 0], [2, 0, 0]], np.uint32), axis=0))
      [[4. 8. 3.]
       [7. 2. 3.]]

    Source: DML_GATHER_ELEMENTS_OPERATOR_DESC. DirectML is silent about an index out of range;
      reading the nearest element along `axis` is the choice made here.
    """
    operator = "gather_elements"
    input = as_data(operator, "input", input)
    return _gather_elements(
        input,
        as_indices(operator, indices),
        as_fill(operator, input, mode, fill_value),
        axis=as_int(operator, "axis", axis),
        mode=as_name(operator, "mode", mode),
        form=forced_form(),
        out_sharding=as_out_sharding(operator, out_sharding),
        promises=as_promises(operator, unique_indices, indices_are_sorted, deterministic),
    )


@partial(jax.jit, static_argnames=("axis", "mode", "form", "out_sharding", "promises"))
def _gather_elements(
    input: jax.Array,
    indices: jax.Array,
    fill: jax.Array | None,
    *,
    axis: int,
    mode: str,
    form: str | None,
    out_sharding: OutSharding,
    promises: Promises,
) -> jax.Array:
    check("gather_elements", GATHER_ELEMENTS, {"input": input, "indices": indices, "axis": axis, "mode": mode})
    axis %= input.ndim
    others = tuple(d for d in range(input.ndim) if d != axis)
    # Batching dimensions let XLA partition the untouched dimensions without communication.
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )

    # XLA's promise is about all indices in row-major order, coordinates of other dimensions first.
    of_xla = replace(promises, indices_are_sorted=promises.indices_are_sorted and axis == input.ndim - 1)

    def gathered(input: jax.Array, indices: jax.Array, fill: jax.Array | None) -> jax.Array:
        return read(
            input,
            indices[..., None],
            numbers,
            (1,) * input.ndim,
            indices.shape,
            mode=mode,
            fill_value=fill,
            form=form,
            promises=of_xla,
            sorted_along_axis=promises.indices_are_sorted,
        )

    names = [f"input {d}" for d in range(input.ndim)]
    picked = [*names[:axis], "q", *names[axis + 1 :]]
    dims = Dims({"input": names, "indices": picked}, picked)
    return on_mesh("gather_elements", gathered, dims, out_sharding, input=input, indices=indices, fill_value=fill)


def _batch_fits(x: Operands) -> str | None:
    least = min(len(x["input"].shape), len(x["indices"].shape))
    return None if 0 <= x["batch_dims"] < least else f"it is {x['batch_dims']} and the smaller rank is {least}"


def _batch_sizes_agree(x: Operands) -> str | None:
    if _batch_fits(x):
        return None
    b = x["batch_dims"]
    one, other = tuple(x["input"].shape[:b]), tuple(x["indices"].shape[:b])
    return None if one == other else f"the leading sizes are {one} and {other}"


GATHER_ND = (
    integer_indices(),
    minimum_rank("input", 1),
    minimum_rank("indices", 1),
    custom("batch_fits", "{batch_dims} must be in [0, min({input}.{rank}, {indices}.{rank}))", _batch_fits),
    tuples_fit("batch_dims"),
    custom(
        "batch_sizes_agree",
        "{indices}.{sizes}[:{batch_dims}] must equal {input}.{sizes}[:{batch_dims}]",
        _batch_sizes_agree,
    ),
    READ_MODE,
    indexed_axes_not_empty(lambda x: range(x["batch_dims"], x["batch_dims"] + tuple_size(x))),
)


def gather_nd(
    input: jax.Array | np.ndarray,
    indices: jax.Array | np.ndarray,
    *,
    batch_dims: int = 0,
    mode: ReadMode = "clip",
    fill_value: Number | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Reads the slice of `input` that each tuple along the last dimension of `indices` addresses.

    output[b, q, r] = input[b, indices[b, q, 0], ..., indices[b, q, t-1], r], with t = indices.shape[-1].

    Args:
      input: rank >= 1, any dtype that JAX moves.
      indices: rank >= 1; its last size t is the length of a tuple, 1 <= t <= rank of `input` - `batch_dims`.
        Any integer dtype. A negative index counts from the end, once; an unsigned one never does.
      batch_dims: how many leading dimensions `input` and `indices` share; their sizes must be equal.
      mode: "clip" moves each coordinate out of range to the nearest one in range, "fill" gives `fill_value` where any
        coordinate is out of range, "promise_in_bounds" leaves such elements undefined.
      fill_value: a number that the dtype of `input` holds; 0 by default. For mode="fill" only.
      indices_are_sorted: a promise that the tuples ascend, compared coordinate by coordinate, in row-major order (of
        each batch) and no coordinate is negative.
      unique_indices: a promise that no two tuples, after wrapping and clamping, address one slice; what is out of
        range under "fill" is exempt. The gradient then stores instead of adding up.
      deterministic: whether the gradient has the same bits in every run of a program on one kind of device, whatever
        the indices; without it sums of floats may differ in their last bits on a GPU. For known sizes and fewer than
        2**31 elements; others are refused.
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default it follows from the operands.

    Returns:
      An array of shape indices.shape[:-1] + input.shape[batch_dims + t:] and the dtype of `input`.

    Raises:
      ConstraintError: tuples too long or empty, batch sizes differ, `mode` unknown, or a non-empty read from a
        dimension of size 0.
      DataTypeError: `indices` are not integers, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
      >>> tuples = np.array([[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]], np.uint32)
      >>> print(dml_jax.gather_nd(x, tuples, batch_dims=1))
      [[ 0.  3.]
       [ 7.  4.]
       [ 9. 10.]]

    Source: DML_GATHER_ND1_OPERATOR_DESC (and DML_GATHER_ND_OPERATOR_DESC for batch_dims=0). DirectML is silent about
      a coordinate out of range; moving each one to the nearest in range is the choice made here.
    """
    operator = "gather_nd"
    input = as_data(operator, "input", input)
    return _gather_nd(
        input,
        as_indices(operator, indices),
        as_fill(operator, input, mode, fill_value),
        batch_dims=as_int(operator, "batch_dims", batch_dims),
        mode=as_name(operator, "mode", mode),
        form=forced_form(),
        out_sharding=as_out_sharding(operator, out_sharding),
        promises=as_promises(operator, unique_indices, indices_are_sorted, deterministic),
    )


@partial(jax.jit, static_argnames=("batch_dims", "mode", "form", "out_sharding", "promises"))
def _gather_nd(
    input: jax.Array,
    indices: jax.Array,
    fill: jax.Array | None,
    *,
    batch_dims: int,
    mode: str,
    form: str | None,
    out_sharding: OutSharding,
    promises: Promises,
) -> jax.Array:
    check("gather_nd", GATHER_ND, {"input": input, "indices": indices, "batch_dims": batch_dims, "mode": mode})
    batch, indexed = tuple(range(batch_dims)), tuple(range(batch_dims, batch_dims + indices.shape[-1]))
    rest = input.shape[batch_dims + indices.shape[-1] :]
    shape = indices.shape[:-1] + rest
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(indices.ndim - 1, len(shape))),
        collapsed_slice_dims=indexed,
        start_index_map=indexed,
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
    )
    slice_sizes = (1,) * (len(batch) + len(indexed)) + rest

    def gathered(input: jax.Array, indices: jax.Array, fill: jax.Array | None) -> jax.Array:
        return read(
            input, indices, numbers, slice_sizes, shape, mode=mode, fill_value=fill, form=form, promises=promises
        )

    names = [f"input {d}" for d in range(input.ndim)]
    picked = [*names[:batch_dims], *(f"q {d}" for d in range(batch_dims, indices.ndim - 1))]
    dims = Dims({"input": names, "indices": [*picked, "tuple"]}, [*picked, *names[batch_dims + indices.shape[-1] :]])
    return on_mesh("gather_nd", gathered, dims, out_sharding, input=input, indices=indices, fill_value=fill)
