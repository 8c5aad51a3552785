"""AVERAGE_POOLING and AVERAGE_POOLING1: the mean of each window."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np

from ..core.arguments.kinds import Data, OutSharding, WindowSizes
from ..core.arguments.operator import operator
from ..core.rules import floats
from ..core.structs.feature_level_tables import FLOATS, RANKS_4_TO_5, levels
from ..core.structs.fields import Bool
from ..operations.sliding_windows import Windows
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ..operations.window_sums import sum_windows
from ._pooling_rules import PoolingDesc, dims_of, pooled, pooling_rules, pooling_struct_rules
from ._sliding_windows import Dilations, PerWindow, sliding

__all__ = ["AveragePooling1Desc", "AveragePoolingDesc", "average_pooling"]


@operator(*pooling_rules(floats("input")), dims=dims_of)
def average_pooling(
    input: Data,
    window_sizes: WindowSizes,
    *,
    strides: PerWindow | None = None,
    dilations: PerWindow | None = None,
    start_padding: PerWindow | None = None,
    end_padding: PerWindow | None = None,
    include_padding: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Computes the mean of each window that slides over the last dimensions.

    output[..., b] = the sum over w of input[..., b * strides + w * dilations - start_padding], where that is no
    padding, divided by how many these are or, with `include_padding`, by the elements of a window

    Args:
      input: [..., S_1, ..., S_d], floats of any width, with 0 among them.
      window_sizes: elements of a window along each of the d last dimensions, d >= 1; integers, at least 1. One number
        stands for all dimensions after the first two, [N, C], of which there must be two.
      strides: distance from a window to the next one, per spatial dimension, at least 1; 1 by default. One number
        stands for all.
      dilations: distance between the elements of a window, at least 1; 1 by default. One number stands for all.
      start_padding: how far the first window starts before each spatial dimension, at least 0; 0 by default. One number
        stands for all.
      end_padding: how far windows may reach past its end; as `start_padding`.
      include_padding: whether padding counts, as zeros.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      An array with the number of windows for each spatial size, and the dtype of `input`. A window that lies in the
      padding alone has the mean 0. Floats of 8 and 16 bits are added in float32 and each mean is rounded once, in an
      order that is left open.

    Raises:
      ConstraintError: not a number per spatial dimension, one that is too small, or a window that does not fit.
      DataTypeError: a number is not an integer, `input` has no floats, no 0, or 64-bit ones while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.float32([[3, 5, 7, 1], [9, 4, 2, 8]])
      >>> print(dml_jax.average_pooling(x, (1, 2)))
      [[4.  6.  4. ]
       [6.5 3.  5. ]]
      >>> print(dml_jax.average_pooling(x, (2, 2), strides=(2, 2), start_padding=(0, 1), end_padding=(0, 1)))
      [[6.  4.5 4.5]]

    Source: DML_AVERAGE_POOLING1_OPERATOR_DESC, which says nothing of the width in which FLOAT16 is added up, nor of
      windows in the padding alone.
    """
    windows = sliding(input.shape, window_sizes, strides, dilations, start_padding, end_padding)
    total, count = sums_and_counts(jnp.asarray(input, wide_type(input.dtype)), windows, include_padding)
    return narrow_apart(total / count, input.dtype)


def sums_and_counts(array: jax.Array, windows: Sequence[Windows], include_padding: bool) -> tuple[jax.Array, jax.Array]:
    """The sum of each window over the last dimensions, and how many elements count in it, in the type of `array`."""
    axes = range(array.ndim - len(windows), array.ndim)
    counts = [_along(axis, array.ndim, w, include_padding) for axis, w in zip(axes, windows, strict=True)]
    return sum_windows(array, axes, windows), reduce(jnp.multiply, [jnp.asarray(n, array.dtype) for n in counts])


def _along(axis: int, rank: int, windows: Windows, include_padding: bool) -> np.ndarray:
    """Returns how many elements of each window count along a dimension; 1 where none do, to divide the sum 0 by."""
    counts = np.full(windows.count, windows.window) if include_padding else np.maximum(windows.sizes_inside(), 1)
    return counts.reshape([-1 if d == axis else 1 for d in range(rank)])


# The structs.


class AveragePoolingDesc(PoolingDesc):
    """DML_AVERAGE_POOLING_OPERATOR_DESC: makes the mean of each window.

    Args:
      include_padding: whether padding counts, as zeros.

    Example:
      >>> AveragePoolingDesc(
      ...     input=TensorDesc("FLOAT32", (1, 1, 2, 4)), output=TensorDesc("FLOAT32", (1, 1, 1, 2)),
      ...     strides=(2, 2), window_size=(2, 2), start_padding=(0, 0), end_padding=(0, 0), include_padding=False,
      ... ).compute(np.float32([[[[3, 5, 7, 1], [9, 4, 2, 8]]]])).ravel()
      Array([5.25, 4.5 ], dtype=float32)
    """

    include_padding: Bool

    support = levels(("1_0", RANKS_4_TO_5, FLOATS))
    constraints = pooling_struct_rules(dilated=False)

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return pooled(average_pooling, self, input, include_padding=self.include_padding)


class AveragePooling1Desc(PoolingDesc):
    """DML_AVERAGE_POOLING1_OPERATOR_DESC: makes the mean of each dilated window.

    Args:
      include_padding: whether padding counts, as zeros.

    Example:
      >>> AveragePooling1Desc(
      ...     input=TensorDesc("FLOAT32", (1, 1, 2, 4)), output=TensorDesc("FLOAT32", (1, 1, 1, 2)),
      ...     strides=(1, 1), window_size=(2, 2), start_padding=(0, 0), end_padding=(0, 0), dilations=(1, 2),
      ...     include_padding=False,
      ... ).compute(np.float32([[[[3, 5, 7, 1], [9, 4, 2, 8]]]])).ravel()
      Array([5.25, 4.5 ], dtype=float32)

    Source: DML_AVERAGE_POOLING1_OPERATOR_DESC. Its page leaves Dilations out of the formula of the output's sizes; a
      window spans Dilations * (WindowSize - 1) + 1 elements here.
    """

    dilations: Dilations
    include_padding: Bool

    support = levels(("6_2", RANKS_4_TO_5, FLOATS))
    constraints = pooling_struct_rules(dilated=True)

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return pooled(average_pooling, self, input, include_padding=self.include_padding)
