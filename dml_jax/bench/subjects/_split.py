"""split: queries, keys and values, channels of pictures, odd features, and batches."""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
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
    yield _case("queries, keys and values", (count // 3072, 3072), 1, (1024,) * 3, itemsize)
    yield _case("channels", (max(1, count // (128 * side * side)), 128, side, side), 1, (64, 24, 32, 8), itemsize)
    yield _case("odd features", (count // 1022, 1022), 1, (511, 300, 211), itemsize)
    yield _case("batches", (count // 4096 * 4, 1024), 0, (count // 4096,) * 4, itemsize)


def small(size: int) -> Iterator[Case]:
    yield _case("features", (16, size // 64), 1, (size // 128, size // 128), 4)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    cuts = [*accumulate(a["sizes"][:-1])]
    return lambda x: tuple(jnp.split(x, cuts, a["axis"]))


def of_numpy(a: Attributes) -> Callable[..., Any]:
    cuts = [*accumulate(a["sizes"][:-1])]

    def write(outs: Any, x: np.ndarray) -> None:
        for out, part in zip(outs, np.split(x, cuts, a["axis"]), strict=True):
            np.copyto(out, part)

    return write


TORCH: Mapping[str, Form] = {
    "copy_": lambda torch, a: lambda outs, x: _copy_parts(outs, x.split(a["sizes"], a["axis"])),
    "split_copy": lambda torch, a: lambda outs, x: torch.split_with_sizes_copy(x, a["sizes"], a["axis"], out=outs),
}


def _copy_parts(outs: Any, parts: Any) -> None:
    for out, part in zip(outs, parts, strict=True):
        out.copy_(part)


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("Split", {"axis": a["axis"]}, (np.array(a["sizes"], np.int64),))


def _case(name: str, shape: tuple[int, ...], axis: int, sizes: tuple[int, ...], itemsize: int) -> Case:
    total = prod(shape) * itemsize
    return Case(
        "split",
        f"{name} {'+'.join(map(str, sizes))} {DTYPES[itemsize].name} {mega(total)}",
        {"sizes": sizes, "axis": axis},
        lambda: (data(shape, itemsize),),
        2 * total,
    )
