"""tile: batches, columns, both, and short rows; most of what is written repeats."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = tuple(DTYPES)
ALL_ARE_QUICK = True


def cases(size: int, itemsize: int) -> Iterator[Case]:
    count = size // itemsize
    yield _case("batches", (count // 8192, 1024), (8, 1), itemsize)
    yield _case("columns", (count // 4096, 512), (1, 8), itemsize)
    yield _case("both", (max(1, count // 4096 // 3), 257), (3, 16), itemsize)
    yield _case("short rows", (count // 96, 3), (1, 32), itemsize)


def small(size: int) -> Iterator[Case]:
    yield _case("both", (8, size // 128), (2, 2), 4)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x: jnp.tile(x, a["repeats"])


def of_numpy(a: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray) -> None:
        apart = [n for pair in zip(a["repeats"], x.shape, strict=True) for n in pair]
        np.copyto(out.reshape(apart), x.reshape([n for size in x.shape for n in (1, size)]))

    return write


TORCH: Mapping[str, Form] = {
    "copy_": lambda torch, a: lambda out, x: _expand(out, x, a["repeats"]),
    "tile": lambda torch, a: lambda out, x: x.tile(a["repeats"]),
}


def _expand(out: Any, x: Any, repeats: Sequence[int]) -> None:
    apart = [n for pair in zip(repeats, x.shape, strict=True) for n in pair]
    out.view(apart).copy_(x.view([n for size in x.shape for n in (1, size)]).expand(apart))


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("Tile", constants=(np.array(a["repeats"], np.int64),))


def _case(name: str, shape: tuple[int, ...], repeats: tuple[int, ...], itemsize: int) -> Case:
    made = prod(shape) * prod(repeats) * itemsize
    return Case(
        "tile",
        f"{name} {repeats} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
        {"repeats": repeats},
        lambda: (data(shape, itemsize),),
        prod(shape) * itemsize + made,
    )
