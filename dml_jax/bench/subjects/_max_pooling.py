"""max_pooling: the greatest element of each window, and where it lies among all."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..case import Case, Form
from ..onnx_node import OnnxNode
from . import pooling

Attributes = Mapping[str, Any]

ITEMSIZES = (2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    return pooling.cases("max_pooling", size, itemsize, 0.0, lambda count: count * (itemsize + 4))


def of_jnp(a: Attributes) -> Callable[..., Any]:
    pads = [(0, 0), (0, 0), *zip(a["start_padding"], a["end_padding"], strict=True)]

    def greater(x: Any, y: Any) -> Any:
        is_first = (x[0] > y[0]) | ((x[0] == y[0]) & (x[1] < y[1]))
        return jnp.where(is_first, x[0], y[0]), jnp.where(is_first, x[1], y[1])

    def found(x: Any) -> Any:
        places = jnp.arange(x.size, dtype=np.uint32).reshape(x.shape)
        none = (np.asarray(-np.inf, x.dtype), np.uint32(2**32 - 1))
        windows = (1, 1, *a["window_sizes"]), (1, 1, *a["strides"])
        return lax.reduce_window((x, places), none, greater, *windows, pads)

    return found


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(outs: Any, x: np.ndarray) -> None:
        places = pooling.windows_of(a, np.arange(x.size, dtype=np.uint32).reshape(x.shape), 0)
        values = pooling.windows_of(a, x, -np.inf)
        np.copyto(outs[0], values[0])
        np.copyto(outs[1], places[0])
        for value, place in zip(values[1:], places[1:], strict=True):
            is_greater = value > outs[0]
            np.copyto(outs[0], value, where=is_greater)
            np.copyto(outs[1], place, where=is_greater)

    return write


def _pooled(torch: Any, a: Attributes) -> Callable[..., Any]:
    """It counts the elements of each channel anew."""
    numbers = (a["window_sizes"], a["strides"], a["start_padding"])

    def write(outs: Any, x: Any) -> None:
        torch.ops.aten.max_pool2d_with_indices.out(x, *numbers, out=outs[0], indices=outs[1])
        n, c, h, w = x.shape
        outs[1].add_(torch.arange(0, x.numel(), h * w, device=x.device).view(n, c, 1, 1))

    return write


TORCH: Mapping[str, Form] = {"max_pool2d_with_indices": _pooled}


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("MaxPool", pooling.node_attributes(a))
