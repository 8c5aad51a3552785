"""gather_elements: along each axis of a cube, and along axes of several lengths."""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Arrays, Case, Form, data, random_indices
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]


def quick(size: int) -> Iterator[Case]:
    yield from _cube(size, 4, (0, 2), ("random",))


def full(size: int) -> Iterator[Case]:
    for itemsize in DTYPES:
        yield from _cube(size // 2, itemsize, (0, 1, 2), ("random", "sorted"))
        yield from _slabs(size // 2, itemsize)


def real(size: int) -> Iterator[Case]:
    """Sorted columns and rows, and the logit of each label: a table has at most eight times as many bytes."""
    count = max(1, size // 8 // 32768)
    yield _along((32768, count), 4, 0, "sorted", "real ")
    yield _along((count, 32768), 4, 1, "sorted", "real ")
    for dtype in ("bfloat16", "float32"):
        yield _labels(max(1, min(8192, 8 * size // (128256 * jnp.dtype(dtype).itemsize))), 128256, dtype)


def small(size: int) -> Iterator[Case]:
    yield from _cube(size, 4, (2,), ("random",))


sweep = small


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x, i: jnp.take_along_axis(x, i, axis=a["axis"], mode="clip")


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return lambda out, x, i: np.copyto(out, np.take_along_axis(x, i, a["axis"]))


TORCH: Mapping[str, Form] = {
    "gather": lambda torch, a: lambda out, x, i: torch.gather(x, a["axis"], i, out=out),
    "compile": lambda torch, a: lambda out, x, i: out.copy_(torch.gather(x, a["axis"], i)),
}


def of_cupy(cupy: Any, a: Attributes) -> Callable[..., Any]:
    return lambda out, x, i: cupy.copyto(out, cupy.take_along_axis(x, i, a["axis"]))


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("GatherElements", {"axis": a["axis"]})


def _cube(size: int, itemsize: int, axes: tuple[int, ...], orders: tuple[str, ...]) -> Iterator[Case]:
    side = max(4, round((size / itemsize) ** (1 / 3)))
    shape = (side, side, size // itemsize // (side * side))
    yield from (_along(shape, itemsize, axis, order) for axis, order in product(axes, orders))


def _slabs(size: int, itemsize: int) -> Iterator[Case]:
    """Along the first axis of what no cache holds, and along rows of several lengths."""
    count = size // itemsize
    yield _along((8192, count // 8192), itemsize, 0, "random")
    for length in (256, 4096, 16384):
        yield _along((count // length, length), itemsize, 1, "random")


def _labels(rows: int, width: int, dtype: str) -> Case:
    return Case(
        "gather_elements",
        f"real label of each row of {rows}x{width} {dtype}",
        {"axis": 1},
        lambda: (data((rows, width), dtype), random_indices(width, (rows, 1))),
        rows * (2 * jnp.dtype(dtype).itemsize + 4),
    )


def _along(shape: tuple[int, ...], itemsize: int, axis: int, order: str, kind: str = "") -> Case:
    def make() -> Arrays:
        return data(shape, itemsize), random_indices(shape[axis], shape, order, axis)

    is_sorted = {"indices_are_sorted": True} if order == "sorted" else {}
    return Case(
        "gather_elements",
        f"{kind}axis {axis} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name} {order}",
        {"axis": axis, **is_sorted},
        make,
        prod(shape) * (2 * itemsize + 4),
    )
