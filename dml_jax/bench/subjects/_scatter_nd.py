"""scatter_nd: whole rows of a table."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, mega
from ..onnx_node import OnnxNode
from .scattered import Table

Attributes = Mapping[str, Any]

ITEMSIZES = tuple(DTYPES)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    table = Table.of(size, itemsize)
    yield Case(
        "scatter_nd",
        f"an eighth of rows of {table.width * itemsize} bytes {DTYPES[itemsize].name} {mega(size)}",
        {},
        lambda: table.make(table.permuted()[:, None]),
        table.moved + 4 * table.few,
    )


small = partial(cases, itemsize=4)


def of_jnp(_: Attributes) -> Callable[..., Any]:
    return lambda x, i, u: x.at[tuple(jnp.moveaxis(i, -1, 0))].set(u, mode="drop")


def of_numpy(_: Attributes) -> Callable[..., Any]:
    def write(out: np.ndarray, x: np.ndarray, i: np.ndarray, u: np.ndarray) -> None:
        np.copyto(out, x)
        out[tuple(np.moveaxis(i, -1, 0))] = u

    return write


TORCH: Mapping[str, Form] = {
    "index_copy_": lambda torch, _: lambda out, x, i, u: out.copy_(x).index_copy_(0, i[:, 0], u),
    "index_put_": lambda torch, _: lambda out, x, i, u: out.copy_(x).index_put_((i[:, 0],), u),
}


def of_cupy(cupy: Any, _: Attributes) -> Callable[..., Any]:
    def write(out: Any, x: Any, i: Any, u: Any) -> None:
        cupy.copyto(out, x)
        out[i[:, 0]] = u

    return write


def of_onnx(_: Attributes) -> OnnxNode:
    return OnnxNode("ScatterND", arrays=lambda arrays: (arrays[0], arrays[1].astype(np.int64), arrays[2]))
