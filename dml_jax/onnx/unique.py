"""ONNX's Unique, in NumPy: the output size depends on data, so the input must be a constant."""

import numpy as np

from .layout import axis_of
from .values import Array, Operators, known

__all__ = ["OPERATORS", "unique"]


def unique(*, x: Array, axis: int | None = None, sorted: int = 1, count: int = 1) -> tuple[np.ndarray, ...]:
    """Returns unique elements, or slices along an axis; then first indices, inverse indices and counts."""
    data = known("x", x, "how many elements differ")
    along = None if axis is None else axis_of("axis", axis, data.ndim)
    uniques = np.unique(data, return_index=True, return_inverse=True, return_counts=True, axis=along)
    y, first, inverse, counts = uniques[0], uniques[1], uniques[2].reshape(-1), uniques[3]
    if not sorted:
        order = np.argsort(first)
        y, first, counts = np.take(y, order, along or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return (y, *(numbers.astype(np.int64) for numbers in (first, inverse, counts)))[:count]


OPERATORS: Operators = {"Unique": {11: unique}}
