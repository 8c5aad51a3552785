"""gather, gather_elements, gather_nd and reverse_subsequences: reads of rows and elements by index."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, INT32, Case, Drawn, data, mib, random_indices
from .operator_benchmark import ALL_SIZES, Attributes, OnnxNode, Operator, by_type

TABLES = ((32000, 4096, "bfloat16"), (32000, 4096, "float32"), (50257, 768, "float32"), (128256, 4096, "bfloat16"))


def _gathers(size: int) -> Iterator[Case]:
    """gather: rows of tables of many widths, and indices along each axis."""
    for itemsize in DTYPES:
        yield from (_rows(size, row, itemsize) for row in (4, 16, 64, 128, 256, 1024, 4096) if row >= itemsize)
        yield from (_rows(size, row, itemsize, "sorted") for row in (16, 512))
        yield _rows(size, 512, itemsize)
        yield from _axes(size, itemsize)


def _rows(size: int, row: int, itemsize: int = 4, order: str = "random") -> Case:
    detail, count = f"rows of {row} bytes {DTYPES[itemsize]} {order} {mib(size)}", size // row
    table, ids = data((count, row // itemsize), itemsize), random_indices(count, (count,), order)
    return Case("gather", detail, {"axis": 0}, [table, ids])


def _axes(size: int, itemsize: int) -> Iterator[Case]:
    x = data((64, 512, size // itemsize // (64 * 512)), itemsize)
    for axis, n in enumerate(x.shape):
        detail = f"axis {axis} of 3 {x.dtype} {mib(size)}"
        yield Case("gather", detail, {"axis": axis}, [x, random_indices(n, (n,))])


def _embeddings(size: int) -> Iterator[Case]:
    """Embeddings of language models, whose tokens follow Zipf's law; a table has at most four times as many bytes."""
    for rows, width, dtype in TABLES:
        row_bytes = width * jnp.dtype(dtype).itemsize
        table, count = data((min(rows, 4 * size // row_bytes), width), dtype), max(1, size // row_bytes)
        ids = random_indices(table.shape[0], (count,), "Zipf")
        detail, read = f"real embedding of {count} ids, {table} Zipf", len(np.unique(ids.make()))
        yield Case("gather", detail, {"axis": 0}, [table, ids], needed=(read + count) * row_bytes + ids.nbytes)


def _elements(size: int) -> Iterator[Case]:
    """gather_elements: of cubes, along the first axis of what no cache holds, and along rows of several lengths."""
    for itemsize in DTYPES:
        yield from _cube(size // 2, (0, 1, 2), itemsize, ("random", "sorted"))
        count = size // 2 // itemsize
        yield _along((8192, count // 8192), itemsize, 0)
        for length in (256, 4096, 16384):
            yield _along((count // length, length), itemsize, 1)


def _real_elements(size: int) -> Iterator[Case]:
    """Sorted columns and rows, and the logit of each label: a table has at most eight times as many bytes."""
    count = max(1, size // 8 // 32768)
    yield _along((32768, count), 4, 0, "sorted", "real ")
    yield _along((count, 32768), 4, 1, "sorted", "real ")
    width = 128256
    for dtype in ("bfloat16", "float32"):
        itemsize = jnp.dtype(dtype).itemsize
        rows = max(1, min(8192, 8 * size // (width * itemsize)))
        logits, labels = data((rows, width), dtype), random_indices(width, (rows, 1))
        detail, needed = f"real label of each row of {logits}", rows * (2 * itemsize + 4)
        yield Case("gather_elements", detail, {"axis": 1}, [logits, labels], needed=needed)


def _cube(size: int, axes: Sequence[int], itemsize: int = 4, orders: Sequence[str] = ("random",)) -> Iterator[Case]:
    side = max(4, round((size / itemsize) ** (1 / 3)))
    shape = (side, side, size // itemsize // (side * side))
    yield from (_along(shape, itemsize, axis, order) for axis, order in product(axes, orders))


def _along(shape: tuple[int, ...], itemsize: int, axis: int, order: str = "random", real: str = "") -> Case:
    x, is_sorted = data(shape, itemsize), {"indices_are_sorted": True} if order == "sorted" else {}
    arrays = [x, random_indices(shape[axis], shape, order, axis)]
    return Case("gather_elements", f"{real}axis {axis} of {x} {order}", {"axis": axis, **is_sorted}, arrays)


def _pairs(size: int, itemsize: int) -> Iterator[Case]:
    """gather_nd: rows that pairs of indices name."""
    width = max(1, min(256, size // 64) // itemsize)
    rows = max(4, size // itemsize // width)
    first = max(2, int(rows**0.5))
    sizes = (first, rows // first)
    count, x = prod(sizes), data((*sizes, width), itemsize)

    def pairs() -> np.ndarray:
        return np.stack([random_indices(n, (count,)).make() for n in sizes], -1)

    detail = f"pairs, rows of {width * itemsize} bytes {x.dtype} {mib(size)}"
    yield Case("gather_nd", detail, {}, [x, Drawn((count, 2), INT32, pairs)])


def _flat(x: Any, i: Any) -> tuple[Any, int, Any]:
    """The rows of a matrix, its axis, and one index instead of each pair."""
    return x.reshape(-1, x.shape[-1]), 0, i[:, 0] * x.shape[1] + i[:, 1]


def _reversals(size: int, itemsize: int) -> Iterator[Case]:
    """reverse_subsequences: sequences of all lengths, along either axis of a matrix."""
    count = size // itemsize
    yield _reversal((count // 512, 512), 1, itemsize)
    yield _reversal((512, count // 512), 0, itemsize)
    yield _reversal((count // 8192, 8192), 1, itemsize)


def _reversal(shape: tuple[int, ...], axis: int, itemsize: int) -> Case:
    ends = tuple(1 if d == axis else n for d, n in enumerate(shape))
    x, lengths = data(shape, itemsize), random_indices(shape[axis] + 1, ends)
    return Case("reverse_subsequences", f"axis {axis} of {x}", {"axis": axis}, [x, lengths])


def _sources(like: Any, x: Any, lengths: Any, a: Attributes, **device: Any) -> tuple[int, Any]:
    """The axis, and the source index of each element along it, in torch's argument order."""
    turned = [-1 if d == a["axis"] else 1 for d in range(x.ndim)]
    at = like.arange(x.shape[a["axis"]], dtype=lengths.dtype, **device).reshape(turned)
    return a["axis"], like.where(at < lengths, lengths - 1 - at, at)


def _along_sources(like: Any, x: Any, lengths: Any, a: Attributes) -> Any:
    """reverse_subsequences by take_along_axis, in jax.numpy and NumPy."""
    axis, sources = _sources(like, x, lengths, a)
    return like.take_along_axis(x, sources, axis)


def _reversed_by_onnx(a: Attributes) -> OnnxNode:
    """ReverseSequence, which takes one INT64 length per row."""
    axes = {"time_axis": a["axis"], "batch_axis": 1 - a["axis"]}
    return OnnxNode("ReverseSequence", axes, arrays=lambda arrays: (arrays[0], arrays[1].ravel().astype(np.int64)))


OPERATORS: Mapping[str, Operator] = {
    "gather": Operator(
        plans={
            "quick": lambda size: [_rows(size, 512)],
            "full": _gathers,
            "real": _embeddings,
            "small": lambda size: [_rows(size, 64)],
            "sweep": lambda size: [_rows(size, 256)],
        },
        jnp=lambda a: lambda x, i: jnp.take(x, i, axis=a["axis"], mode="clip"),
        numpy=lambda a: lambda out, x, i: np.take(x, i, axis=a["axis"], out=out, mode="clip"),
        torch={
            "index_select": lambda torch, a: lambda out, x, i: torch.index_select(x, a["axis"], i, out=out),
            "embedding": lambda torch, a: (
                (lambda out, x, i: torch.nn.functional.embedding(i, x)) if a["axis"] == 0 else None
            ),
            "compile": lambda torch, a: lambda out, x, i: out.copy_(torch.index_select(x, a["axis"], i)),
        },
        cupy=lambda cupy, a: lambda out, x, i: cupy.take(x, i, axis=a["axis"], out=out),
        onnx=lambda a: OnnxNode("Gather", {"axis": a["axis"]}),
    ),
    "gather_elements": Operator(
        plans={
            "quick": partial(_cube, axes=(0, 2)),
            "full": _elements,
            "real": _real_elements,
            "small": partial(_cube, axes=(2,)),
            "sweep": partial(_cube, axes=(2,)),
        },
        jnp=lambda a: lambda x, i: jnp.take_along_axis(x, i, axis=a["axis"], mode="clip"),
        numpy=lambda a: lambda out, x, i: np.copyto(out, np.take_along_axis(x, i, a["axis"])),
        torch={
            "gather": lambda torch, a: lambda out, x, i: torch.gather(x, a["axis"], i, out=out),
            "compile": lambda torch, a: lambda out, x, i: out.copy_(torch.gather(x, a["axis"], i)),
        },
        cupy=lambda cupy, a: lambda out, x, i: cupy.copyto(out, cupy.take_along_axis(x, i, a["axis"])),
        onnx=lambda a: OnnxNode("GatherElements", {"axis": a["axis"]}),
    ),
    "gather_nd": Operator(
        plans=by_type(_pairs, ALL_SIZES, small=partial(_pairs, itemsize=4)),
        jnp=lambda _: lambda x, i: x.at[tuple(jnp.moveaxis(i, -1, 0))].get(mode="clip"),
        numpy=lambda _: lambda out, x, i: np.copyto(out, x[tuple(np.moveaxis(i, -1, 0))]),
        torch={
            "index_select": lambda torch, _: lambda out, x, i: torch.index_select(*_flat(x, i), out=out),
            "index": lambda torch, _: lambda out, x, i: torch.ops.aten.index.Tensor_out(x, [i[:, 0], i[:, 1]], out=out),
            "compile": lambda torch, _: lambda out, x, i: out.copy_(x[i[:, 0], i[:, 1]]),
        },
        cupy=lambda cupy, _: lambda out, x, i: cupy.take(_flat(x, i)[0], _flat(x, i)[2], 0, out=out),
        onnx=lambda _: OnnxNode("GatherND", arrays=lambda arrays: (arrays[0], arrays[1].astype(np.int64))),
    ),
    "reverse_subsequences": Operator(
        plans=by_type(_reversals, ALL_SIZES, quick=None, small=lambda size: [_reversal((16, size // 64), 1, 4)]),
        jnp=lambda a: lambda x, n: _along_sources(jnp, x, n, a),
        numpy=lambda a: lambda out, x, n: np.copyto(out, _along_sources(np, x, n, a)),
        torch={
            "gather": lambda torch, a: (
                lambda out, x, n: torch.gather(x, *_sources(torch, x, n, a, device=x.device), out=out)
            ),
            "compile": lambda torch, a: (
                lambda out, x, n: out.copy_(torch.gather(x, *_sources(torch, x, n, a, device=x.device)))
            ),
        },
        onnx=_reversed_by_onnx,
    ),
}
