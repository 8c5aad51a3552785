"""Reductions and softmax along axes, computed from the whole array or combined from its parts.

The maximum of [3, 1, 4, 1, 5] is the greater of the maxima of [3, 1, 4] and [1, 5], which are 4 and 5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any, Literal

import jax
import jax.numpy as jnp

from .programs.primitive import Back, Move
from .programs.variant_selection import choose, known_bytes, shapes_of

# From a part of the array, in the wide type, and its start along each dimension, to a tree of arrays of its rank.
Part = Callable[[jax.Array, Sequence[Any]], Any]
Kind = Literal["sum", "product", "exponential", "extreme", "place", "each"]


@dataclass(frozen=True)
class AxisOperation:
    """An operation along axes.

    Args:
      kind: of the operation; "each" has a result for each number, the others have one for all along the axes.
      axes: each once, from 0 on.
      wide: the type in which numbers are computed.
      result: shape and type of the result.
      whole: the plain implementation.
      part: computes a part of the array; along each dimension its results have the size of the part, or 1.
      join: makes the result from the results of parts side by side; None if a part needs all numbers along the axes.
      combine: merges the results of two parts along the axes into one; None if only `join` can.
    """

    kind: Kind
    axes: Sequence[int]
    wide: Any
    result: Any
    whole: Callable[[jax.Array], jax.Array]
    part: Part
    join: Callable[[Any], jax.Array] | None
    combine: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class AxisCase:
    """One operation along axes, for the choice between implementations.

    Args:
      operation: which one.
      input: shape and type.
      devices: among which XLA may divide an array.
    """

    operation: AxisOperation
    input: Any
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of both arrays; 0 if one is empty, has no dimension, or if a size is symbolic."""
        is_known = known_bytes(self.input) and self.input.ndim
        return known_bytes(self.input, self.result) if is_known else 0

    @property
    def plain(self) -> Move:
        """The plain implementation."""
        return lambda _, x: self.operation.whole(x)

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type."""
        return self.operation.result

    @cached_property
    def wide_bytes(self) -> int:
        """Bytes of all numbers in the type in which they are computed, or in float32 if that is narrower."""
        return prod(self.input.shape) * max(4, jnp.dtype(self.operation.wide).itemsize)

    @cached_property
    def axes(self) -> Sequence[int]:
        """The axes along which there are several numbers."""
        return [axis for axis in self.operation.axes if self.input.shape[axis] != 1]

    @cached_property
    def side_by_side(self) -> int:
        """The distance, in numbers, between neighbours along the first of these axes."""
        return prod(self.input.shape[self.axes[0] + 1 :]) if self.axes else 0


def compute(operation: AxisOperation, x: jax.Array, back: Back | None = None) -> jax.Array:
    """Applies an operation to an array.

    Args:
      operation: which one.
      x: the array.
      back: the transpose of an operation that is linear.
    """
    return choose("axis_operation", partial(AxisCase, operation, *shapes_of(x)), back, is_opaque=False)(None, x)


def reduced(x: Any, axes: Sequence[int], dtype: Any) -> jax.ShapeDtypeStruct:
    """The shape and type of a reduction with keepdims=True."""
    return jax.ShapeDtypeStruct(tuple(1 if d in axes else n for d, n in enumerate(x.shape)), dtype)
