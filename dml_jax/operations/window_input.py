"""The input of sliding windows, as an operation that changes nothing: XLA may compute it again in each window."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from .programs.primitive import Move
from .programs.variant_selection import choose, known_bytes, shapes_of
from .sliding_windows import Windows, unfolded_shape


@dataclass(frozen=True)
class WindowInputCase:
    """One array that windows slide over, for the choice between implementations.

    Args:
      windows: along the last dimensions.
      array: shape and type.
      devices: among which XLA may divide an array.
    """

    windows: Sequence[Windows]
    array: Any
    devices: int

    @property
    def bytes(self) -> int:
        """Those of the array, and of all elements of its windows, written and read; 0 if empty, or of symbolic size."""
        lead = self.array.shape[: len(self.array.shape) - len(self.windows)]
        unfolded = jax.ShapeDtypeStruct(unfolded_shape(lead, self.windows), self.array.dtype)
        return known_bytes(self.array, unfolded, unfolded) if known_bytes(self.array) else 0

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
    return choose("window_input", partial(WindowInputCase, windows, *shapes_of(x)))(None, x)
