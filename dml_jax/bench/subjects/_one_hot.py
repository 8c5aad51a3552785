"""one_hot: labels of pictures, words of a language, experts of a router."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from ..case import DTYPES, Case, Form, random_indices
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    for name, classes in (("labels", 1000), ("words", 32000), ("experts", 64)):
        rows = max(1, size // itemsize // classes)
        yield Case(
            "one_hot",
            f"{name} {rows}x{classes} {DTYPES[itemsize].name}",
            {"size": classes, "axis": 1},
            lambda rows=rows, classes=classes: (
                random_indices(classes, (rows, 1)),
                np.array([0, 1], DTYPES[itemsize]),
            ),
            rows * (4 + classes * itemsize),
        )


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda i, values: jax.nn.one_hot(i[:, 0], a["size"], dtype=values.dtype)


def of_numpy(_: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, i: np.ndarray, values: np.ndarray) -> None:
        out.fill(0)
        np.put_along_axis(out, i, 1, 1)

    return write


def _scattered(_: Any, __: Attributes) -> Callable[..., Any]:
    def write(out: Any, i: Any, values: Any) -> None:
        out.zero_().scatter_(1, i, 1)

    return write


TORCH: Mapping[str, Form] = {
    "scatter_": _scattered,
    "one_hot": lambda torch, a: lambda out, i, values: out.copy_(torch.nn.functional.one_hot(i[:, 0], a["size"])),
}


def of_onnx(a: Attributes) -> OnnxNode:
    size = np.array([a["size"]], np.int64)
    return OnnxNode("OneHot", arrays=lambda arrays: (arrays[0][:, 0].astype(np.int64), size, arrays[1]))
