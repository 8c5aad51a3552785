"""Indices and weights of interpolation along one dimension: nearest, linear, cubic, antialiased.

At 1.5, of elements 0 to 3, [10, 20, 30, 70]        weights                                 result
nearest                                             0, 0, 1, 0                              30
linear                                              0, 1/2, 1/2, 0                          25
linear, antialiased by a scale of 1/2               1/8, 3/8, 3/8, 1/8                      28.75
cubic, of coefficient -3/4                          -3/32, 19/32, 19/32, -3/32              22.1875
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from .cubic_weights import far, near
from .separable_interpolation import Interpolation

ResampleMode = Literal["nearest", "linear", "cubic"]

# RESAMPLE and RESAMPLE1 of DirectML say nothing of halves; devices round them up.
HALF = np.float32(0.5)
ROUNDED: Mapping[str | None, Callable[[np.ndarray], np.ndarray]] = {
    None: lambda x: np.floor(x + HALF),
    "increasing": np.ceil,
    "decreasing": np.floor,
}
RADIUS = {"nearest": 1, "linear": 1, "cubic": 2}


@dataclass(frozen=True)
class Kernel:
    """A kernel of interpolation: how the elements around a position are weighted.

    Args:
      mode: "nearest", "linear" or "cubic".
      rounding: of "nearest": "increasing" (up), "decreasing" (down), or None: the nearest, halves up.
      coefficient: of "cubic".
      antialias: whether "linear" and "cubic" are stretched where a scale is below 1, so that every element counts.
      excludes: whether elements beyond the edges get no weight, and the others more, in proportion; else they are
        the edge. Both are the same for "linear", unless it is stretched.
    """

    mode: ResampleMode
    rounding: Literal["increasing", "decreasing"] | None = None
    coefficient: float = -0.75
    antialias: bool = False
    excludes: bool = False

    def reach(self, scale: float) -> int:
        """The number of elements on each side of a position whose weight may not be 0."""
        return ceil(RADIUS[self.mode] / self._narrowing(scale))

    def interpolation(self, x: np.ndarray, size: int, scale: float) -> Interpolation:
        """Indices and weights for positions `x`, float32 or float64, in `size` elements that are scaled by `scale`."""
        if self.mode == "nearest":
            return Interpolation(size, _clamp(ROUNDED[self.rounding](x), size)[None])
        narrowing = self._narrowing(scale)
        if self.mode == "linear" and narrowing == 1:
            return linear_interpolation(x, size)
        return self._weigh(x, size, narrowing)

    def _narrowing(self, scale: float) -> float:
        return min(scale, 1.0) if self.antialias and self.mode != "nearest" else 1.0

    def _weigh(self, x: np.ndarray, size: int, narrowing: float) -> Interpolation:
        reach = ceil(RADIUS[self.mode] / narrowing)
        x = np.clip(x.astype(np.float64), -reach, size - 1 + reach)  # beyond, all neighbors are the edge
        first = np.floor(x)
        steps = np.arange(1 - reach, reach + 1)[:, None]
        weights = self._of_distance(np.abs(steps - (x - first)) * narrowing)
        at = first.astype(np.int64) + steps
        if self.excludes:
            inside = np.where((at >= 0) & (at < size), weights, 0)
            weights = np.where(inside.sum(0) == 0, weights, inside)  # with none inside, the edge
        if self.excludes or narrowing < 1:
            # Stretched weights need not add up to 1, nor the rest of them: 1/8, 3/8, 3/8 become 1/7, 3/7, 3/7.
            weights = weights / weights.sum(0)
        # A row of zeros would read elements for nothing.
        counts = weights.any(1)
        at, weights = np.clip(at[counts], 0, size - 1), weights[counts].astype(np.float32)
        return Interpolation(size, at, None if len(at) == 1 and (weights == 1).all() else weights)

    def _of_distance(self, d: np.ndarray) -> np.ndarray:
        if self.mode == "linear":
            return np.maximum(0, 1 - d)
        a = self.coefficient
        return np.where(d <= 1, near(d, a), np.where(d < 2, far(d, a), 0))


def linear_interpolation(x: np.ndarray, size: int) -> Interpolation:
    """The elements before and after each position `x`; only one of them on an element, and beyond the edge."""
    x = np.clip(x, np.float32(-1), np.float32(size))
    before = np.floor(x)
    weight = (x - before).astype(np.float32)
    at = np.stack([_clamp(before, size), _clamp(before + 1, size)])
    at[0] = np.where(weight == 1, at[1], at[0])  # so little before an element that float32 does not tell
    weight = np.where((at[0] == at[1]) | (weight == 1), np.float32(0), weight)
    return Interpolation(size, at, np.stack([1 - weight, weight])) if weight.any() else Interpolation(size, at[:1])


def _clamp(whole: np.ndarray, size: int) -> np.ndarray:
    """Clamps positions to indices, before they become integers: NaN and huge floats have none."""
    return np.minimum(np.clip(whole, 0, np.float32(size)).astype(np.int64), size - 1)
