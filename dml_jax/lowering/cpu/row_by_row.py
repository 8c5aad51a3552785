"""Cumulative sums and reductions on CPUs row by row: a step of a loop adds all numbers side by side, with vectors.

XLA:CPU scans an axis in a tree, whose levels each pass over memory, and reduces one in blocks of few numbers. For
[[1, 2, 3], [4, 5, 6], [7, 8, 9]] along axis 0, two steps make [5, 7, 9] and [12, 15, 18], and each number is read once.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...operations.axis_operations import AxisCase, AxisOperation
from ...operations.cumulative import CumulativeCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from .cache_chunks import is_converted, to_image, to_numbers, widened_slice
from .machine import FRESH

LEAST = 64  # numbers side by side that fill cache lines, of any type: a step with fewer reads lines for few numbers
ROW = 1024  # numbers side by side: of fewer, the chunks that a cache keeps have rows enough


# Cumulative sums and products.


def _scan(case: CumulativeCase) -> Move | None:
    """On one device only: devices that share the axis would send each other every row."""
    return partial(_scan_rows, case) if case.devices == 1 else None


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
    can = case.operation.combine and len(case.axes) == 1 and case.devices == 1
    return partial(_fold_rows, case.operation, case.axes[0]) if can else None


def _fold_rows(operation: AxisOperation, axis: int, _: None, x: jax.Array) -> jax.Array:
    combine, join, sizes = operation.combine, operation.join, operation.result.shape
    assert combine
    assert join

    def row(array: jax.Array, at: Any) -> Any:
        starts = [jnp.asarray(at) if d == axis else jnp.zeros_like(at) for d in range(x.ndim)]
        return operation.part(widened_slice(array, starts, sizes, operation.wide), starts)

    def step(turn: Any, carried: Any) -> Any:
        array, total = carried
        turn, now = lax.optimization_barrier((turn, array))  # as in map_chunks
        return array, combine(total, row(now, turn))

    return join(lax.fori_loop(1, x.shape[axis], step, (x, row(x, 0)))[1])


def _widens_rows(case: AxisCase) -> bool:
    """Rows that XLA would otherwise write widened, or read twice; float8 takes longer to widen than to write."""
    if case.side_by_side < ROW:
        return False
    is_written = is_converted(case) and (case.input.dtype.itemsize > 1 or case.wide_bytes >= FRESH)
    return is_written or (case.operation.kind == "extreme" and case.input.dtype == case.operation.wide)


VARIANTS = (
    Variant("row_by_row", "cumulative", "cpu", _scan, lambda case: case.side_by_side >= LEAST),
    Variant("row_by_row", "axis_operation", "cpu", _fold, _widens_rows),
)
