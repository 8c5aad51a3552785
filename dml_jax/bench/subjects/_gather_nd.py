"""gather_nd: rows that pairs of indices name."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data, mega, random_indices
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = tuple(DTYPES)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    width = max(1, min(256, size // 64) // itemsize)
    rows = max(4, size // itemsize // width)
    first = max(2, int(rows**0.5))
    shape = (first, rows // first, width)
    count = shape[0] * shape[1]
    yield Case(
        "gather_nd",
        f"pairs, rows of {width * itemsize} bytes {DTYPES[itemsize].name} {mega(size)}",
        {},
        lambda: (data(shape, itemsize), np.stack([random_indices(n, (count,)) for n in shape[:2]], -1)),
        count * (2 * width * itemsize + 8),
    )


small = partial(cases, itemsize=4)


def of_jnp(_: Attributes) -> Callable[..., Any]:
    return lambda x, i: x.at[tuple(jnp.moveaxis(i, -1, 0))].get(mode="clip")


def of_numpy(_: Attributes) -> Callable[..., Any]:
    return lambda out, x, i: np.copyto(out, x[tuple(np.moveaxis(i, -1, 0))])


TORCH: Mapping[str, Form] = {
    "index_select": lambda torch, _: lambda out, x, i: torch.index_select(*_flat(x, i), out=out),
    "index": lambda torch, _: lambda out, x, i: torch.ops.aten.index.Tensor_out(x, [i[:, 0], i[:, 1]], out=out),
    "compile": lambda torch, _: lambda out, x, i: out.copy_(x[i[:, 0], i[:, 1]]),
}


def of_cupy(cupy: Any, _: Attributes) -> Callable[..., Any]:
    def write(out: Any, x: Any, i: Any) -> None:
        rows, axis, flat = _flat(x, i)
        cupy.take(rows, flat, axis, out=out)

    return write


def _flat(x: Any, i: Any) -> tuple[Any, int, Any]:
    """The rows of a matrix, its axis, and one index instead of each pair."""
    return x.reshape(-1, x.shape[-1]), 0, i[:, 0] * x.shape[1] + i[:, 1]


def of_onnx(_: Attributes) -> OnnxNode:
    return OnnxNode("GatherND", arrays=lambda arrays: (arrays[0], arrays[1].astype(np.int64)))
