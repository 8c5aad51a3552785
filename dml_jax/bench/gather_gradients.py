"""Gradients of gathers (embeddings): tables and indices of real programs, with four distributions of the indices."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import dml_jax

from .case import Case, Drawn, dims, few_signs, random_indices
from .implementations import JNP, Implementation, compiled
from .operators.operator_benchmark import Attributes, Operator
from .peers import cupy_way, torch_ways

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
        compiled("dml_jax", lambda case: case.call),
        compiled("deterministic", lambda case: _of_operator(case.operator, case.attributes, deterministic=True)),
        JNP,
    ]
    return [*found, *torch_ways(FORMS["gather"].torch), *cupy_way()] if peers else found


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
    """A gradient of the updates and the indices, which is a table of the attribute "shape"."""
    of: Any = {"function": _of_operator(operator, attributes), "forms": FORMS[operator]}
    return Case(operator, f"gradient, {detail}", attributes, [updates, indices], **of)


def _of_operator(operator: str, attributes: Mapping[str, Any], **changes: Any) -> Callable[..., jax.Array]:
    """The gradient by dml_jax; `changes` override attributes."""
    how = {**attributes, **changes}
    return read_gradient(how.pop("shape"), partial(getattr(dml_jax, operator), **how))


def read_gradient(shape: Sequence[int], read: Callable[..., Any]) -> Callable[..., jax.Array]:
    """The gradient of a gather from a table of this shape: (updates, indices) -> gradient of the table."""

    def gradient(updates: jax.Array, indices: jax.Array) -> jax.Array:
        table = jnp.zeros(shape, updates.dtype)
        return jax.vjp(lambda table: read(table, indices), table)[1](updates)[0]

    return gradient


def _plain(read: Callable[..., Any], a: Attributes) -> Callable[..., jax.Array]:
    """The gradient by jax.numpy."""
    promise = {"unique_indices": True} if "unique_indices" in a else {}

    def gradient(updates: jax.Array, indices: jax.Array) -> jax.Array:
        wide = jnp.float32 if not promise else updates.dtype
        table = jnp.zeros(a["shape"], wide)
        back = jax.vjp(lambda table: read(table, indices, axis=a["axis"], mode="clip", **promise), table)[1]
        return back(updates.astype(wide))[0].astype(updates.dtype)

    return gradient


def _embedding_backward(torch: Any, out: Any, updates: Any, indices: Any) -> None:
    torch.ops.aten.embedding_dense_backward.out(updates, indices, out.shape[0], -1, False, out=out)


def _scattered(_: Any, a: Attributes) -> Callable[..., Any]:
    """The gradient by torch's scatter_add_, which takes an index for each element."""

    def write(out: Any, updates: Any, indices: Any) -> Any:
        along = indices if indices.ndim == out.ndim else indices[:, None].expand(-1, out.shape[1])
        return out.zero_().scatter_add_(a["axis"], along, updates)

    return write


def _added_by_cupy(cupy: Any, a: Attributes) -> Callable[..., None]:
    """The gradient in CuPy: add.at into a table of zeros."""
    rows, columns = (cupy.arange(n) for n in a["shape"])

    def write(out: Any, updates: Any, indices: Any) -> None:
        out.fill(0)
        along = (indices, columns) if a["axis"] == 0 else (rows[:, None], indices)
        cupy.add.at(out, indices if indices.ndim == 1 else along, updates)

    return write


FORMS = {
    "gather": Operator(
        jnp=partial(_plain, jnp.take),
        torch={
            "index_add_": lambda torch, _: lambda out, u, i: out.zero_().index_add_(0, i, u),
            "embedding": lambda torch, _: partial(_embedding_backward, torch),
            "scatter_add_": _scattered,
        },
        cupy=_added_by_cupy,
    ),
    "gather_elements": Operator(
        jnp=partial(_plain, jnp.take_along_axis), torch={"scatter_add_": _scattered}, cupy=_added_by_cupy
    ),
}
