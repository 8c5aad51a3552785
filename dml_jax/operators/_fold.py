"""FOLD: adds columns to the windows that they come from (col2im)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, Any

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, OutSharding, per_dimension
from ..core.arguments.operator import operator
from ..core.rules import Operands, custom, each_at_least, minimum_rank
from ..core.sharding import Dims, names_of
from ..core.structs.fields import Input, Ints, Output
from ..core.structs.operator_desc import OperatorDesc
from ..operations.sliding_windows import Windows
from ..operations.unfold import fold_windows
from ._sliding_windows import (
    Dilations,
    EndPadding,
    PerWindow,
    StartPadding,
    Strides,
    attributes_of,
    columns_of,
    function_rules,
    sliding,
    struct_rules,
    support_of,
    windows_if_valid,
)

__all__ = ["FoldDesc", "fold"]


def _uncounted(x: Operands) -> str | None:
    count, wanted = len(x["window_sizes"]), len(x["output_sizes"])
    return None if 1 <= count == wanted else f"there are {count} for {wanted} sizes"


def _sizes(x: Operands) -> Sequence[Any] | None:
    return None if _uncounted(x) or NOT_NEGATIVE.broken_by(x) else x["output_sizes"]


def _output_sizes(x: Operands, windows: list[Windows]) -> Sequence[Any]:
    return (*x["input"].shape[:-1], *(w.size for w in windows))


def _no_channels(x: Operands) -> str | None:
    rows, each = x["input"].shape[-2], prod(x["window_sizes"])
    return f"there are {rows} for windows of {each}" if isinstance(rows, int) and rows % each else None


def _no_windows(x: Operands) -> str | None:
    _, wanted = columns_of(windows_if_valid(x, _sizes))
    actual = x["input"].shape[-1]
    return None if actual == wanted else f"there are {actual} for {wanted} windows"


NOT_NEGATIVE = each_at_least("output_sizes", 0)
RULES = (
    *function_rules(
        _sizes,
        minimum_rank("input", 2),
        custom("spatial(window_sizes)", "{window_sizes} must have one entry per output size, at least one", _uncounted),
        NOT_NEGATIVE,
        output_sizes=_output_sizes,
    ),
    custom("rows(input)", "the rows of {input} must be a multiple of the elements of a window", _no_channels),
    custom("columns(input)", "{input} must have a column per window", _no_windows),
)


def _dims(x: Operands) -> Dims:
    """Channels keep the sharding of the rows that they come from."""
    names = names_of(x, "input")
    return Dims({"input": names}, [*names[:-1], *(f"spatial {d}" for d in range(len(x["output_sizes"])))])


@operator(*RULES, dims=_dims)
def fold(
    input: Data,
    output_sizes: Sequence[int],
    window_sizes: Annotated[int | Sequence[int], per_dimension(len, "output_sizes")],
    *,
    strides: PerWindow | None = None,
    dilations: PerWindow | None = None,
    start_padding: PerWindow | None = None,
    end_padding: PerWindow | None = None,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Adds up columns, each a window that slides over the output (col2im); transposes `unfold`.

    output[..., c, b * strides + w * dilations - start_padding] += input[..., c * W + w, b], where that is no padding,
    with W = prod(window_sizes), and w and b the row-major numbers of an element of a window and of a window.

    Args:
      input: [..., C * W, B], any dtype of numbers with 0 among them; a column per window, in row-major order. The
        sum of bools is "or".
      output_sizes: of the d spatial dimensions of the output, d >= 1.
      window_sizes: elements of a window along each of them; integers, at least 1. One number stands for all.
      strides: distance from a window to the next one, per spatial dimension, at least 1; 1 by default. One number
        stands for all.
      dilations: distance between the elements of a window, at least 1; 1 by default. One number stands for all.
      start_padding: how far the first window starts before each spatial dimension, at least 0; 0 by default. One number
        stands for all.
      end_padding: how far windows may reach past its end; as `start_padding`.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of shape [..., C, S_1, ..., S_d], with S the output sizes, and the dtype of `input`. Integers wrap.
      Floats of 8 and 16 bits are added in float32 and each sum is rounded once, in an order that is left open.

    Raises:
      ConstraintError: not a number per spatial dimension, one that is too small, a window that does not fit, or
        other rows or columns than the windows have.
      DataTypeError: a number is not an integer, `input` has no numbers, no 0, or 64-bit ones while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(8, dtype=np.int32).reshape(1, 2, 4)
      >>> print(dml_jax.fold(x, (5,), (2,)))
      [[[0 5 7 9 7]]]

    Source: DML_FOLD_OPERATOR_DESC, whose page leaves its data types out: all that DirectML has are taken here.
    """
    array = jnp.asarray(input)
    if array.dtype == jnp.bool_:
        array = array.astype(jnp.int32)
    windows = sliding(output_sizes, window_sizes, strides, dilations, start_padding, end_padding)
    (*lead, rows, _), elements = array.shape, [w.window for w in windows]
    shape = (*lead, rows // prod(elements), *elements, *(w.count for w in windows))
    return fold_windows(array.reshape(shape), windows).astype(input.dtype)


class FoldDesc(OperatorDesc):
    """DML_FOLD_OPERATOR_DESC: adds up columns, each a window that slides over `output`.

    Args:
      input: (N, C * the product of window_sizes, the number of windows): always 3-D.
      output: (N, C, spatial sizes), of 1 to 6 spatial dimensions.
      window_sizes: elements of a window, per spatial dimension; at least 1.

    Example:
      >>> FoldDesc(
      ...     input=TensorDesc("INT32", (1, 2, 3)), output=TensorDesc("INT32", (1, 1, 4)),
      ...     window_sizes=(2,), strides=(1,), dilations=(1,), start_padding=(0,), end_padding=(0,),
      ... ).compute(np.arange(6, dtype=np.int32).reshape(1, 2, 3))
      Array([[[0, 4, 6, 5]]], dtype=int32)

    Source: DML_FOLD_OPERATOR_DESC. Its page wants one DimensionCount of both tensors, which its own examples do not
      have; they are followed here. It leaves the data types out; all are taken here.
    """

    input: Input
    output: Output
    window_sizes: Ints
    strides: Strides
    dilations: Dilations
    start_padding: StartPadding
    end_padding: EndPadding

    other_ranks = ("input",)
    support = support_of("output")
    constraints = struct_rules("output", "input")

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return fold(input, self.output.sizes[2:], self.window_sizes, **attributes_of(self))
