"""fold: columns added up to pictures, gradients of convolutions, and patches put back side by side."""

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from math import prod
from operator import add
from typing import Any

import numpy as np
from jax import lax

from ..case import DTYPES, ROUNDED, Case, Form, normal
from ..onnx_node import OnnxNode
from .windows import WINDOWS, Window

Attributes = Mapping[str, Any]

ITEMSIZES = (2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    for window in WINDOWS:
        yield _case(window, size, itemsize)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    side, kernel, step, pad = _numbers(a)

    def folded(x: Any) -> Any:
        apart = _apart(x, a)
        n, c, _, _, count, _ = apart.shape
        if kernel == step:  # side by side
            return apart.transpose(0, 1, 4, 2, 5, 3).reshape(n, c, side, side)
        whole = side + 2 * pad
        edges = [(i, whole - i - (count - 1) * step - 1, step - 1) for i in range(kernel)]
        each, zero = (0, 0, 0), np.zeros((), x.dtype)
        parts = [
            lax.pad(apart[:, :, i, j], zero, (each, each, edges[i], edges[j]))
            for i in range(kernel)
            for j in range(kernel)
        ]
        return reduce(add, parts)[:, :, pad : pad + side, pad : pad + side]

    return folded


def of_numpy(a: Attributes) -> Callable[..., Any]:
    side, kernel, step, pad = _numbers(a)

    def write(out: np.ndarray, x: np.ndarray) -> None:
        apart = _apart(x, a)
        whole = np.zeros((*out.shape[:2], side + 2 * pad, side + 2 * pad), np.float32)
        end = (apart.shape[-1] - 1) * step + 1
        for i in range(kernel):
            for j in range(kernel):
                whole[:, :, i : i + end : step, j : j + end : step] += apart[:, :, i, j]
        np.copyto(out, whole[:, :, pad : pad + side, pad : pad + side], casting="same_kind")

    return write


def _col2im(torch: Any, a: Attributes) -> Callable[..., Any]:
    numbers = (a["output_sizes"], a["window_sizes"], (1, 1), a["start_padding"], a["strides"])
    return lambda out, x: torch.ops.aten.col2im.out(x, *numbers, out=out)


TORCH: Mapping[str, Form] = {"col2im": _col2im}


def of_onnx(a: Attributes) -> OnnxNode:
    sizes = [np.array(a[name], np.int64) for name in ("output_sizes", "window_sizes")]
    attributes = {"strides": a["strides"], "pads": [*a["start_padding"], *a["end_padding"]]}
    return OnnxNode("Col2Im", attributes, tuple(sizes))


def _numbers(a: Attributes) -> tuple[int, ...]:
    return tuple(a[name][0] for name in ("output_sizes", "window_sizes", "strides", "start_padding"))


def _apart(x: Any, a: Attributes) -> Any:
    """The columns with the elements of a window, and the windows, in two dimensions each."""
    side, kernel, step, pad = _numbers(a)
    count = (side + 2 * pad - kernel) // step + 1
    return x.reshape(len(x), -1, kernel, kernel, count, count)


def _case(window: Window, size: int, itemsize: int) -> Case:
    shape, made = window.columns(size, itemsize), window.picture(size, itemsize)
    return Case(
        "fold",
        f"{window.name} to {'x'.join(map(str, made))} {DTYPES[itemsize].name}",
        {**window.attributes, "output_sizes": made[2:]},
        lambda: (normal(shape, itemsize),),
        (prod(shape) + prod(made)) * itemsize,
        tolerance=ROUNDED[itemsize],
    )
