"""Convolutions of bytes whose sums are wanted in float32, as in quantised networks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .programs.primitive import Move
from .programs.variant_selection import choose, known_bytes, shapes_of
from .sliding_windows import Windows


@dataclass(frozen=True)
class ConvolutionSumsCase:
    """One convolution of bytes, for the choice between implementations.

    Args:
      x: shape and type, (N, C, spatial sizes).
      filters: shape and type, (O, C / groups, spatial sizes).
      windows: along the spatial dimensions.
      groups: of channels.
      known: the filters, if they are a constant.
      in_integers: the sums in int32, of x, its zero point or None, the filters, and their zero points or None.
      have_zeros: whether x and the filters have zero points.
      devices: among which XLA may divide an array.
    """

    x: Any
    filters: Any
    windows: tuple[Windows, ...]
    groups: int
    # Not compared: NumPy compares arrays element by element, and gives them no hash.
    known: np.ndarray | None = field(compare=False)
    in_integers: Callable[..., jax.Array] = field(compare=False)
    have_zeros: tuple[bool, bool]
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes read and written; 0 if a size is symbolic."""
        return known_bytes(self.x, self.filters, self.result)

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type."""
        sizes = (self.x.shape[0], self.filters.shape[0], *(w.count for w in self.windows))
        return jax.ShapeDtypeStruct(sizes, np.float32)

    @property
    def plain(self) -> Move:
        """The sums of integers, as floats; a function of the filters (None for the constant), x and zero points."""
        return self._sum

    def _sum(self, filters: Any, x: jax.Array, *zeros: jax.Array) -> jax.Array:
        of_x, of_filters = self.zero_points(zeros)
        return self.in_integers(x, of_x, self.known if filters is None else filters, of_filters).astype(jnp.float32)

    def zero_points(self, zeros: Sequence[jax.Array]) -> list[jax.Array | None]:
        """The zero point of x and those of the filters; None for one that is missing."""
        left = iter(zeros)
        return [next(left) if has_any else None for has_any in self.have_zeros]


def sum_convolution(
    in_integers: Callable[..., jax.Array],
    x: jax.Array,
    zero_of_x: Any,
    filters: Any,
    zero_of_filters: Any,
    windows: Sequence[Windows],
    groups: int,
) -> jax.Array:
    """The sums of (x - zero_of_x) * (filters - zero_of_filters) under the windows, in float32.

    Args:
      in_integers: as of the case.
      x: bytes, (N, C, spatial sizes).
      zero_of_x: one element, or None.
      filters: bytes, (O, C / groups, spatial sizes); a NumPy array is a constant.
      zero_of_filters: (1 or O, 1, ...), one element, or None.
      windows: along the spatial dimensions.
      groups: of channels.
    """
    known = filters if isinstance(filters, np.ndarray) else None
    pair = (zero_of_x, zero_of_filters)
    zeros = [jnp.asarray(zero) for zero in pair if zero is not None]
    have_zeros = (pair[0] is not None, pair[1] is not None)
    of_x, of_filters, around = *shapes_of(x, filters), tuple(windows)

    def case_of(devices: int) -> ConvolutionSumsCase:
        return ConvolutionSumsCase(of_x, of_filters, around, groups, known, in_integers, have_zeros, devices)

    return choose("convolution_sums", case_of, is_opaque=False)(None if known is not None else filters, x, *zeros)
