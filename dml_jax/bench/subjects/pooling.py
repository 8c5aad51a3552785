"""What the cases of max and average pooling share: their windows and pictures."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from ..case import DTYPES, Case, normal

__all__ = ["cases", "node_attributes", "windows_of"]

Attributes = Mapping[str, Any]


def cases(operator: str, size: int, itemsize: int, tolerance: float, outputs: Callable[[int], int]) -> Iterator[Case]:
    """Windows of networks: side by side, and those that overlap, with padding.

    Args:
      operator: which one.
      size: bytes of the pictures.
      itemsize: bytes of a number.
      tolerance: of the case.
      outputs: bytes of the outputs, of their elements.
    """
    side = 112 if size >= 2**21 else 16
    shape = (max(1, size // itemsize // (64 * side**2)), 64, side, side)
    for sides, step, pad in ((2, 2, 0), (3, 2, 1), (3, 1, 1)):
        count = (side + 2 * pad - sides) // step + 1
        yield Case(
            operator,
            f"{sides}x{sides}, {step} apart, of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
            {
                "window_sizes": (sides, sides),
                "strides": (step, step),
                "start_padding": (pad, pad),
                "end_padding": (pad, pad),
            },
            lambda: (normal(shape, itemsize),),
            prod(shape) * itemsize + outputs(prod(shape[:2]) * count**2),
            tolerance=tolerance,
        )


def node_attributes(a: Attributes) -> dict[str, Any]:
    """Of the nodes of ONNX."""
    pads = [*a["start_padding"], *a["end_padding"]]
    return {"kernel_shape": a["window_sizes"], "strides": a["strides"], "pads": pads}


def windows_of(a: Attributes, x: np.ndarray, beyond: float) -> list[np.ndarray]:
    """What each element of all windows is, with a number for the padding."""
    pads = [(0, 0), (0, 0), *zip(a["start_padding"], a["end_padding"], strict=True)]
    x = np.pad(x, pads, constant_values=beyond)
    (h, w), (dh, dw) = a["window_sizes"], a["strides"]
    height, width = x.shape[2] - h + 1, x.shape[3] - w + 1
    return [x[:, :, i : i + height : dh, j : j + width : dw] for i in range(h) for j in range(w)]
