"""add: of two arrays, as networks add what skips layers; also with the ReLU behind it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core.structs.activation import Activation
from ..case import DTYPES, ROUNDED, Case, Form, mega, normal
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    for name, attributes in (("", {}), ("and ReLU, ", {"activation": Activation("ACTIVATION_RELU")})):
        yield Case(
            "add",
            f"{name}{DTYPES[itemsize].name} {mega(size)}",
            attributes,
            lambda: (normal((size // itemsize,), itemsize), normal((size // itemsize,), itemsize)[::-1]),
            3 * size,
            tolerance=ROUNDED[itemsize],
        )


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return (lambda x, y: jax.nn.relu(x + y)) if a else jnp.add


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        np.add(x, y, out=out)
        np.maximum(out, 0, out=out)

    return write if a else lambda out, x, y: np.add(x, y, out=out)


def _added(torch: Any, a: Attributes) -> Callable[..., Any]:
    if a:
        return lambda out, x, y: torch.add(x, y, out=out).relu_()
    return lambda out, x, y: torch.add(x, y, out=out)


TORCH: Mapping[str, Form] = {"add": _added}


def of_onnx(a: Attributes) -> OnnxNode | None:
    return None if a else OnnxNode("Add")
