"""join: channels of pictures, features of rows, and batches."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data, mega
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = tuple(DTYPES)
ALL_ARE_QUICK = True


def cases(size: int, itemsize: int) -> Iterator[Case]:
    count = size // itemsize
    side = 64 if size >= 2**22 else 16
    batch = max(1, count // (128 * side * side))
    yield _case("channels", [(batch, 64, side, side)] * 2, 1, itemsize)
    yield _case("channels, four branches", [(batch, c, side, side) for c in (64, 24, 32, 8)], 1, itemsize)
    yield _case("features", [(count // 1024, 512)] * 2, 1, itemsize)
    yield _case("odd features", [(count // 1022, n) for n in (511, 300, 211)], 1, itemsize)
    yield _case("narrow features", [(count // 6, 3), (count // 6, 3)], 1, itemsize)
    yield _case("batches", [(count // 4096, 1024)] * 4, 0, itemsize)


def small(size: int) -> Iterator[Case]:
    yield _case("features", [(16, size // 128), (16, size // 128)], 1, 4)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda *arrays: jnp.concatenate(arrays, a["axis"])


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return lambda out, *arrays: np.concatenate(arrays, a["axis"], out=out)


TORCH: Mapping[str, Form] = {
    "cat": lambda torch, a: lambda out, *arrays: torch.cat(arrays, a["axis"], out=out),
}


def of_cupy(cupy: Any, a: Attributes) -> Callable[..., Any]:
    return lambda out, *arrays: cupy.concatenate(arrays, a["axis"], out=out)


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("Concat", {"axis": a["axis"]})


def _case(name: str, shapes: list[tuple[int, ...]], axis: int, itemsize: int) -> Case:
    total = sum(map(prod, shapes)) * itemsize
    shown = "+".join(str(shape[axis]) for shape in shapes)
    return Case(
        "join",
        f"{name} {shown} {DTYPES[itemsize].name} {mega(total)}",
        {"axis": axis},
        lambda: tuple(data(shape, itemsize) for shape in shapes),
        2 * total,
    )
