"""Cumulative sums and products along an axis: in a tree, row by row, or as products with triangular matrices."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from ..cpu.cache_chunks import cut_dimension, map_chunks
from ..forms import Choice, Options, choose_anywhere, choose_form, forced_form, is_plain, known_bytes, shapes_of
from ..primitive import linear
from ..values.accumulation_types import computed_type, narrow_apart

__all__ = ["PRODUCT", "SUMMATION", "TABLE", "Accumulation", "accumulate"]

_MANY = 2**62
TABLE = (
    # On two cores of an EPYC, 32 MiB.
    Choice(
        "cpu",
        "row_by_row",
        {"row": range(1024, _MANY), "side_by_side": range(64, _MANY)},
        "4.2 ms of 2896x2896 of float32 along axis 0, plain 24; 5.2 of 4096x4096 of float16, plain 104",
    ),
    Choice(
        "cpu",
        "triangles",
        {"dtype": {"float16", "bfloat16", "float32"}, "side_by_side": {1}, "size": range(64, _MANY)},
        "10.5 ms of 2896x2896 of float32, plain 19; 13.6 of 4096x4096 of float16, plain 52",
    ),
    # On an H200, 128 to 256 MiB.
    Choice(
        "cuda",
        "turned",
        {"reverse": {True}, "is_sum": {True}, "aligned": {1, 2, 4, 8}},
        "1.4-1.9 times as fast as plain, for which XLA pads an axis to a multiple of 16. Products 1.0-1.1 times",
    ),
)
BLOCK = 32  # elements that one triangular matrix adds up


@dataclass(frozen=True)
class Accumulation:
    """How the elements along an axis are combined.

    Args:
      combine: the function of jax.lax that combines two elements.
      scan: the function of jax.lax that combines a whole axis.
      start: the result for no elements.
    """

    combine: Callable[[jax.Array, jax.Array], jax.Array]
    scan: Callable[..., jax.Array]
    start: int


SUMMATION = Accumulation(lax.add, lax.cumsum, 0)
PRODUCT = Accumulation(lax.mul, lax.cumprod, 1)
# Of 0 and 1 as int8, which never overflow.
_OF_BOOLS = {SUMMATION: Accumulation(lax.max, lax.cummax, 0), PRODUCT: Accumulation(lax.min, lax.cummin, 1)}


def accumulate(kind: Accumulation, x: jax.Array, axis: int, *, reverse: bool, exclusive: bool) -> jax.Array:
    """Combines, along an axis, the elements up to each one, or the elements before it if `exclusive`.

    Args:
      kind: SUMMATION or PRODUCT; of bools that is "or" and "and".
      x: numbers. Narrow floats are combined in float32, and each result is rounded once.
      axis: from 0 on.
      reverse: whether the last element comes first.
      exclusive: whether an element is left out of its own result.
    """
    is_bool = x.dtype == jnp.bool_
    kind, wide = (_OF_BOOLS[kind], np.dtype(np.int8)) if is_bool else (kind, computed_type(x.dtype))
    scan = _Scan(kind, axis, reverse, exclusive, wide)
    if kind is not SUMMATION or not jnp.issubdtype(x.dtype, jnp.floating):
        return choose_anywhere(scan.forms, TABLE, scan.case(x), forced_form())(x)
    if is_plain(scan.options(x), TABLE, forced_form()):
        return scan.by_tree(x)
    chosen = [_chosen(way, x) for way in (scan, replace(scan, reverse=not reverse))]
    return linear(lambda _, x: chosen[0](x), lambda _, cotangent, __: [chosen[1](cotangent)])(None, x)


def _chosen(scan: "_Scan", like: jax.Array) -> Callable[[jax.Array], jax.Array]:
    form, options = forced_form(), scan.options(*shapes_of(like))
    return lambda x: choose_form(options, TABLE, form)(None, x)


@dataclass(frozen=True)
class _Scan:
    """One call of `accumulate`; `wide` is the type in which elements are combined."""

    kind: Accumulation
    axis: int
    reverse: bool
    exclusive: bool
    wide: Any

    @property
    def forms(self) -> Mapping[str, Callable[[jax.Array], jax.Array]]:
        """Those that any number of devices run, and that have derivatives."""
        return {"plain": self.by_tree, "row_by_row": self.by_rows, "turned": self.turned}

    def case(self, x: Any) -> Mapping[str, Any]:
        """What the table asks for; `row` is all that a step combines, of which `side_by_side` lie side by side."""
        sizes, total = x.shape, known_bytes(x)
        side_by_side = prod(sizes[self.axis + 1 :]) if total else 0
        return {
            "bytes": 2 * total,
            "dtype": x.dtype.name,
            "reverse": self.reverse,
            "row": prod(sizes[: self.axis]) * side_by_side if total else 0,
            "side_by_side": side_by_side,
            "size": sizes[self.axis],
            "is_sum": self.kind is SUMMATION,
            "aligned": gcd(sizes[self.axis], 16) if total else 0,
        }

    def options(self, like: Any) -> Callable[[int], Options]:
        """The forms of a sum of floats."""
        sizes = like.shape[self.axis :]
        of_one = {"triangles": self.by_triangles} if known_bytes(like) and prod(sizes) == sizes[0] else {}

        def by_devices(devices: int) -> Options:
            forms = {**self.forms, **(of_one if devices == 1 else {})}
            return {name: _of_leaf(form) for name, form in forms.items()}, self.case(like)

        return by_devices

    def by_tree(self, x: jax.Array) -> jax.Array:
        # Narrowed last: XLA:GPU ends the process over pads of fewer than eight bits.
        found = self.kind.scan(x.astype(self.wide), axis=self.axis, reverse=self.reverse)
        return narrow_apart(self.shifted(found), x.dtype)

    def by_rows(self, x: jax.Array) -> jax.Array:
        def step(total: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
            total = self.kind.combine(total, row.astype(self.wide))
            return total, total.astype(x.dtype)

        rows = jnp.moveaxis(x, self.axis, 0)
        if not rows.shape[0]:
            return x
        _, found = lax.scan(step, jnp.full_like(rows[0], self.kind.start, self.wide), rows, reverse=self.reverse)
        return self.shifted(jnp.moveaxis(found, 0, self.axis))

    def turned(self, x: jax.Array) -> jax.Array:
        """XLA:GPU adds up from the last element on slower than it turns an array, twice."""
        if not self.reverse:
            return self.by_tree(x)
        return lax.rev(replace(self, reverse=False).by_tree(lax.rev(x, (self.axis,))), (self.axis,))

    def by_triangles(self, x: jax.Array) -> jax.Array:
        """Chunk by chunk, unless a row fills more than one."""

        def add(x: jax.Array) -> jax.Array:
            return _add_rows(self.shifted(x).reshape(-1, x.shape[self.axis]), self.reverse).reshape(x.shape)

        if cut_dimension(x.shape, self.wide) >= self.axis:
            return add(x.astype(self.wide)).astype(x.dtype)
        return map_chunks(lambda numbers, _: add(numbers).astype(x.dtype), x, self.wide)

    def shifted(self, x: jax.Array) -> jax.Array:
        """Makes what is exclusive of what is not: of the result, or of what is added up."""
        if not self.exclusive:
            return x
        shift: Sequence[Any] = (-1, 1, 0) if self.reverse else (1, -1, 0)
        edges = [shift if d == self.axis else (0, 0, 0) for d in range(x.ndim)]
        return lax.pad(x, jnp.asarray(self.kind.start, x.dtype), edges)


def _of_leaf(form: Callable[[jax.Array], jax.Array]) -> Callable[[Any, jax.Array], jax.Array]:
    return lambda _, x: form(x)


# Products with triangular matrices.


def _add_rows(rows: jax.Array, reverse: bool) -> jax.Array:
    """Cumulative sums of rows; where the numbers of all of them are finite, and their sum is, of blocks.

    A product with 0 would make NaN of an infinity.
    """
    n = rows.shape[1]

    @custom_vmap
    def add(rows: jax.Array) -> jax.Array:
        in_a_tree = lambda rows: lax.cumsum(rows, axis=1, reverse=reverse)  # noqa: E731
        is_safe = jnp.isfinite(jnp.sum(jnp.abs(rows)))
        return lax.cond(is_safe, lambda rows: _add_blocks(rows, reverse), in_a_tree, rows)

    @add.def_vmap
    def batched(_: int, __: Sequence[bool], rows: jax.Array) -> tuple[jax.Array, bool]:
        """One condition for all: of several, both branches would be computed."""
        return add(rows.reshape(-1, n)).reshape(rows.shape), True

    return add(rows)


def _add_blocks(rows: jax.Array, reverse: bool) -> jax.Array:
    """Each block starts with the sum of those before it, and is multiplied with a triangular matrix of ones."""
    count, n = rows.shape
    if n <= 2 * BLOCK:
        return _multiply(rows, reverse)
    edge = -n % BLOCK
    blocks = lax.pad(rows, np.zeros((), rows.dtype), [(0, 0, 0), (0, edge, 0)]).reshape(count, -1, BLOCK)
    sums = jnp.sum(blocks, 2)
    if reverse:
        entered = blocks[:, :-1, -1:] + _add_blocks(sums[:, 1:], reverse)[..., None]
        blocks = lax.dynamic_update_slice(blocks, entered, (0, 0, BLOCK - 1))
    else:
        entered = blocks[:, 1:, :1] + _add_blocks(sums[:, :-1], reverse)[..., None]
        blocks = lax.dynamic_update_slice(blocks, entered, (0, 1, 0))
    return _multiply(blocks.reshape(-1, BLOCK), reverse).reshape(count, n + edge)[:, :n]


def _multiply(rows: jax.Array, reverse: bool) -> jax.Array:
    n = rows.shape[1]
    triangle = np.tri(n, dtype=rows.dtype)
    return lax.dot(rows, triangle if reverse else triangle.T, precision=lax.Precision.HIGHEST)
