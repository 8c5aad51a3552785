"""Coordinates of resampling: where each element of the output lies in the input, along one dimension.

An element o lies at (o - after) / scale - before. If 21 elements become 6, with offsets of 0, element 3 lies at
3 / (6 / 21) = 10.5: exactly so as integers, 10 + 1 / 2, and in float32 perhaps beside it.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, lcm

import numpy as np

FAR = 2**40  # beyond every element


@dataclass(frozen=True)
class Positions:
    """Positions whole + rest / unit.

    Args:
      whole: the element at or before each.
      rest: in [0, unit): integers if the positions are exact, else float32.
      unit: a Python int.
    """

    whole: np.ndarray
    rest: np.ndarray
    unit: int

    @property
    def coordinates(self) -> np.ndarray:
        """Positions as float64, which holds whole numbers and halves exactly."""
        return self.whole + (self.rest / self.unit).astype(np.float64)


def exact_positions(
    count: int, scale: Fraction | float, before: Fraction | float, after: Fraction | float
) -> Positions:
    """Positions of `count` elements as integers and a unit: with 21 -> 6, o * 7 / 2.

    Args:
      count: of the output.
      scale: a rational, or infinity.
      before, after: offsets, finite.
    """
    step = Fraction(0) if scale == inf else 1 / Fraction(scale)
    first = -Fraction(after) * step - Fraction(before)
    unit = lcm(step.denominator, first.denominator)
    start, more = int(first * unit), int(step * unit)
    # Where products may exceed 64 bits, NumPy computes with Python's integers: slowly, but exactly.
    greatest = max(abs(start), abs(start + count * more), unit)
    x = np.arange(count).astype(np.int64 if greatest < 2**62 else object) * more + start
    return Positions((x // unit).clip(-FAR, FAR).astype(np.int64), x % unit, unit)


def source_coordinates(count: int, scale: float, before: float, after: float) -> np.ndarray:
    """Positions of `count` elements in float32 all along, as a device computes them."""
    with np.errstate(all="ignore"):  # infinite ones are clamped
        return (np.arange(count, dtype=np.float32) - np.float32(after)) / np.float32(scale) - np.float32(before)
