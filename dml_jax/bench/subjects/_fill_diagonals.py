"""fill_diagonals: what lies above the diagonal of matrices of attention, made 0."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (1, 2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side = 512 if size >= 2**21 else 64
    shape = (max(1, size // itemsize // side**2), side, side)
    yield Case(
        "fill_diagonals",
        f"above the main one, {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
        {"begin": 1, "end": side, "value": 0},
        lambda: (data(shape, itemsize),),
        prod(shape) * itemsize * 3 // 2,
    )


def of_jnp(_: Attributes) -> Callable[..., Any]:
    return jnp.tril


def of_numpy(_: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray) -> None:
        out.fill(0)
        np.copyto(out, x, where=np.tri(*x.shape[-2:], dtype=bool))

    return write


TORCH: Mapping[str, Form] = {"tril": lambda torch, _: lambda out, x: torch.tril(x, out=out)}


def of_onnx(_: Attributes) -> OnnxNode:
    return OnnxNode("Trilu", {"upper": 0})
