"""diagonal_matrix: the unit matrix."""

from collections.abc import Callable, Iterator, Mapping
from math import isqrt
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side, dtype = isqrt(size // itemsize), DTYPES[itemsize]
    attributes = {"sizes": (side, side), "dtype": dtype, "offset": 0}
    yield Case("diagonal_matrix", f"{side}x{side} {dtype.name}", attributes, tuple, side**2 * itemsize)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda: jnp.eye(*a["sizes"], k=a["offset"], dtype=a["dtype"])


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray) -> None:
        out.fill(0)
        out.reshape(-1)[a["offset"] :: len(out) + 1] = 1

    return write


def _filled(_: Any, a: Attributes) -> Callable[..., Any]:
    def write(out: Any) -> None:
        out.zero_().diagonal(a["offset"]).fill_(1)

    return write


TORCH: Mapping[str, Form] = {"fill_": _filled}


def of_onnx(a: Attributes) -> OnnxNode:
    like = np.zeros(a["sizes"], a["dtype"])
    return OnnxNode("EyeLike", {"k": a["offset"]}, arrays=lambda _: (like,))
