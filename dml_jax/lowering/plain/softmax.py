"""Functions of all numbers along dimensions, such as softmax, whose results are as large as their arguments."""

from collections.abc import Callable, Sequence

import jax

from ..select import shapes_of
from ..values.accumulation_types import narrow_apart, wide_type
from .along import Along, compute

__all__ = ["compute_along"]


def compute_along(function: Callable[[jax.Array], jax.Array], x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """`function(x)` in the type of `x`; of narrow floats it is computed in float32 and rounded once.

    Args:
      function: makes of wide numbers as many, each of those that lie with it along `axes`.
      x: floats.
      axes: from 0 on, or from the last one back.
    """
    dtype, wide = x.dtype, wide_type(x.dtype)

    def whole(x: jax.Array) -> jax.Array:
        return narrow_apart(function(x.astype(wide)), dtype)

    def part(numbers: jax.Array, _: Sequence[int]) -> jax.Array:
        return function(numbers).astype(dtype)

    (result,) = shapes_of(x)
    return compute(Along("each", [axis % x.ndim for axis in axes], wide, result, whole, part, join=None), x)
