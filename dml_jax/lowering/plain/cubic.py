"""Cubic convolution: how much an element counts, by its distance d from a position and a coefficient a.

With a = -0.75, halfway between two elements, these count 0.59375 each and those behind them -0.09375 each.
"""

from typing import Any

__all__ = ["far", "near"]


def near(d: Any, a: float) -> Any:
    """For 0 <= d <= 1."""
    return ((a + 2) * d - (a + 3)) * d * d + 1


def far(d: Any, a: float) -> Any:
    """For 1 <= d <= 2; beyond, nothing counts."""
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
