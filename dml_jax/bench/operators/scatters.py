"""Scatters: scatter_elements, scatter_nd, max_unpooling, as_strided_scatter and one_hot."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..case import DTYPES, INT32, Case, Drawn, batch_of, data, dims, mib, random_indices
from .operator_benchmark import ALL_SIZES, Attributes, OnnxNode, Operator, by_type


def _table(size: int, itemsize: int) -> tuple[tuple[int, int], int]:
    """The shape of a table of about `size` bytes, and the number of distinct rows written: an eighth."""
    width = max(1, min(256, size // 64) // itemsize)
    rows = max(4, size // itemsize // width)
    return (rows, width), max(1, rows // 8)


def _written(table: tuple[int, int], few: int, columns: int, itemsize: int) -> list[Drawn]:
    """A table, the rows that are written, in so many columns, and updates."""

    def rows() -> np.ndarray:
        drawn = np.random.default_rng(1).permutation(table[0])[:few, None].astype(np.int32)
        return np.repeat(drawn, columns, axis=1)

    updates = data((few, table[1]), itemsize).then(np.flipud)
    return [data(table, itemsize), Drawn((few, columns), INT32, rows), updates]


def _scattered_elements(size: int, itemsize: int) -> Iterator[Case]:
    """scatter_elements: those of an eighth of the rows, and an eighth of each long row, such as those of a mask."""
    (table, few), dtype = _table(size, itemsize), DTYPES[itemsize]
    detail = f"an eighth along axis 0 {dtype} {mib(size)}"
    yield Case("scatter_elements", detail, {"axis": 0}, _written(table, few, table[1], itemsize))
    length = max(8, min(2**13, size // 64) // itemsize)
    rows, few = max(1, size // itemsize // length), length // 8

    def places() -> np.ndarray:
        return np.argsort(np.random.default_rng(1).random((rows, length)))[:, :few].astype(np.int32)

    x, at, updates = data((rows, length), itemsize), Drawn((rows, few), INT32, places), data((rows, few), itemsize)
    detail = f"an eighth of rows of {length} {dtype} {mib(size)}"
    yield Case("scatter_elements", detail, {"axis": 1}, [x, at, updates.then(np.flipud)])


def _scattered_rows(size: int, itemsize: int) -> Iterator[Case]:
    """scatter_nd: whole rows of a table."""
    table, few = _table(size, itemsize)
    detail = f"an eighth of rows of {table[1] * itemsize} bytes {DTYPES[itemsize]} {mib(size)}"
    yield Case("scatter_nd", detail, {}, _written(table, few, 1, itemsize))


def _rows_written(copy: Callable[[Any, Any], Any], out: Any, x: Any, i: Any, u: Any) -> None:
    copy(out, x)
    out[i[:, 0]] = u


def _unpoolings(size: int, itemsize: int) -> Iterator[Case]:
    """max_unpooling: what 2x2 windows found, put back among zeros."""
    side = 128 if size >= 2**22 else 16
    made = batch_of((32, side, side), size, itemsize)
    shape = (*made[:2], side // 2, side // 2)

    def places() -> np.ndarray:
        at = np.arange(prod(made), dtype=np.int32).reshape(*shape[:3], 2, shape[3], 2).swapaxes(3, 4)
        chosen = np.resize(np.random.default_rng(4).integers(0, 4, 2**16 + 1), (prod(shape), 1))
        return np.take_along_axis(at.reshape(-1, 4), chosen, 1).reshape(shape)

    arrays = [data(shape, itemsize), Drawn(shape, INT32, places)]
    yield Case("max_unpooling", f"2x2 to {dims(made)} {DTYPES[itemsize]}", {"output_sizes": made}, arrays)


def _unpooled_by_jnp(a: Attributes) -> Callable[..., Any]:
    def written(x: Any, i: Any) -> Any:
        zeros = jnp.zeros(prod(a["output_sizes"]), x.dtype)
        return zeros.at[i.reshape(-1)].set(x.reshape(-1), mode="drop").reshape(a["output_sizes"])

    return written


def _unpooled_by_numpy(out: np.ndarray, x: np.ndarray, i: np.ndarray) -> None:
    out.fill(0)
    out.reshape(-1)[i] = x


def _unpooled_by_torch(torch: Any, out: Any, x: Any, i: Any) -> None:
    """Max unpooling in torch, with all images viewed as one, as torch's indices count within each image."""
    whole = out.view(1, 1, -1, out.shape[-1])
    flat = (one.view(1, 1, -1, x.shape[-1]) for one in (x, i))
    torch.ops.aten.max_unpool2d.out(*flat, whole.shape[2:], out=whole)


def _unpooled_by_onnx(a: Attributes) -> OnnxNode:
    shape = np.array(a["output_sizes"], np.int64)
    attributes = {"kernel_shape": (2, 2), "strides": (2, 2)}
    return OnnxNode("MaxUnpool", attributes, (shape,), lambda arrays: (arrays[0], arrays[1].astype(np.int64)))


def _columns(size: int, itemsize: int) -> Iterator[Case]:
    """as_strided_scatter: some columns of a table."""
    for name, width, columns, offset in (("half of each row", 1024, 512, 0), ("odd columns", 1022, 511, 3)):
        rows = size // itemsize // width
        x, updates = data((rows * width,), itemsize), data((rows, columns), itemsize).then(np.flipud)
        detail, attributes = f"{name} of {rows}x{width} {x.dtype}", {"strides": (width, 1), "offset": offset}
        yield Case("as_strided_scatter", detail, attributes, [x, updates], needed=2 * x.nbytes)


def _columns_by_numpy(a: Attributes) -> Callable[..., Any]:
    width, start = a["strides"][0], a["offset"]
    return lambda out, x, u: (
        np.copyto(out, x),
        np.copyto(out.reshape(-1, width)[:, start : start + u.shape[1]], u),
    )


def _columns_by_torch(a: Attributes, out: Any, x: Any, u: Any) -> None:
    out.copy_(x).as_strided(u.shape, a["strides"], a["offset"]).copy_(u)


def _labels(size: int, itemsize: int) -> Iterator[Case]:
    """one_hot: labels of pictures, words of a language, experts of a router."""
    for name, classes in (("labels", 1000), ("words", 32000), ("experts", 64)):
        rows, dtype = max(1, size // itemsize // classes), DTYPES[itemsize]
        arrays = [random_indices(classes, (rows, 1)), Drawn((2,), dtype, partial(np.array, [0, 1], dtype))]
        yield Case("one_hot", f"{name} {rows}x{classes} {dtype}", {"size": classes, "axis": 1}, arrays)


def _one_hot_by_onnx(a: Attributes) -> OnnxNode:
    size = np.array([a["size"]], np.int64)
    return OnnxNode("OneHot", arrays=lambda arrays: (arrays[0][:, 0].astype(np.int64), size, arrays[1]))


OPERATORS: Mapping[str, Operator] = {
    "scatter_elements": Operator(
        plans=by_type(_scattered_elements, ALL_SIZES, small=partial(_scattered_elements, itemsize=4)),
        jnp=lambda a: lambda x, i, u: jnp.put_along_axis(x, i, u, axis=a["axis"], inplace=False, mode="drop"),
        numpy=lambda a: lambda out, x, i, u: (np.copyto(out, x), np.put_along_axis(out, i, u, a["axis"])),
        torch={
            "scatter_": lambda torch, a: lambda out, x, i, u: out.copy_(x).scatter_(a["axis"], i, u),
            "scatter": lambda torch, a: lambda out, x, i, u: torch.scatter(x, a["axis"], i, u, out=out),
        },
        onnx=lambda a: OnnxNode("ScatterElements", {"axis": a["axis"]}),
    ),
    "scatter_nd": Operator(
        plans=by_type(_scattered_rows, ALL_SIZES, small=partial(_scattered_rows, itemsize=4)),
        jnp=lambda _: lambda x, i, u: x.at[tuple(jnp.moveaxis(i, -1, 0))].set(u, mode="drop"),
        numpy=lambda _: partial(_rows_written, np.copyto),
        torch={
            "index_copy_": lambda torch, _: lambda out, x, i, u: out.copy_(x).index_copy_(0, i[:, 0], u),
            "index_put_": lambda torch, _: lambda out, x, i, u: out.copy_(x).index_put_((i[:, 0],), u),
        },
        cupy=lambda cupy, _: partial(_rows_written, cupy.copyto),
        onnx=lambda _: OnnxNode("ScatterND", arrays=lambda arrays: (arrays[0], arrays[1].astype(np.int64), arrays[2])),
    ),
    "as_strided_scatter": Operator(
        plans=by_type(_columns, (1, 2, 4)),
        jnp=lambda a: (
            lambda x, u: lax.dynamic_update_slice(x.reshape(-1, a["strides"][0]), u, (0, a["offset"])).reshape(-1)
        ),
        numpy=_columns_by_numpy,
        torch={
            "copy_": lambda _, a: partial(_columns_by_torch, a),
            "as_strided_scatter": lambda torch, a: (
                lambda out, x, u: torch.as_strided_scatter(x, u, u.shape, a["strides"], a["offset"])
            ),
        },
    ),
    "max_unpooling": Operator(
        plans=by_type(_unpoolings, (1, 2, 4)),
        jnp=_unpooled_by_jnp,
        numpy=lambda _: _unpooled_by_numpy,
        torch={
            "scatter_": lambda torch, _: (
                lambda out, x, i: out.zero_().view(-1).scatter_(0, i.view(-1), x.view(-1)).view(out.shape)
            ),
            "max_unpool2d": lambda torch, _: partial(_unpooled_by_torch, torch),
        },
        onnx=_unpooled_by_onnx,
    ),
    "one_hot": Operator(
        plans=by_type(_labels, (1, 2, 4)),
        jnp=lambda a: lambda i, values: jax.nn.one_hot(i[:, 0], a["size"], dtype=values.dtype),
        numpy=lambda _: lambda out, i, values: (out.fill(0), np.put_along_axis(out, i, 1, 1)),
        torch={
            "scatter_": lambda torch, _: lambda out, i, values: out.zero_().scatter_(1, i, 1),
            "one_hot": lambda torch, a: (
                lambda out, i, values: out.copy_(torch.nn.functional.one_hot(i[:, 0], a["size"]))
            ),
        },
        onnx=_one_hot_by_onnx,
    ),
}
