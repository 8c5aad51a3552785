"""SLICE_GRAD: the gradient of a slice, which writes elements to the places that it reads, among zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import jax
import numpy as np
from jax import lax

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, numbers, one_per_dimension, representable
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level_tables import ALL_TYPES, RANKS_1_TO_8, RANKS_4_TO_5, UP_TO_32_BITS, levels
from ..core.structs.field_types import Row
from ..core.structs.fields import INT, Input, Ints, Output, counted_by
from ..core.structs.operator_desc import OperatorDesc
from ..operations.data_movement import move_elements
from ..operations.values.bit_exact import as_guarded_bits
from ..operations.values.xla_workarounds import widened_float4
from ._slice_rules import SIZES, STRIDES, WINDOW, window_rules, within_reach

__all__ = ["SliceGradDesc", "slice_grad"]


RULES = (
    numbers("input_gradient", with_zero=True),
    *(one_per_dimension(name, "input_gradient") for name in ("sizes", "offsets", "window_sizes", "strides")),
    representable("sizes", lambda x: x["sizes"], "input_gradient"),
    *window_rules("sizes", "offsets", "window_sizes", "strides"),
    within_reach("input_gradient", "window_sizes", "strides"),
)


def _dims(x: Operands) -> Dims:
    """A dimension that keeps its size and its order keeps its sharding."""
    names, lines = names_of(x, "input_gradient"), zip(x["input_gradient"].shape, x["sizes"], x["strides"], strict=True)
    spread = [d for d, (n, size, stride) in enumerate(lines) if n != size or (stride != 1 and n != 1)]
    return Dims({"input_gradient": names}, renamed(names, spread), names)


@operator(*RULES, dims=_dims)
def slice_grad(
    input_gradient: Data,
    sizes: Sequence[int],
    offsets: Sequence[int],
    window_sizes: Sequence[int],
    strides: Sequence[int],
    *,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Puts `input_gradient` where `slice` would read it in an array of `sizes`, which is 0 elsewhere.

    output[start + c * strides] = input_gradient[c], with start = offsets, plus window_sizes - 1 where strides < 0.

    Args:
      input_gradient: any rank, any dtype of numbers with 0 among them; at most of sizes
        1 + (window_sizes - 1) // abs(strides).
      sizes: of the output, per dimension.
      offsets: first element of the window, per dimension; an integer, at least 0.
      window_sizes: length of the window per dimension, at least 1; it must lie inside `sizes`.
      strides: distance between elements that are written, per dimension; not 0.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of `sizes` and the dtype of `input_gradient`.

    Raises:
      ConstraintError: not a number per dimension, a window that is empty or reaches out of `sizes`, a stride of 0, or
        more elements than the strides reach.
      DataTypeError: a number is not an integer, `input_gradient` has no 0, or has 64 bits while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.slice_grad(np.int32([[1, 2], [3, 4]]), (4, 4), (0, 1), (4, 3), (-2, 2)))
      [[0 0 0 0]
       [0 3 0 4]
       [0 0 0 0]
       [0 1 0 2]]

    Source: DML_SLICE_GRAD_OPERATOR_DESC. Its page admits a stride of 0, which DML_SLICE1_OPERATOR_DESC forbids; it is
      refused here.
    """
    lines = zip(input_gradient.shape, sizes, offsets, window_sizes, strides, strict=True)
    zeros = [_zeros(*line) for line in lines]
    backwards = [d for d, stride in enumerate(strides) if stride < 0]

    def spread(_: None, gradient: jax.Array) -> jax.Array:
        return lax.pad(lax.rev(gradient, backwards), np.zeros((), gradient.dtype), zeros)

    return move_elements(widened_float4(spread), None, input_gradient, carry=as_guarded_bits)


def _zeros(n: int, size: int, offset: int, window: int, stride: int) -> tuple[int, int, int]:
    """Returns how many zeros stand before, after and between `n` elements, once these are in ascending order."""
    if n == 0:
        return size, 0, 0
    reach = (n - 1) * abs(stride)
    before = offset if stride > 0 else offset + window - 1 - reach
    return before, size - before - reach - 1, abs(stride) - 1 if n != 1 else 0


class SliceGradDesc(OperatorDesc):
    """DML_SLICE_GRAD_OPERATOR_DESC: puts a gradient where SLICE1 read its elements, and 0 elsewhere.

    Args:
      input_gradient: at most the elements that the strides reach in the window, 1 + (size - 1) / abs(stride).
      output_gradient: any sizes.
      input_window_offsets: first element of the window in `output_gradient`, per dimension.
      input_window_sizes: length of the window, at least 1; it lies inside `output_gradient`.
      input_window_strides: elements from one that is written to the next; not 0. A negative one starts at the end.

    Example:
      >>> SliceGradDesc(
      ...     input_gradient=TensorDesc("FLOAT32", (3,)), output_gradient=TensorDesc("FLOAT32", (6,)),
      ...     input_window_offsets=(1,), input_window_sizes=(5,), input_window_strides=(-2,),
      ... ).compute(np.float32([1, 2, 3]))
      Array([0., 3., 0., 2., 0., 1.], dtype=float32)

    Source: DML_SLICE_GRAD_OPERATOR_DESC. Its page calls the strides unsigned and admits 0; here they are as the header
      and SLICE1 have them.
    """

    input_gradient: Input
    output_gradient: Output
    input_window_offsets: Ints
    input_window_sizes: Ints
    input_window_strides: Annotated[Row[int], counted_by("DimensionCount", INT)]

    moves_words = True
    support = levels(
        ("4_1", RANKS_1_TO_8, ALL_TYPES),
        ("3_1", RANKS_1_TO_8, UP_TO_32_BITS),
        ("3_0", RANKS_4_TO_5, UP_TO_32_BITS),
        of="input_gradient",
    )
    constraints = (
        *(one_per_dimension(name, "output_gradient") for name in WINDOW),
        *window_rules("output_gradient", *WINDOW),
        within_reach("input_gradient", SIZES, STRIDES),
    )

    def compute_checked(self, input_gradient: jax.Array) -> jax.Array:
        return slice_grad(input_gradient, self.output_gradient.sizes, *(getattr(self, name) for name in WINDOW))
