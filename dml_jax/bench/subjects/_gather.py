"""gather: rows of a table, and indices along each axis."""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data, mega, random_indices
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

TABLES = ((32000, 4096, "bfloat16"), (32000, 4096, "float32"), (50257, 768, "float32"), (128256, 4096, "bfloat16"))


def quick(size: int) -> Iterator[Case]:
    yield from _rows(size, 4, (512,), ("random",))


def full(size: int) -> Iterator[Case]:
    for itemsize in DTYPES:
        yield from _rows(size, itemsize, (4, 16, 64, 128, 256, 1024, 4096), ("random",))
        yield from _rows(size, itemsize, (16, 512), ("sorted",))
        yield from _rows(size, itemsize, (512,), ("random",))
        yield from _axes(size, itemsize)


def real(size: int) -> Iterator[Case]:
    """Embeddings of language models, whose words follow Zipf's law; a table has at most four times as many bytes."""
    for rows, width, dtype in TABLES:
        yield _embedding_of(min(rows, 4 * size // (width * jnp.dtype(dtype).itemsize)), width, dtype, size)


def small(size: int) -> Iterator[Case]:
    yield from _rows(size, 4, (64,), ("random",))


def sweep(size: int) -> Iterator[Case]:
    yield from _rows(size, 4, (256,), ("random",))


def of_jnp(a: Attributes) -> Callable[..., Any]:
    return lambda x, i: jnp.take(x, i, axis=a["axis"], mode="clip")


def of_numpy(a: Attributes) -> Callable[..., Any]:
    return lambda out, x, i: np.take(x, i, axis=a["axis"], out=out, mode="clip")


TORCH: Mapping[str, Form] = {
    "index_select": lambda torch, a: lambda out, x, i: torch.index_select(x, a["axis"], i, out=out),
    "embedding": lambda torch, a: _embedding(torch) if a["axis"] == 0 else None,
    "compile": lambda torch, a: lambda out, x, i: out.copy_(torch.index_select(x, a["axis"], i)),
}


def _embedding(torch: Any) -> Callable[..., Any]:
    return lambda out, x, i: torch.nn.functional.embedding(i, x)


def of_cupy(cupy: Any, a: Attributes) -> Callable[..., Any]:
    return lambda out, x, i: cupy.take(x, i, axis=a["axis"], out=out)


def of_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("Gather", {"axis": a["axis"]})


def _rows(size: int, itemsize: int, row_bytes: tuple[int, ...], orders: tuple[str, ...]) -> Iterator[Case]:
    for row, order in product(row_bytes, orders):
        width = row // itemsize
        if width < 1:
            continue
        count = size // row
        yield Case(
            "gather",
            f"rows of {row} bytes {DTYPES[itemsize].name} {order} {mega(size)}",
            {"axis": 0},
            lambda width=width, count=count, order=order: (
                data((count, width), itemsize),
                random_indices(count, (count,), order),
            ),
            2 * size + 4 * count,
        )


def _axes(size: int, itemsize: int) -> Iterator[Case]:
    shape = (64, 512, size // itemsize // (64 * 512))
    for axis in range(3):
        yield Case(
            "gather",
            f"axis {axis} of 3 {DTYPES[itemsize].name} {mega(size)}",
            {"axis": axis},
            lambda axis=axis: (data(shape, itemsize), random_indices(shape[axis], (shape[axis],))),
            2 * size + 4 * shape[axis],
        )


def _embedding_of(rows: int, width: int, dtype: str, size: int) -> Case:
    row_bytes = width * jnp.dtype(dtype).itemsize
    ids = random_indices(rows, (max(1, size // row_bytes),), "Zipf")
    return Case(
        "gather",
        f"real embedding of {len(ids)} ids, {rows}x{width} {dtype} Zipf",
        {"axis": 0},
        lambda: (data((rows, width), dtype), ids),
        (len(np.unique(ids)) + len(ids)) * row_bytes + ids.nbytes,
    )
