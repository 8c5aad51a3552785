"""average_pooling: means of windows, the padding left out."""

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..case import ROUNDED, Case, Form
from ..onnx_node import OnnxNode
from . import pooling

Attributes = Mapping[str, Any]

ITEMSIZES = (2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    return pooling.cases("average_pooling", size, itemsize, ROUNDED[itemsize], lambda count: count * itemsize)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    pads = [(0, 0), (0, 0), *zip(a["start_padding"], a["end_padding"], strict=True)]

    def total(x: Any) -> Any:
        return lax.reduce_window(x, 0.0, lax.add, (1, 1, *a["window_sizes"]), (1, 1, *a["strides"]), pads)

    def means(x: Any) -> Any:
        counts = total(jnp.ones((1, 1, *x.shape[2:]), np.float32))
        return (total(x.astype(np.float32)) / counts).astype(x.dtype)

    return means


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray) -> None:
        counts = sum(pooling.windows_of(a, np.ones((1, 1, *x.shape[2:]), np.float32), 0))
        wide = reduce(np.add, pooling.windows_of(a, x.astype(np.float32), 0))
        np.divide(wide, counts, out=out, casting="same_kind")

    return write


def _pooled(torch: Any, a: Attributes) -> Callable[..., Any]:
    numbers = (a["window_sizes"], a["strides"], a["start_padding"], False, False)
    return lambda out, x: torch.ops.aten.avg_pool2d.out(x, *numbers, out=out)


TORCH: Mapping[str, Form] = {"avg_pool2d": _pooled}


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("AveragePool", pooling.node_attributes(a))
