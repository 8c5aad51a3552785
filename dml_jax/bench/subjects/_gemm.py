"""gemm: a square product, and a layer of a few rows, whose weights are read once."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..case import DTYPES, Case, Form, normal
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]


def quick(size: int) -> Iterator[Case]:
    yield _case(256, 256, 256)


def full(size: int) -> Iterator[Case]:
    side = 1024 if size >= 2**21 else 64
    yield _case(side, side, side)
    yield _case(16, side, 4 * side)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x, w, c: x @ w.T + c


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray, w: np.ndarray, c: np.ndarray) -> None:
        np.matmul(x, w.T, out=out)
        np.add(out, c, out=out)

    return write


TORCH: Mapping[str, Form] = {"addmm": lambda torch, a: lambda out, x, w, c: torch.addmm(c, x, w.T, out=out)}


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("Gemm", {"transB": 1})


def _case(m: int, k: int, n: int) -> Case:
    return Case(
        "gemm",
        f"{m}x{k} by {k}x{n} {DTYPES[4].name}",
        {"trans_b": True},
        lambda: (normal((m, k), 4), normal((n, k), 4), normal((m, n), 4)),
        4 * (m * k + n * k + 2 * m * n),
        tolerance=2**-14,
        operations=2 * m * k * n,
    )
