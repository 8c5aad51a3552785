"""MAX_POOLING, MAX_POOLING1 and MAX_POOLING2: the greatest element of each window, and its index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.arguments.kinds import Data, OutSharding, WindowSizes
from ..core.arguments.operator import operator
from ..core.rules import Operands, custom, if_given, ordered, same_sizes
from ..core.structs.feature_level_tables import ALL_BUT_FLOAT64, FLOATS, RANKS_4_TO_5, Support, levels
from ..core.structs.fields import OptionalOutput
from ..core.structs.operator_desc import OneOrSeveralOutputs, OperatorDesc
from ..core.tensors.data_type import DataType
from ..operations.gather_scatter_dimension_numbers import Slices
from ..operations.indexed_read import read
from ..operations.max_pool_with_indices import greatest_in_windows, pick_in_windows
from ..operations.promises import Promises
from ..operations.sliding_windows import Windows
from ..operations.unfold import unfold_axis
from ..operations.values.float_comparisons import least_number
from ..operations.values.sort_keys import order
from ..operations.window_slices import are_sliceable, have_few_phases
from ._pooling_rules import Image, Pooled, PoolingDesc, dims_of, pooled, pooling_rules, pooling_struct_rules
from ._sliding_windows import Dilations, EndPadding, PerWindow, StartPadding, Strides, WindowSize, sliding

__all__ = ["MaxPooling1Desc", "MaxPooling2Desc", "MaxPoolingDesc", "max_pooling"]

# Index returned for a window that is all padding.
NONE = np.uint32(2**32 - 1)
MOST_PICKED = 64  # elements of a window whose derivative is chosen from slices; more take seconds to compile


def _too_many(x: Operands) -> str | None:
    count = prod(n for n in x["input"].shape if isinstance(n, int))
    return f"there are {count}" if count >= NONE else None


RULES = pooling_rules(
    ordered("input"), custom("numbered(input)", "{input} must have fewer than 2**32 - 1 elements", _too_many)
)


@operator(*RULES, dims=dims_of)
def max_pooling(
    input: Data,
    window_sizes: WindowSizes,
    *,
    strides: PerWindow | None = None,
    dilations: PerWindow | None = None,
    start_padding: PerWindow | None = None,
    end_padding: PerWindow | None = None,
    out_sharding: OutSharding = None,
) -> tuple[jax.Array, jax.Array]:
    """Finds the greatest element of each window that slides over the last dimensions, and where it lies.

    output[..., b] = max over w of input[..., b * strides + w * dilations - start_padding], where that is no padding

    Among equal elements the first one in row-major order counts; 0.0 and -0.0 are equal, and a NaN is greater than
    every number. Padding is never chosen.

    Args:
      input: [..., S_1, ..., S_d], any dtype of numbers that have an order, with 0 among them.
      window_sizes: elements of a window along each of the d last dimensions, d >= 1; integers, at least 1. One number
        stands for all dimensions after the first two, [N, C], of which there must be two.
      strides: distance from a window to the next one, per spatial dimension, at least 1; 1 by default. One number
        stands for all.
      dilations: distance between the elements of a window, at least 1; 1 by default. One number stands for all.
      start_padding: how far the first window starts before each spatial dimension, at least 0; 0 by default. One number
        stands for all.
      end_padding: how far windows may reach past its end; as `start_padding`.
      out_sharding: sharding of both outputs on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      values: an array with the number of windows for each spatial size, and the dtype of `input`; bits arrive as they
        are. For a window that is all padding the least number of the type, -inf if it has it.
      indices: flat row-major indices into `input`; a uint32 array of the same sizes. For a window that is all padding
        2**32 - 1.

    Raises:
      ConstraintError: not a number per spatial dimension, one that is too small, or a window that does not fit.
      DataTypeError: a number is not an integer, complex `input`, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.float32([[3, 5, 7, 1], [9, 4, 2, 8]])
      >>> for array in dml_jax.max_pooling(x, (1, 3)):
      ...     print(array)
      [[7. 7.]
       [9. 8.]]
      [[2 2]
       [4 7]]

    Source: DML_MAX_POOLING2_OPERATOR_DESC, which says nothing of NaN, nor of windows in the padding alone.
    """
    array = jnp.asarray(input)
    windows = sliding(array.shape, window_sizes, strides, dilations, start_padding, end_padding)
    lead, spatial = array.shape[: -len(windows)], array.shape[-len(windows) :]
    if 0 in spatial:
        shape = (*lead, *(w.count for w in windows))
        return jnp.full(shape, least_number(array.dtype)), jnp.full(shape, NONE)
    values, at = (_max_by_slices if are_sliceable(windows) else _max_by_gather)(array, windows)
    before = jnp.zeros((), np.uint32)
    for d, size in enumerate(lead):
        before = before * jnp.asarray(size).astype(np.uint32) + lax.broadcasted_iota(np.uint32, at.shape, d)
    return values, jnp.where(at == NONE, at, before * np.uint32(prod(spatial)) + at)


def _max_by_slices(array: jax.Array, windows: Sequence[Windows]) -> tuple[jax.Array, jax.Array]:
    """Max by comparing slices, and its flat spatial index, from its offset in the window."""
    greatest, offset = greatest_in_windows(lax.stop_gradient(array), windows)
    at = _flat_spatial_index(offset, windows)

    @jax.custom_jvp
    def values(array: jax.Array, greatest: jax.Array, offset: jax.Array, at: jax.Array) -> jax.Array:
        return greatest

    @values.defjvp
    def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        (_, _, offset, at), (tangent, *_) = primals, tangents
        is_small = prod(w.window for w in windows) <= MOST_PICKED and have_few_phases(windows)
        moved = pick_in_windows(offset, tangent, windows) if is_small else _gather_spatial(tangent, at, windows, 0)
        return values(*primals), moved

    return values(array, greatest, offset, at), at


def _flat_spatial_index(offset: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """Converts an offset within each window to a flat spatial index (uint32, wraps)."""
    at, inner = jnp.zeros((), np.uint32), prod(w.window for w in windows)
    for axis, w in enumerate(windows, offset.ndim - len(windows)):
        inner //= w.window
        within = (offset.astype(np.uint32) // np.uint32(inner)) % np.uint32(w.window)
        first = (np.arange(w.count) * min(w.stride, w.padded) - w.start).astype(np.uint32)
        first = first.reshape([-1 if d == axis else 1 for d in range(offset.ndim)])
        at = at * np.uint32(w.size) + within * np.uint32(w.dilation % 2**32) + first
    return jnp.where(offset < 0, NONE, at)


def _max_by_gather(array: jax.Array, windows: Sequence[Windows]) -> tuple[jax.Array, jax.Array]:
    """`_max_by_slices` for long windows or large padding: argmax over sort keys, then a gather."""
    at = _argmax_windows(array, windows)
    return _gather_spatial(array, at, windows, least_number(array.dtype)), at


def _gather_spatial(array: jax.Array, at: jax.Array, windows: Sequence[Windows], none: Any) -> jax.Array:
    """Gathers elements by flat spatial index; index `NONE` gives `none`."""
    split = array.ndim - len(windows)
    lead, spatial, others = array.shape[:split], array.shape[split:], tuple(range(split))
    is_padding = any((w.sizes_inside() == 0).any() for w in windows)
    values = read(
        array.reshape(*lead, prod(spatial)),
        at.reshape(*lead, prod(at.shape[split:]), 1),
        Slices(split + 1, (split,), others, others),
        mode="fill" if is_padding else "promise_in_bounds",
        fill_value=np.asarray(none, array.dtype),
        promises=Promises(),
    )
    return values.reshape(at.shape)


def _argmax_windows(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """The flat spatial index of each window's maximum; `NONE` if the window is all padding.

    Reduces the last dimension first, so that ties resolve to the lowest row-major index.
    """
    key, count = order(array), len(windows)
    least = np.asarray(jnp.iinfo(key.dtype).min, key.dtype)
    spatial = array.shape[-count:]
    # From 1 on: unfolding puts 0 where there is padding, and NONE + 1 is 0.
    index = lax.iota(np.uint32, prod(spatial)).reshape((1,) * (array.ndim - count) + spatial) + np.uint32(1)
    for d in reversed(range(count)):
        axis = array.ndim - count + d
        indices = unfold_axis(index, axis, windows[d])
        keys = jnp.where(indices > 0, unfold_axis(key, axis, windows[d]), least)
        key = jnp.max(keys, 0)
        index = jnp.min(jnp.where(keys == key[None], indices - np.uint32(1), NONE), 0) + np.uint32(1)
    return index - np.uint32(1)


# The structs.

_TYPES = ALL_BUT_FLOAT64, (*FLOATS, DataType.INT8, DataType.UINT8), FLOATS
_INDICES = (DataType.UINT64, DataType.UINT32), (DataType.UINT32,), (DataType.UINT32,)
_WITH_INDICES = if_given("output_indices", same_sizes("output_indices", "output"))


def _since(level: str) -> tuple[Support, ...]:
    rows = zip(("5_0", "3_0", level), _TYPES, _INDICES, strict=True)
    return tuple(Support.of(since, RANKS_4_TO_5, input=types, output_indices=indices) for since, types, indices in rows)


def _compute(desc: OperatorDesc[Any], input: jax.Array) -> Any:
    values, indices = pooled(max_pooling, desc, input)
    tensor = desc.operands().get("output_indices")
    return values if tensor is None else (values, indices.astype(tensor.dtype))


class MaxPoolingDesc(PoolingDesc):
    """DML_MAX_POOLING_OPERATOR_DESC: finds the greatest element of each window.

    Example:
      >>> MaxPoolingDesc(
      ...     input=TensorDesc("FLOAT32", (1, 1, 2, 4)), output=TensorDesc("FLOAT32", (1, 1, 2, 2)),
      ...     strides=(1, 1), window_size=(1, 3), start_padding=(0, 0), end_padding=(0, 0),
      ... ).compute(np.float32([[[[3, 5, 7, 1], [9, 4, 2, 8]]]]))[0, 0]
      Array([[7., 7.],
             [9., 8.]], dtype=float32)
    """

    support = levels(
        *((since, RANKS_4_TO_5, types) for since, types in zip(("5_0", "3_0", "1_0"), _TYPES, strict=True))
    )
    constraints = pooling_struct_rules(dilated=False)

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return _compute(self, input)


class _IndexedDesc(OneOrSeveralOutputs, is_base=True):
    """The base of the versions with indices.

    Args:
      output_indices: the sizes of `output`; flat row-major indices into `input`. Or None.
    """

    input: Image
    output: Pooled
    output_indices: OptionalOutput
    strides: Strides
    window_size: WindowSize
    start_padding: StartPadding
    end_padding: EndPadding

    other_types = ("output_indices",)

    def compute_checked(self, input: jax.Array) -> Any:
        return _compute(self, input)


class MaxPooling1Desc(_IndexedDesc):
    """DML_MAX_POOLING1_OPERATOR_DESC: finds the greatest element of each window, and where it lies.

    Example:
      >>> values, indices = MaxPooling1Desc(
      ...     input=TensorDesc("FLOAT32", (1, 1, 2, 4)), output=TensorDesc("FLOAT32", (1, 1, 2, 2)),
      ...     output_indices=TensorDesc("UINT32", (1, 1, 2, 2)),
      ...     strides=(1, 1), window_size=(1, 3), start_padding=(0, 0), end_padding=(0, 0),
      ... ).compute(np.float32([[[[3, 5, 7, 1], [9, 4, 2, 8]]]]))
      >>> indices[0, 0]
      Array([[2, 2],
             [4, 7]], dtype=uint32)
    """

    support = _since("2_0")
    constraints = (*pooling_struct_rules(dilated=False), _WITH_INDICES)


class MaxPooling2Desc(_IndexedDesc):
    """DML_MAX_POOLING2_OPERATOR_DESC: finds the greatest element of each dilated window, and where it lies.

    Example:
      >>> MaxPooling2Desc(
      ...     input=TensorDesc("FLOAT32", (1, 1, 2, 4)), output=TensorDesc("FLOAT32", (1, 1, 2, 2)),
      ...     output_indices=None, strides=(1, 1), window_size=(1, 2), start_padding=(0, 0), end_padding=(0, 0),
      ...     dilations=(1, 2),
      ... ).compute(np.float32([[[[3, 5, 7, 1], [9, 4, 2, 8]]]]))[0, 0]
      Array([[7., 5.],
             [9., 8.]], dtype=float32)

    Source: DML_MAX_POOLING2_OPERATOR_DESC. Its page leaves Dilations out of the formula of the output's sizes; a window
      spans Dilations * (WindowSize - 1) + 1 elements here.
    """

    dilations: Dilations

    support = _since("2_1")
    constraints = (*pooling_struct_rules(dilated=True), _WITH_INDICES)
