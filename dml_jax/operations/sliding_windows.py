"""Sliding windows along a dimension: size, stride, dilation and padding, and how many windows there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import jax
import numpy as np

from .programs.primitive import Move
from .programs.variant_selection import known_bytes

MOST_SLICES = 64  # elements of a window: more slices take seconds to compile


@dataclass(frozen=True)
class Windows:
    """The windows along one dimension.

    Args:
      size: of the dimension.
      window: elements in a window.
      stride: elements from a window to the next one.
      dilation: elements from one of a window to its next one.
      start: zeros before the dimension.
      end: zeros after it.
    """

    size: int
    window: int
    stride: int
    dilation: int
    start: int
    end: int

    @property
    def padded(self) -> int:
        return self.start + self.size + self.end

    @property
    def span(self) -> int:
        """Elements from the first one of a window to its last one, both included."""
        return self.dilation * (self.window - 1) + 1

    @property
    def count(self) -> int:
        """How many windows there are."""
        return (self.padded - self.span) // self.stride + 1

    @property
    def steps(self) -> int:
        """Two windows can share an element only at offsets that differ by a multiple of it (0 included)."""
        # A stride of 4 and a dilation of 6: the elements at offsets 0 and 2 are 12 apart, which is 3 strides. Those at
        # offsets 0 and 1 are 6 apart, which is no multiple of 4: steps are 4 / 2 = 2.
        return min(self.stride // gcd(self.stride, self.dilation), self.window)

    @property
    def turns(self) -> int:
        """How many strides cover the dimension."""
        return -(-self.size // self.stride)

    @property
    def are_tiles(self) -> bool:
        """Whether windows lie side by side, without gap or overlap."""
        return self.dilation == 1 and 1 < self.window == self.stride

    def inside(self, offset: int) -> tuple[int, int, int]:
        """The windows [first, end) whose element at `offset` is no padding, and its position in the first of them."""
        position = offset * self.dilation - self.start  # in window 0
        # -(a // b) is -a / b, rounded up: the first window with its element at 0 or later, and the first one with it
        # beyond the end.
        first = min(max(-(position // self.stride), 0), self.count)
        end = min(max(-((position - self.size) // self.stride), first), self.count)
        return first, end, first * self.stride + position if end > first else 0

    def sizes_inside(self) -> np.ndarray:
        """How many elements of each window are no padding."""
        # A dilation beyond the padded size has windows of one element alone, and a stride beyond it one window: neither
        # moves anything. Cut, their products fit into 64 bits.
        dilation, stride = min(self.dilation, self.padded), min(self.stride, self.padded)
        starts = np.arange(self.count) * stride - self.start
        first = self.first_inside()
        end = np.clip(-((starts - self.size) // dilation), first, self.window)
        return end - first

    def first_inside(self) -> np.ndarray:
        """The first offset in each window whose position is at least 0; `window` if there is none."""
        dilation, stride = min(self.dilation, self.padded), min(self.stride, self.padded)
        return np.clip(-((np.arange(self.count) * stride - self.start) // dilation), 0, self.window)

    def positions(self) -> np.ndarray:
        """[window, count]: the position of each element of each window; outside [0, size) it is padding."""
        dilation, stride = min(self.dilation, self.padded), min(self.stride, self.padded)  # of one alone: any number
        return np.arange(self.window)[:, None] * dilation + np.arange(self.count) * stride - self.start


@dataclass(frozen=True)
class WindowCase:
    """One unfold, for the choice between implementations.

    Args:
      plain: the reference implementation.
      windows: along each of some dimensions.
      axes: these dimensions.
      array: that the windows slide over: shape and type.
      result: shape and type.
      devices: among which XLA may divide an array.
    """

    plain: Move
    windows: Sequence[Windows]
    axes: Sequence[int]
    array: Any
    result: jax.ShapeDtypeStruct
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of both arrays; 0 if one is empty, or if a size is symbolic."""
        return known_bytes(self.array, self.result) if known_bytes(self.array) and known_bytes(self.result) else 0


def unfolded_shape(lead: Sequence[int], windows: Sequence[Windows]) -> tuple[int, ...]:
    """[*lead, *elements of a window, *windows]: the shape of all elements of all windows."""
    return (*lead, *(w.window for w in windows), *(w.count for w in windows))
