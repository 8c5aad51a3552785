"""Gradients of gathers (embeddings): tables and indices of real programs, with four distributions of the indices."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dml_jax

from .case import Arrays, Case, Drawn, dims, few_signs, random_indices
from .implementations import Implementation, Run, compiled
from .peers import cupy_run, has_cupy, torch_run

DISTRIBUTIONS = ("uniform", "Zipf", "one id", "permutation")
DTYPES = ("float32", "bfloat16")
# Rows, width, and number of indices; what they are in programs.
TABLES = (
    (128256, 1024, 65536),  # a vocabulary, and a batch of tokens
    (32000, 1024, 16384),
    (65536, 4096, 65536),  # tokens sent to experts
    (64, 1024, 65536),  # positions, types, experts
    (1000, 128, 1000000),  # classes
    (1000000, 64, 1000000),  # items of a shop; nodes and edges of a graph
    (10000, 1, 4000000),  # one number per node
)
ELEMENTS = (((2048, 8192), 1), ((8192, 2048), 0))
LABELS = ((4096, 32000), (4096, 50257))
PROMISED = ((16384, 2048), (65536, 4096), (1000000, 64))


def cases(size: int) -> Iterator[Case]:
    """Every table, data type and distribution; below 128 MiB, indices and rows above 1000 are an eighth as many."""
    part = 8 if size < 2**27 else 1
    for (rows, width, number), dtype, kind in _each(TABLES):
        rows, number = rows // part if rows > 1000 else rows, number // part
        if kind != "permutation" or rows == number:
            yield of_rows(rows, width, number, dtype, kind, {})
    for (shape, axis), dtype, kind in _each(ELEMENTS):
        yield of_elements((shape[0] // part, shape[1]), axis, dtype, kind)
    for (rows, width), dtype in ((of, dtype) for of in LABELS for dtype in DTYPES):
        yield _of_labels(rows // part, width, dtype)
    for (rows, width), dtype in ((of, dtype) for of in PROMISED for dtype in DTYPES):
        yield of_rows(rows // part, width, rows // part, dtype, "permutation", {"unique_indices": True})


def implementations(*, peers: bool) -> list[Implementation]:
    """This library first; peers in their best form, which for jax.numpy is to add in float32."""
    found = [
        compiled("dml_jax", gradient_of),
        compiled("deterministic", partial(gradient_of, deterministic=True)),
        compiled("jnp", plain_of),
    ]
    if peers and find_spec("torch"):
        found += [Implementation(name, _torch(name)) for name in TORCH]
    return [*found, Implementation("CuPy", _cupy)] if peers and has_cupy() else found


def _each(of: Sequence[Any]) -> Iterator[tuple[Any, str, str]]:
    return ((each, dtype, kind) for each in of for dtype in DTYPES for kind in DISTRIBUTIONS)


def of_rows(rows: int, width: int, number: int, dtype: str, kind: str, promises: dict[str, bool]) -> Case:
    """The gradient of so many rows, gathered from a table, whose indices have a distribution."""
    detail = f"{number} of {rows}x{width} {dtype} {'promised ' if promises else ''}{kind}"
    attributes, indices = {"axis": 0, **promises, "shape": (rows, width)}, random_indices(rows, (number,), kind)
    return _case("gather", detail, attributes, few_signs((number, width), dtype), indices)


def of_elements(shape: tuple[int, int], axis: int, dtype: str, kind: str) -> Case:
    """The gradient of as many elements as a matrix has, gathered along an axis, whose indices have a distribution."""
    detail, indices = f"{dims(shape)} axis {axis} {dtype} {kind}", random_indices(shape[axis], shape, kind, axis)
    return _case("gather_elements", detail, {"axis": axis, "shape": shape}, few_signs(shape, dtype), indices)


def _of_labels(rows: int, width: int, dtype: str) -> Case:
    updates, indices = few_signs((rows, 1), dtype), random_indices(width, (rows, 1))
    attributes = {"axis": 1, "shape": (rows, width)}
    return _case("gather_elements", f"labels of {rows}x{width} {dtype}", attributes, updates, indices)


def _case(operator: str, detail: str, attributes: Mapping[str, Any], updates: Drawn, indices: Drawn) -> Case:
    """A gradient, which reads the updates and the indices, and writes a table of the attribute "shape"."""
    needed = updates.nbytes + indices.nbytes + prod(attributes["shape"]) * updates.dtype.itemsize
    return Case(operator, f"gradient, {detail}", attributes, [updates, indices], needed=needed)


def gradient_of(case: Case, **changes: Any) -> Callable[..., jax.Array]:
    """The gradient by dml_jax: (updates, indices) -> gradient of the table; `changes` override attributes."""
    attributes = {**case.attributes, **changes}
    shape = attributes.pop("shape")
    return read_gradient(shape, partial(getattr(dml_jax, case.operator), **attributes))


def read_gradient(shape: Sequence[int], read: Callable[..., Any]) -> Callable[..., jax.Array]:
    """The gradient of a gather from a table of this shape: (updates, indices) -> gradient of the table."""

    def gradient(updates: jax.Array, indices: jax.Array) -> jax.Array:
        table = jnp.zeros(shape, updates.dtype)
        return jax.vjp(lambda table: read(table, indices), table)[1](updates)[0]

    return gradient


def plain_of(case: Case) -> Callable[..., jax.Array]:
    read = {"gather": jnp.take, "gather_elements": jnp.take_along_axis}[case.operator]
    axis, shape = case.attributes["axis"], case.attributes["shape"]
    promise = {"unique_indices": True} if case.operator == "gather" and "unique_indices" in case.attributes else {}

    def gradient(updates: jax.Array, indices: jax.Array) -> jax.Array:
        wide = jnp.float32 if not promise else updates.dtype
        back = jax.vjp(lambda t: read(t, indices, axis=axis, mode="clip", **promise), jnp.zeros(shape, wide))[1]
        return back(updates.astype(wide))[0].astype(updates.dtype)

    return gradient


def _along(out: Any, indices: Any) -> Any:
    return indices if indices.ndim == out.ndim else indices[:, None].expand(-1, out.shape[1])


def _embedding_backward(out: Any, updates: Any, indices: Any) -> None:
    import torch  # pyright: ignore[reportMissingImports]

    torch.ops.aten.embedding_dense_backward.out(updates, indices, out.shape[0], -1, False, out=out)


# What torch has that adds up, into an existing array; the axis is the first but for scatter_add_.
TORCH: dict[str, Callable[..., Any]] = {
    "torch index_add_": lambda out, u, i, axis: out.zero_().index_add_(0, i, u),
    "torch embedding": lambda out, u, i, axis: _embedding_backward(out, u, i),
    "torch scatter_add_": lambda out, u, i, axis: out.zero_().scatter_add_(axis, _along(out, i), u),
}


def _torch(name: str) -> Callable[[Case, Sequence[Arrays]], Run | None]:
    def start(case: Case, turns: Sequence[Arrays]) -> Run | None:
        if case.operator != "gather" and "scatter" not in name:
            return None
        axis, write = case.attributes["axis"], TORCH[name]
        out = np.zeros(case.attributes["shape"], turns[0][0].dtype)
        return torch_run(lambda out, u, i: write(out, u, i, axis), out, turns)

    return start


def _cupy(case: Case, turns: Sequence[Arrays]) -> Run | None:
    return cupy_run(case, _added_by_cupy, np.zeros(case.attributes["shape"], turns[0][0].dtype), turns)


def _added_by_cupy(cupy: Any, attributes: Mapping[str, Any]) -> Callable[..., None]:
    """The gradient in CuPy: add.at into a table of zeros."""
    rows, columns = (cupy.arange(n) for n in attributes["shape"])

    def write(out: Any, updates: Any, indices: Any) -> None:
        out.fill(0)
        along = (indices, columns) if attributes["axis"] == 0 else (rows[:, None], indices)
        cupy.add.at(out, indices if indices.ndim == 1 else along, updates)

    return write
