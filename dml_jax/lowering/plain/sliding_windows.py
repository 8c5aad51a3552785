"""Sliding windows along a dimension: size, stride, dilation and padding, and how many windows there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import jax
import numpy as np

from ..primitive import Move
from ..variant_selection import known_bytes

__all__ = ["MOST_SLICES", "WindowCase", "Windows"]

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
      end: zeros behind it.
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
        """From the first element of a window to its last one."""
        return self.dilation * (self.window - 1) + 1

    @property
    def count(self) -> int:
        """How many windows there are."""
        return (self.padded - self.span) // self.stride + 1

    @property
    def steps(self) -> int:
        """Elements of windows meet where their numbers differ by a multiple of it, those of less than it never."""
        return min(self.stride // gcd(self.stride, self.dilation), self.window)

    @property
    def turns(self) -> int:
        """How many strides the dimension has."""
        return -(-self.size // self.stride)

    @property
    def are_tiles(self) -> bool:
        """Whether they lie side by side."""
        return self.dilation == 1 and 1 < self.window == self.stride

    def inside(self, number: int) -> tuple[int, int, int]:
        """The windows, from one up to another, whose element of that number is in the dimension; where the first is."""
        offset = number * self.dilation - self.start
        first = min(max(-(offset // self.stride), 0), self.count)
        end = min(max(-((offset - self.size) // self.stride), first), self.count)
        return first, end, first * self.stride + offset if end > first else 0

    def sizes_inside(self) -> np.ndarray:
        """How many elements of each window are in the dimension."""
        dilation, stride = min(self.dilation, self.padded), min(self.stride, self.padded)
        offsets = np.arange(self.count) * stride - self.start
        first = self.first_inside()
        end = np.clip(-((offsets - self.size) // dilation), first, self.window)
        return end - first

    def first_inside(self) -> np.ndarray:
        """The number of the first element of each window that is in the dimension, or what follows all if none is."""
        dilation, stride = min(self.dilation, self.padded), min(self.stride, self.padded)
        return np.clip(-((np.arange(self.count) * stride - self.start) // dilation), 0, self.window)

    def positions(self) -> np.ndarray:
        """Where each element of each window is, negative or too large in the padding."""
        dilation, stride = min(self.dilation, self.padded), min(self.stride, self.padded)  # of one alone: any number
        return np.arange(self.window)[:, None] * dilation + np.arange(self.count) * stride - self.start


@dataclass(frozen=True)
class WindowCase:
    """One unfolding of windows, for what chooses how it runs.

    Args:
      plain: the plain meaning.
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
        """Of both arrays; 0 if one is empty, or if a size is symbolic."""
        return known_bytes(self.array, self.result) if known_bytes(self.array) and known_bytes(self.result) else 0
