"""UNFOLD: sliding windows as columns (im2col)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, OutSharding, WindowSizes
from ..core.arguments.operator import operator
from ..core.rules import Operands, custom
from ..core.sharding import Dims, names_of
from ..core.structs.fields import Input, Ints, Output
from ..core.structs.operator_desc import OperatorDesc
from ..operations.sliding_windows import Windows
from ..operations.unfold import unfold_windows
from ._sliding_windows import (
    Dilations,
    PerWindow,
    Strides,
    attributes_of,
    columns_of,
    function_rules,
    sliding,
    struct_rules,
    support_of,
)

__all__ = ["UnfoldDesc", "unfold"]


def _uncounted(x: Operands) -> str | None:
    count, rank = len(x["window_sizes"]), len(x["input"].shape)
    return None if 1 <= count < rank else f"there are {count} and the rank is {rank}"


def _sizes(x: Operands) -> Sequence[Any] | None:
    return None if _uncounted(x) else x["input"].shape[-len(x["window_sizes"]) :]


def _output_sizes(x: Operands, windows: list[Windows]) -> Sequence[Any]:
    return (*x["input"].shape[: -len(windows)], *columns_of(windows))


SPATIAL = custom(
    "spatial(window_sizes)",
    "{window_sizes} must have one entry per spatial dimension of {input}, at least one, after a dimension of channels",
    _uncounted,
)
RULES = function_rules(_sizes, SPATIAL, output_sizes=_output_sizes)


def _dims(x: Operands) -> Dims:
    """Rows keep the sharding of the channels that they come from."""
    names = names_of(x, "input")
    return Dims({"input": names}, [*names[: -len(x["window_sizes"])], "columns"])


@operator(*RULES, dims=_dims)
def unfold(
    input: Data,
    window_sizes: WindowSizes,
    *,
    strides: PerWindow | None = None,
    dilations: PerWindow | None = None,
    start_padding: PerWindow | None = None,
    end_padding: PerWindow | None = None,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Copies each window that slides over `input` into a column (im2col).

    output[..., c * W + w, b] = input[..., c, b * strides + w * dilations - start_padding], 0 outside of `input`, with
    W = prod(window_sizes), and w and b the row-major numbers of an element of a window and of a window.

    Args:
      input: [..., C, S_1, ..., S_d], any dtype that has a zero.
      window_sizes: elements of a window along each of the d spatial dimensions, d >= 1; integers, at least 1. One
        number stands for all dimensions after the first two, [N, C], of which there must be two.
      strides: distance from a window to the next one, per spatial dimension, at least 1; 1 by default. One number
        stands for all.
      dilations: distance between the elements of a window, at least 1; 1 by default. One number stands for all.
      start_padding: zeros before each spatial dimension, at least 0; 0 by default. One number stands for all.
      end_padding: zeros after it; as `start_padding`.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of shape [..., C * W, B_1 * ... * B_d] and the dtype of `input`, with B = (S + start_padding +
      end_padding - dilations * (window_sizes - 1) - 1) // strides + 1.

    Raises:
      ConstraintError: not a number per spatial dimension, one that is too small, or a window that does not fit.
      DataTypeError: a number is not an integer, `input` has no numbers, no 0, or 64-bit ones while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(9, dtype=np.int32).reshape(1, 1, 3, 3)
      >>> print(dml_jax.unfold(x, (2, 2)))
      [[[0 1 3 4]
        [1 2 4 5]
        [3 4 6 7]
        [4 5 7 8]]]

    Source: DML_UNFOLD_OPERATOR_DESC, whose page leaves its data types out: all that DirectML has are taken here.
    """
    array = jnp.asarray(input)
    windows = sliding(array.shape, window_sizes, strides, dilations, start_padding, end_padding)
    *lead, channels = array.shape[: -len(windows)]
    rows, columns = columns_of(windows)
    return unfold_windows(array, windows).reshape(*lead, channels * rows, columns)


class UnfoldDesc(OperatorDesc):
    """DML_UNFOLD_OPERATOR_DESC: copies each window that slides over `input` into a column.

    Args:
      input: (N, C, spatial sizes), of 1 to 6 spatial dimensions.
      output: (N, C * the product of window_sizes, the number of windows): always 3-D.
      window_sizes: elements of a window, per spatial dimension; at least 1.
      start_padding: zeros before each spatial dimension.
      end_padding: zeros after it.

    Example:
      >>> UnfoldDesc(
      ...     input=TensorDesc("INT32", (1, 1, 4)), output=TensorDesc("INT32", (1, 2, 3)),
      ...     window_sizes=(2,), strides=(1,), dilations=(1,), start_padding=(0,), end_padding=(0,),
      ... ).compute(np.arange(4, dtype=np.int32).reshape(1, 1, 4))
      Array([[[0, 1, 2],
              [1, 2, 3]]], dtype=int32)

    Source: DML_UNFOLD_OPERATOR_DESC. Its page wants one DimensionCount of both tensors, which its own examples do not
      have; they are followed here. It leaves the data types out; all are taken here.
    """

    input: Input
    output: Output
    window_sizes: Ints
    strides: Strides
    dilations: Dilations
    start_padding: Ints
    end_padding: Ints

    other_ranks = ("output",)
    moves_words = True
    support = support_of("input")
    constraints = struct_rules("input", "output")

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return unfold(input, self.window_sizes, **attributes_of(self))
