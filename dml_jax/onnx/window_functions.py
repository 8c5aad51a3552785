"""ONNX's BlackmanWindow, HammingWindow and HannWindow, as constants: their length must be known."""

from functools import partial

import numpy as np

from ..errors import ConstraintError
from .data_movement import number_of
from .model_loading import dtype_of
from .values import Array, Operators


def _window(
    mean: float, first: float, second: float, *, size: Array, output_datatype: int, periodic: int
) -> np.ndarray:
    """Returns mean - first * cos(t) + second * cos(2 t), for t from 0 to 2 pi; a symmetric one of length 1 is 1."""
    length = number_of("size", size)
    if length < 0:
        raise ConstraintError(f"size must be at least 0, but it is {length}")
    period = length if periodic else length - 1
    t = 2 * np.pi * np.arange(length) / period if period else np.full(length, np.pi)
    # In this order the ends and the middle are exact.
    return (mean + second * np.cos(2 * t) - first * np.cos(t)).astype(dtype_of(output_datatype, "output_datatype"))


# mean, first and second, as ONNX has them.
_COEFFICIENTS = {
    "BlackmanWindow": (0.42, 0.5, 0.08),
    "HammingWindow": (25 / 46, 21 / 46, 0),
    "HannWindow": (0.5, 0.5, 0),
}
OPERATORS: Operators = {name: {17: partial(_window, *numbers)} for name, numbers in _COEFFICIENTS.items()}
