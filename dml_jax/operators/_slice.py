"""SLICE and SLICE1: a window of an array, copied forwards or backwards along each dimension."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import jax
from jax import lax

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, custom, each_at_least, one_per_dimension, sizes_follow
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level_tables import ALL_TYPES, MOVED_1_0, RANKS_1_TO_8, RANKS_4_TO_5, UP_TO_32_BITS, levels
from ..core.structs.field_types import Row
from ..core.structs.fields import INT, Input, Ints, Output, counted_by
from ..core.structs.operator_desc import OperatorDesc
from ..operations.data_movement import move_elements, per_word
from ..operations.programs.primitive import Move
from ._slice_rules import SIZES, STRIDES, WINDOW, window_rules, within_reach

__all__ = ["Slice1Desc", "SliceDesc", "slice"]

RULES = (*(one_per_dimension(name, "input") for name in WINDOW), *window_rules("input", *WINDOW))


def _dims(x: Operands) -> Dims:
    """A dimension that is copied whole and in order keeps its sharding; another one does not."""
    names, windows = names_of(x, "input"), zip(x[SIZES], x[STRIDES], x["input"].shape, strict=True)
    cut = [d for d, (length, stride, size) in enumerate(windows) if (length, stride) != (size, 1)]
    return Dims({"input": names}, renamed(names, cut), names)


@operator(*RULES, dims=_dims)
def slice(
    input: Data,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    *,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Copies a window of `input` with a stride per dimension; a negative stride starts at the window's end.

    output[c] = input[start + c * strides], with start = offsets, plus sizes - 1 where strides < 0.

    Args:
      input: any rank, any dtype that JAX moves.
      input_window_offsets: first element of the window, per dimension; an integer, at least 0.
      input_window_sizes: length of the window per dimension, at least 1; it must lie inside `input`.
      input_window_strides: distance between elements that are copied, per dimension; not 0.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of sizes 1 + (input_window_sizes - 1) // abs(input_window_strides) and the dtype of `input`.

    Raises:
      ConstraintError: not a number per dimension, a window that is empty or reaches out of `input`, or a stride of 0.
      DataTypeError: a number is not an integer, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(1, 17, dtype=np.int32).reshape(4, 4)
      >>> print(dml_jax.slice(x, (0, 1), (4, 3), (2, 2)))
      [[ 2  4]
       [10 12]]
      >>> print(dml_jax.slice(x, (0, 1), (4, 3), (-2, 2)))
      [[14 16]
       [ 6  8]]

    Source: DML_SLICE1_OPERATOR_DESC (and DML_SLICE_OPERATOR_DESC for positive strides). Its output may be smaller than
      the elements of the window; here it has all of them. Its page counts with the stride where its example needs the
      stride without its sign; the example is followed here.
    """
    offsets, strides = tuple(input_window_offsets), tuple(input_window_strides)
    ends = tuple(o + n for o, n in zip(offsets, input_window_sizes, strict=True))
    # A step beyond the window reaches its first element alone, however long it is.
    reached = zip(strides, input_window_sizes, strict=True)
    steps = tuple(min(abs(s), n) if isinstance(n, int) else abs(s) for s, n in reached)
    backwards = [d for d, stride in enumerate(strides) if stride < 0]
    reaches_end = [end == n for end, n in zip(ends, input.shape, strict=True)]  # so does the part of a device

    def copy(_: None, input: jax.Array, count: int = 1) -> jax.Array:
        lines = zip(input.shape, per_word(ends, count), reaches_end, strict=True)
        limits = [n if is_last else end for n, end, is_last in lines]
        turned = lax.rev(lax.slice(input, per_word(offsets, count), limits), backwards)
        return lax.slice(turned, (0,) * input.ndim, turned.shape, steps)

    def copy_words(count: int) -> Move | None:
        return partial(copy, count=count) if strides[-1] == 1 and offsets[-1] % count == 0 else None

    aligned = 0 if _is_contiguous(input.shape, offsets, ends, strides) else 1
    return move_elements(copy, None, input, words=copy_words, aligned=aligned)


def _is_contiguous(shape: Sequence[Any], offsets: Sequence[int], ends: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements that are copied lie one after the other in memory."""
    lines = zip(shape, offsets, ends, strides, strict=True)
    cut = [d for d, (n, start, end, stride) in enumerate(lines) if (start, end, stride) != (0, n, 1)]
    return not cut or (len(cut) == 1 and strides[cut[0]] == 1 and all(n == 1 for n in shape[: cut[0]]))


_TABLE = (("4_1", RANKS_1_TO_8, ALL_TYPES), ("3_0", RANKS_1_TO_8, UP_TO_32_BITS), ("2_1", RANKS_4_TO_5, UP_TO_32_BITS))


def _beyond(x: Operands) -> str | None:
    for d, (offset, n, stride, size) in enumerate(zip(x["offsets"], x["sizes"], x["strides"], x["input"].sizes)):  # noqa: B905
        if offset + (n - 1) * stride >= size:
            return f"the last one of dimension {d} is {offset + (n - 1) * stride} of {size}"
    return None


class SliceDesc(OperatorDesc):
    """DML_SLICE_OPERATOR_DESC: copies elements of `input`, from an offset on in steps.

    Args:
      output: as large as `sizes` says.
      offsets: of the first element, per dimension.
      sizes: of the output, not of a window.
      strides: elements of `input` from one that is copied to the next, per dimension; at least 1.

    Example:
      >>> SliceDesc(
      ...     input=TensorDesc("INT32", (4, 4)), output=TensorDesc("INT32", (2, 2)),
      ...     offsets=(1, 0), sizes=(2, 2), strides=(2, 3),
      ... ).compute(np.arange(1, 17, dtype=np.int32).reshape(4, 4))
      Array([[ 5,  8],
             [13, 16]], dtype=int32)
    """

    input: Input
    output: Output
    offsets: Ints
    sizes: Ints
    strides: Ints

    moves_words = True
    support = levels(*_TABLE, ("1_0", RANKS_4_TO_5, MOVED_1_0))
    constraints = (
        *(one_per_dimension(name, "input") for name in ("offsets", "sizes", "strides")),
        each_at_least("strides", 1),
        sizes_follow("output", lambda x: x["sizes"], "{sizes}"),
        custom("inside", "{offsets} + ({sizes} - 1) * {strides} must be inside {input}", _beyond),
    )

    def compute_checked(self, input: jax.Array) -> jax.Array:
        window = tuple(1 + (n - 1) * stride for n, stride in zip(self.sizes, self.strides, strict=True))
        return slice(input, self.offsets, window, self.strides)


class Slice1Desc(OperatorDesc):
    """DML_SLICE1_OPERATOR_DESC: copies the elements of a window, in either direction.

    Args:
      output: at most the elements that the strides reach in the window, 1 + (size - 1) / abs(stride); fewer are a part.
      input_window_offsets: first element of the window, per dimension.
      input_window_sizes: length of the window, at least 1; it lies inside `input`.
      input_window_strides: elements from one that is copied to the next; not 0. A negative one starts at the end.

    Example:
      >>> Slice1Desc(
      ...     input=TensorDesc("INT32", (4, 4)), output=TensorDesc("INT32", (2, 2)),
      ...     input_window_offsets=(0, 1), input_window_sizes=(4, 3), input_window_strides=(-2, 2),
      ... ).compute(np.arange(1, 17, dtype=np.int32).reshape(4, 4))
      Array([[14, 16],
             [ 6,  8]], dtype=int32)

    Source: DML_SLICE1_OPERATOR_DESC. Its page calls the strides unsigned; the header and its example have signed ones.
    """

    input: Input
    output: Output
    input_window_offsets: Ints
    input_window_sizes: Ints
    input_window_strides: Annotated[Row[int], counted_by("DimensionCount", INT)]

    moves_words = True
    support = levels(*_TABLE)
    constraints = (*RULES, within_reach("output", SIZES, STRIDES))

    def compute_checked(self, input: jax.Array) -> jax.Array:
        copied = slice(input, self.input_window_offsets, self.input_window_sizes, self.input_window_strides)
        return lax.slice(copied, (0,) * copied.ndim, self.output.sizes)
