"""The input of windows or of interpolation, as an operation that changes nothing: XLA may compute it in each read."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax

from .programs.primitive import Move
from .programs.variant_selection import choose, known_bytes, shapes_of
from .sliding_windows import Windows, unfolded_shape


@dataclass(frozen=True)
class InputCase:
    """One array of which a loop reads elements, for the choice between implementations.

    Args:
      reads: how many elements the loop reads; some are read several times.
      results: how many elements the loop makes of them.
      array: shape and type.
      devices: among which XLA may divide an array.
    """

    reads: Any
    results: Any
    array: Any
    devices: int

    @property
    def bytes(self) -> int:
        """Those of the array, and of all elements that are read, written and read; 0 if empty, or of symbolic size."""
        known = known_bytes(self.array)
        return known + 2 * self.reads * self.array.dtype.itemsize if known else 0

    @property
    def plain(self) -> Move:
        """The array as it is."""
        return lambda _, array: array

    @property
    def result(self) -> Any:
        """Shape and type."""
        return self.array


def window_input(x: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """x, over whose last dimensions windows slide; a platform may compute it before them."""
    lead = x.shape[: x.ndim - len(windows)]
    reads, results = prod(unfolded_shape(lead, windows)), prod((*lead, *(w.count for w in windows)))
    return choose("window_input", partial(InputCase, reads, results, *shapes_of(x)))(None, x)


def interpolation_input(x: jax.Array, axis: int, rows: int, count: int) -> jax.Array:
    """x, of which `rows` elements along a dimension make each of `count`; a platform may compute it before them."""
    results = prod(count if d == axis else size for d, size in enumerate(x.shape))
    return choose("interpolation_input", partial(InputCase, rows * results, results, *shapes_of(x)))(None, x)
