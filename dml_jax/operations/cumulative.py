"""Cumulative sums and products along an axis."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .programs.primitive import Move
from .programs.variant_selection import choose, known_bytes, shapes_of
from .values.accumulation_types import computed_type, narrow_apart


@dataclass(frozen=True)
class Accumulation:
    """How the elements along an axis are combined.

    Args:
      combine: the function of jax.lax that combines two elements.
      scan: the function of jax.lax that combines a whole axis.
      start: the result for no elements.
    """

    combine: Callable[[jax.Array, jax.Array], jax.Array]
    scan: Callable[..., jax.Array]
    start: int


SUMMATION = Accumulation(lax.add, lax.cumsum, 0)
PRODUCT = Accumulation(lax.mul, lax.cumprod, 1)
# For bools as int8, 0 and 1: these never overflow.
_OF_BOOLS = {SUMMATION: Accumulation(lax.max, lax.cummax, 0), PRODUCT: Accumulation(lax.min, lax.cummin, 1)}


@dataclass(frozen=True)
class CumulativeCase:
    """One cumulative sum or product, for the choice between implementations.

    Args:
      kind: how elements are combined.
      axis: from 0 on.
      reverse: whether the last element comes first.
      exclusive: whether an element is left out of its own result.
      wide: the type in which elements are combined.
      input: shape and type, which the result has too.
      devices: among which XLA may divide an array.
    """

    kind: Accumulation
    axis: int
    reverse: bool
    exclusive: bool
    wide: Any
    input: Any
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of both arrays; 0 if they are empty, or if a size is symbolic."""
        return 2 * known_bytes(self.input)

    @property
    def plain(self) -> Move:
        """A scan in a tree, narrowed last: XLA:GPU crashes in pads of fewer than eight bits."""
        scan = partial(self.kind.scan, axis=self.axis, reverse=self.reverse)
        return lambda _, x: narrow_apart(self.shifted(scan(x.astype(self.wide))), x.dtype)

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type."""
        return self.input

    @property
    def size(self) -> int:
        """Elements along the axis."""
        return self.input.shape[self.axis]

    @cached_property
    def side_by_side(self) -> int:
        """The distance, in elements, between neighbours along the axis."""
        return prod(self.input.shape[self.axis + 1 :])

    def shifted(self, x: jax.Array) -> jax.Array:
        """Shifts the result, or the operand, by one element: inclusive sums become exclusive."""
        if not self.exclusive:
            return x
        # lax.pad cuts by negative edges: [1, 3, 6] with the edges 1 and -1 becomes [0, 1, 3].
        shift: Sequence[Any] = (-1, 1, 0) if self.reverse else (1, -1, 0)
        edges = [shift if d == self.axis else (0, 0, 0) for d in range(x.ndim)]
        return lax.pad(x, jnp.asarray(self.kind.start, x.dtype), edges)


def accumulate(kind: Accumulation, x: jax.Array, axis: int, *, reverse: bool, exclusive: bool) -> jax.Array:
    """Combines, along an axis, the elements up to each one, or the elements before it if `exclusive`.

    Args:
      kind: SUMMATION or PRODUCT; of bools that is "or" and "and".
      x: numbers. Narrow floats are combined in float32, and each result is rounded once.
      axis: from 0 on.
      reverse: whether the last element comes first.
      exclusive: whether an element is left out of its own result.
    """
    is_bool = x.dtype == jnp.bool_
    kind, wide = (_OF_BOOLS[kind], np.dtype(np.int8)) if is_bool else (kind, computed_type(x.dtype))
    # The transpose of a sum over all before is a sum over all after. Products are not linear.
    is_linear = kind is SUMMATION and jnp.issubdtype(x.dtype, jnp.floating)

    def back(_: None, cotangent: jax.Array, __: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [accumulate(kind, cotangent, axis, reverse=not reverse, exclusive=exclusive)]

    case_of = partial(CumulativeCase, kind, axis, reverse, exclusive, wide, *shapes_of(x))
    return choose("cumulative", case_of, back if is_linear else None, is_opaque=False)(None, x)
