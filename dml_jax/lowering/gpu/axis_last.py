"""gather_elements on GPUs with the indexed axis moved last, and back: reads that lie together share cache lines.

With indices [[2, 0], [0, 1]] along axis 0 of [[1, 2], [3, 4], [5, 6]], the elements of a column lie a row apart. In the
transpose [[1, 3, 5], [2, 4, 6]] the reads of a row stay in that row: [[5, 1], [2, 4]], and the result is its transpose.
"""

from dataclasses import replace
from functools import partial

import jax
from jax import lax

from ...operations.gather import GatherCase, Read
from ...operations.gather_scatter_dimension_numbers import Slices
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import as_bits, is_float8
from .memory_coalescing import CACHE, WARP

MEMORY = 8 * 2**30  # bytes of operands: as many are needed once more


def _read_elements(case: GatherCase) -> Move | None:
    is_along = case.read.slices.kind == "elements" and case.axis < case.input.ndim - 1
    return as_bits(partial(_read_last, case.read), is_float8) if is_along else None


def _pays(case: GatherCase) -> bool:
    """A column of indices reads all over a slab, one transaction for each read beyond the cache; a warp reads a row."""
    is_far = case.slab_bytes > CACHE and case.bytes < MEMORY and not case.is_sorted
    return is_far and case.itemsize <= 4 and case.input.shape[case.axis] >= WARP


def _read_last(read: Read, indices: jax.Array, input: jax.Array) -> jax.Array:
    (axis,), last = read.slices.indexed, input.ndim - 1
    order, others = [*(d for d in range(input.ndim) if d != axis), axis], tuple(range(last))
    rows = replace(read, slices=Slices(input.ndim, (last,), others, others), indices_are_sorted=False)
    turned = [_store(array.transpose(order)) for array in (indices[..., 0], input)]
    result = _store(rows(turned[0][..., None], turned[1]))
    return result.transpose([order.index(d) for d in range(input.ndim)])


def _store(array: jax.Array) -> jax.Array:
    """The array in row-major order of its own: flat, as XLA could choose another order for more dimensions."""
    return lax.optimization_barrier(array.reshape(-1)).reshape(array.shape)


VARIANTS = (Variant("axis_last", "gather", "cuda", _read_elements, _pays),)
