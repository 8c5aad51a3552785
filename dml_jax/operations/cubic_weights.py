"""Weights of cubic interpolation (cubic convolution), by the distance d of an element and a coefficient a.

With a = -0.75, halfway between two elements, these count 0.59375 each and those beyond them -0.09375 each. In factors,
so that elements at the distances 1 and 2 count exactly nothing.
"""

from typing import Any


def near(d: Any, a: float) -> Any:
    """The weight for 0 <= d <= 1."""
    return (1 - d) * (1 + d - (a + 2) * d * d)


def far(d: Any, a: float) -> Any:
    """The weight for 1 <= d <= 2; beyond it is 0."""
    return a * (d - 1) * (2 - d) * (2 - d)
