"""`LazyTranspose`: a transposed array that is not transposed before an operator needs its order in memory.

torch's attention transposes (batch, length, width) to (length, batch, width), multiplies, cuts the product into three,
and divides each part by heads. Products, biases and cuts keep the order in memory, so that of several transposes one is
left, or none. To any other operator a `LazyTranspose` is the array that its nodes make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.core import Tracer

from ..core.sharding import is_sharded
from .alike_nodes import are_sizes_enough
from .deferred import Deferred, Row, Rows, plain

Keywords = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LazyTranspose(Deferred):
    """Dimensions of an array in another order, some of them merged.

    Of a source (2, 3, 4), the groups ((1,), (0, 2)) are an array (3, 8), and ((1,), (), (0, 2)) one (3, 1, 8).

    Args:
      source: without dimensions of size 1.
      groups: for each dimension those of the source that it merges, the outermost first.
    """

    source: jax.Array
    groups: tuple[tuple[int, ...], ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(prod(self.source.shape[d] for d in group) for group in self.groups)

    @property
    def order(self) -> list[int]:
        return list(chain(*self.groups))

    def compute(self) -> jax.Array:
        """Transposes the source; dimensions that are neighbours before and after move as one."""
        starts = [d for group in self.groups for before, d in pairwise((-2, *group)) if d != before + 1]
        ends = sorted((*starts, self.source.ndim))[1:]
        merged = self.source.reshape([prod(self.source.shape[a:b]) for a, b in zip(sorted(starts), ends, strict=True)])
        return merged.transpose([sorted(starts).index(d) for d in starts]).reshape(self.shape)

    def aligned(self, other: Any) -> Any:
        """A number, or one for each element of the last dimension, in the order of the source."""
        last = self.groups[-1] if other.size > 1 else ()
        sizes = [self.source.shape[d] if d in last else 1 for d in self.order]
        return other.reshape(sizes).transpose(np.argsort(self.order))

    def reshaped(self, shape: Sequence[int]) -> LazyTranspose | None:
        """The same elements in other sizes; None if a dimension would have parts of two that are not neighbours."""
        if 0 in self.shape:
            return None
        left, groups = [(d, self.source.shape[d]) for d in self.order], []
        parts: list[list[int]] = [[] for _ in self.source.shape]  # of each dimension of the source, the outermost first
        for size in shape:
            group = []
            while size > 1:
                d, n = left.pop(0)
                part = min(n, size) if n % size == 0 or size % n == 0 else 0
                if not part:
                    return None
                if n > part:
                    left.insert(0, (d, n // part))
                group.append((d, len(parts[d])))
                parts[d].append(part)
                size //= part
            groups.append(group)
        first = [sum(map(len, parts[:d])) for d in range(len(parts))]
        source = self.source.reshape(list(chain(*parts)))
        return LazyTranspose(source, tuple(tuple(first[d] + k for d, k in group) for group in groups))


def _lazy(source: jax.Array, groups: Sequence[Sequence[int]]) -> LazyTranspose | jax.Array:
    """Returns the array itself where its order is that of memory."""
    result = LazyTranspose(source, tuple(map(tuple, groups)))
    return result.compute() if result.order == sorted(result.order) or is_sharded(source) else result


def _transpose(_: Callable[..., Any], keywords: Keywords) -> Any:
    data, perm = keywords["data"], keywords.get("perm")
    perm = list(range(data.ndim))[::-1] if perm is None else list(perm)
    if sorted(perm) != list(range(data.ndim)):
        return None
    if isinstance(data, Tracer) and all(isinstance(n, int) and n for n in data.shape) and not are_sizes_enough():
        kept = [d for d, n in enumerate(data.shape) if n > 1]
        groups = [[kept.index(d)] if d in kept else [] for d in range(data.ndim)]
        source = data.reshape([data.shape[d] for d in kept])
    elif isinstance(data, LazyTranspose):
        source, groups = data.source, data.groups
    else:
        return None
    return _lazy(source, [groups[d] for d in perm])


def _reshaping(name: str) -> Row:
    """The rule of an operator that changes sizes, whose operand has this name."""

    def row(function: Callable[..., Any], keywords: Keywords) -> Any:
        data = keywords[name]
        if not isinstance(data, LazyTranspose):
            return None
        result = data.reshaped(_shapes(function, keywords, name).shape)
        return None if result is None else _lazy(result.source, result.groups)

    return row


def _gather(_: Callable[..., Any], keywords: Keywords) -> Any:
    """An element along an axis, whose slice XLA fuses with what follows, as it would not words of it."""
    data, indices, axis = keywords["data"], keywords["indices"], keywords["axis"]
    if not isinstance(indices, np.ndarray) or indices.ndim or not _is_cut(data, axis):
        return None
    (at,), size, index = data.groups[axis], data.shape[axis], int(indices)
    if not -size <= index < size:
        return None
    groups = [[d - (d > at) for d in group] for group in data.groups if group != (at,)]
    return _lazy(lax.index_in_dim(data.source, index % size, at, keepdims=False), groups)


def _split(function: Callable[..., Any], keywords: Keywords) -> Any:
    data, axis = keywords["input"], keywords.get("axis", 0)
    if not _is_cut(data, axis):
        return None
    (at,), start, parts = data.groups[axis], 0, []
    for part in _shapes(function, keywords, "input"):
        end = start + part.shape[axis]
        cut = lax.slice_in_dim(data.source, start, end, axis=at)
        kept = [d for d, n in enumerate(cut.shape) if n != 1]
        moved = [[kept.index(d) for d in group if d in kept] for group in data.groups]
        parts.append(_lazy(cut.reshape([cut.shape[d] for d in kept]), moved))
        start = end
    return tuple(parts)


def _is_cut(data: Any, axis: int) -> bool:
    """Whether a part along an axis is one of the source."""
    is_known = isinstance(data, LazyTranspose) and -data.ndim <= axis < data.ndim
    return is_known and len(data.groups[axis]) == 1


def _shapes(function: Callable[..., Any], keywords: Keywords, name: str) -> Any:
    """Shapes and types that a node makes, whose operand of that name is a `LazyTranspose`."""
    data, others = keywords[name], {key: plain(value) for key, value in keywords.items() if key != name}
    return jax.eval_shape(lambda x: function(**others, **{name: x}), jax.ShapeDtypeStruct(data.shape, data.dtype))


def _of_each(function: Callable[..., Any], keywords: Keywords) -> Any:
    """Arithmetic with a number, or with one for each element of the last dimension."""
    if keywords.keys() != {"a", "b"}:  # of opsets that broadcast by an attribute
        return None
    name, other = ("a", "b") if isinstance(keywords["a"], LazyTranspose) else ("b", "a")
    x, y = keywords[name], plain(keywords[other])
    if not isinstance(x, LazyTranspose) or x.dtype != y.dtype or y.ndim > 1 or y.size not in (1, x.shape[-1]):
        return None
    return _lazy(function(**{**keywords, name: x.source, other: x.aligned(y)}), x.groups)


def _matmul(function: Callable[..., Any], keywords: Keywords) -> Any:
    a, b = keywords["a"], keywords["b"]
    if not isinstance(a, LazyTranspose) or b.ndim != 2 or isinstance(b, LazyTranspose) or b.shape[0] != a.shape[-1]:
        return None
    return _multiplied(a, b.shape[1], lambda rows: function(**{**keywords, "a": rows, "b": plain(b)}))


def _gemm(function: Callable[..., Any], keywords: Keywords) -> Any:
    a, b, c = keywords["a"], keywords["b"], plain(keywords.get("c"))
    if not isinstance(a, LazyTranspose) or b.ndim != 2 or keywords["transA"] or (c is not None and c.ndim > 1):
        return None
    flat = {**keywords, "b": plain(b), **({} if c is None else {"c": c})}
    columns = b.shape[0 if keywords["transB"] else 1]

    def multiply(rows: jax.Array) -> jax.Array:
        product = function(**{**flat, "a": rows.reshape(-1, rows.shape[-1])})
        return product.reshape(*rows.shape[:-1], columns)

    return _multiplied(a, columns, multiply)


def _multiplied(a: LazyTranspose, columns: int, multiply: Callable[[jax.Array], jax.Array]) -> Any:
    """Rows by a matrix, in the order that they have in memory; None if that is their own."""
    *rows, inner = a.groups
    order = list(chain(*rows))
    if order == sorted(order) or columns < 2:
        return None
    kept = sorted(order)
    a_rows = LazyTranspose(a.source, (*((d,) for d in kept), inner))
    return _lazy(multiply(a_rows.compute()), [*([kept.index(d) for d in group] for group in rows), [len(kept)]])


TRANSPOSED: Rows = {
    "Transpose": _transpose,
    **{name: _reshaping("data") for name in ("Reshape", "Squeeze", "Unsqueeze")},
    "Flatten": _reshaping("input"),
    "Gather": _gather,
    "Split": _split,
    "MatMul": _matmul,
    "Gemm": _gemm,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _of_each),
}
