"""Cumulative sums, reductions and products on CPUs row by row: a step of a loop adds all numbers side by side.

XLA:CPU scans an axis in a tree, whose levels each pass over memory, and reduces one in blocks of few numbers. For
[[1, 2, 3], [4, 5, 6], [7, 8, 9]] along axis 0, two steps make [5, 7, 9] and [12, 15, 18], and each number is read once,
with vectors. The product of [3, 4] with [[5, 1], [6, 2]] is 3 * [5, 1] + 4 * [6, 2]; XLA:CPU's library orders a matrix
of int8 anew in every call, which takes longer than a row or two of products.
"""

from collections.abc import Sequence
from functools import partial, reduce
from math import prod
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from ...operations.axis_operations import AxisCase, AxisOperation
from ...operations.cumulative import CumulativeCase
from ...operations.integer_product import IntegerProductCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from .cache_chunks import is_converted, to_image, to_numbers, widened_slice
from .machine import FRESH
from .unhoisted_loop import unhoisted_loop

LEAST = 64  # numbers side by side that fill cache lines, of any type: a step with fewer reads lines for few numbers
ROW = 1024  # numbers side by side: of fewer, the chunks that a cache keeps have rows enough
STEP = 4  # rows of products that a step adds: of more, LLVM may read single elements
FEW = 2  # rows, for which a matrix is widened in no more time than to order it anew


# Cumulative sums and products.


def _scan_rows(case: CumulativeCase, _: None, x: jax.Array) -> jax.Array:
    def step(total: jax.Array, image: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = case.kind.combine(total, to_numbers(image, x.dtype).astype(case.wide))
        return total, to_image(total.astype(x.dtype))

    rows = jnp.moveaxis(to_image(x), case.axis, 0)
    start = jnp.full_like(rows[0], case.kind.start, case.wide)
    images = lax.scan(step, start, rows, reverse=case.reverse)[1]
    return case.shifted(to_numbers(jnp.moveaxis(images, 0, case.axis), x.dtype))


# Reductions along one axis.


def _fold(case: AxisCase) -> Move | None:
    can = case.operation.combine and len(case.axes) == 1
    return partial(_fold_rows, case.operation, case.axes[0]) if can else None


def _fold_rows(operation: AxisOperation, axis: int, _: None, x: jax.Array) -> jax.Array:
    combine, join, sizes = operation.combine, operation.join, operation.result.shape
    assert combine
    assert join

    def row(array: jax.Array, at: Any) -> Any:
        starts = [jnp.asarray(at) if d == axis else jnp.zeros_like(at) for d in range(x.ndim)]
        return operation.part(widened_slice(array, starts, sizes, operation.wide), starts)

    def step(turn: Any, total: Any, array: jax.Array) -> Any:
        return combine(total, row(array, turn))

    return join(unhoisted_loop(1, x.shape[axis], step, row(x, 0), x))


def _widens_rows(case: AxisCase) -> bool:
    """Rows that XLA would otherwise write widened, or read twice; float8 takes longer to widen than to write."""
    if case.side_by_side < ROW:
        return False
    is_written = is_converted(case) and (case.input.dtype.itemsize > 1 or case.wide_bytes >= FRESH)
    return is_written or (case.operation.kind == "extreme" and case.input.dtype == case.operation.wide)


# Products of few rows with a matrix of int8.


def _multiply(case: IntegerProductCase) -> Move | None:
    """A batch of rows is more rows, whose product is the plain one."""
    *batch, depth, _ = case.b.shape
    if prod(batch) != 1 or prod(case.a.shape[:-1]) > FEW:
        return None

    @custom_vmap
    def multiply(b: Any, a: jax.Array, *p: jax.Array) -> jax.Array:
        matrix = jnp.asarray(case.known if b is None else b).reshape(depth, -1)
        rows = a.astype(np.int32) - p[0] if p else a.astype(np.int32)
        return _add_rows(matrix, rows.reshape(-1, depth)).reshape(case.result.shape)

    @multiply.def_vmap
    def batched(_: int, are_batched: Sequence[Any], *operands: Any) -> tuple[jax.Array, bool]:
        axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(are_batched))
        return jax.vmap(case.plain, axes)(*operands), True

    return multiply


def _has_wide_rows(case: IntegerProductCase) -> bool:
    """XLA keeps some constants transposed: for narrow ones a loop takes longer than their products."""
    return case.b.shape[-1] >= (LEAST if case.known is None else 4 * LEAST)


@jax.jit  # outside of which a constant matrix would be compiled into a program for each call
def _add_rows(matrix: jax.Array, rows: jax.Array) -> jax.Array:
    """rows @ matrix, [M, K] by [K, N], in int32."""
    step, cut = STEP // len(rows), partial(lax.dynamic_slice_in_dim, slice_size=1)
    first = (len(matrix) - 1) % step + 1

    def total(at: Any, count: int) -> jax.Array:
        places = (at + number for number in range(count))
        return reduce(add, (cut(rows, k, axis=1) * cut(matrix, k).astype(np.int32) for k in places))

    count = (len(matrix) - first) // step
    return lax.fori_loop(0, count, lambda at, sums: sums + total(first + at * step, step), total(0, first))


# On one device only: devices that share the axis would send each other every row.
VARIANTS = (
    Variant(
        "row_by_row",
        "cumulative",
        "cpu",
        lambda case: partial(_scan_rows, case),
        lambda case: case.side_by_side >= LEAST,
    ),
    Variant("row_by_row", "axis_operation", "cpu", _fold, _widens_rows),
    Variant("row_by_row", "integer_product", "cpu", _multiply, _has_wide_rows),
)
