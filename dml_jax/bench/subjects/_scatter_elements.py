"""scatter_elements: elements along the first axis, and along the last one of long rows, such as those of a mask."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data, mega
from ..onnx_node import OnnxNode
from .scattered import Table

Attributes = Mapping[str, Any]

ITEMSIZES = tuple(DTYPES)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    table = Table.of(size, itemsize)
    shape = (table.few, table.width)
    yield Case(
        "scatter_elements",
        f"an eighth along axis 0 {DTYPES[itemsize].name} {mega(size)}",
        {"axis": 0},
        lambda: table.make(np.ascontiguousarray(np.broadcast_to(table.permuted()[:, None], shape))),
        table.moved + 4 * table.few * table.width,
    )
    length = max(8, min(2**13, size // 64) // itemsize)
    rows, few = max(1, size // itemsize // length), length // 8
    yield Case(
        "scatter_elements",
        f"an eighth of rows of {length} {DTYPES[itemsize].name} {mega(size)}",
        {"axis": 1},
        lambda: (
            data((rows, length), itemsize),
            np.argsort(np.random.default_rng(1).random((rows, length)))[:, :few].astype(np.int32),
            data((rows, few), itemsize)[::-1],
        ),
        rows * ((2 * length + few) * itemsize + 4 * few),
    )


small = partial(cases, itemsize=4)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x, i, u: jnp.put_along_axis(x, i, u, axis=a["axis"], inplace=False, mode="drop")


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return lambda out, x, i, u: (np.copyto(out, x), np.put_along_axis(out, i, u, a["axis"]))


TORCH: Mapping[str, Form] = {
    "scatter_": lambda torch, a: lambda out, x, i, u: out.copy_(x).scatter_(a["axis"], i, u),
    "scatter": lambda torch, a: lambda out, x, i, u: torch.scatter(x, a["axis"], i, u, out=out),
}


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("ScatterElements", {"axis": a["axis"]})
