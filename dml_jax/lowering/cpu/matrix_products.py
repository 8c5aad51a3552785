"""Sums as products with matrices of ones, for which CPUs have the fastest loops.

The cumulative sums of [1, 2, 3] are its product with a triangle of ones:

              [[1, 1, 1],
    [1, 2, 3]  [0, 1, 1],  =  [1, 3, 6]
               [0, 0, 1]]

Longer rows are cut into blocks, each of which starts with the sum of those before it.

A product of int8 needs sums of columns where there is a zero point. A row of ones has them, in the product that reads
the matrix anyway; XLA:CPU takes longer to add up int8 than to multiply them.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from ...operations.cumulative import SUMMATION, CumulativeCase
from ...operations.integer_product import IntegerProductCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.xla_workarounds import int8_product
from .cache_chunks import cut_dimension, map_chunks

BLOCK = 32  # elements that one triangular matrix adds up


def _scan(case: CumulativeCase) -> Move | None:
    """Cumulative sums of floats along the last axis, apart from axes of size 1."""
    is_sum = case.kind is SUMMATION and jnp.issubdtype(case.input.dtype, jnp.floating)
    return partial(_add_chunks, case) if is_sum and case.side_by_side == 1 else None


def _add_chunks(case: CumulativeCase, _: None, x: jax.Array) -> jax.Array:
    """Chunk by chunk, unless a row fills more than one."""

    def add(numbers: jax.Array, _: Any = None) -> jax.Array:
        rows = case.shifted(numbers).reshape(-1, case.size)
        return _add_rows(rows, case.reverse).reshape(numbers.shape).astype(x.dtype)

    is_cut = cut_dimension(x.shape, case.wide) >= case.axis
    return add(x.astype(case.wide)) if is_cut else map_chunks(add, x, case.wide)


def _has_blocks(case: CumulativeCase) -> bool:
    """Products of matrices of float64 take twice as long."""
    return case.wide == jnp.float32 and case.size >= BLOCK


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


def _multiply_int8(case: IntegerProductCase) -> Move | None:
    """Of a matrix that is no constant, whose sums would be known."""
    return _append_ones if case.has_zero_point and case.known is None else None


def _append_ones(b: jax.Array, a: jax.Array, p: jax.Array) -> jax.Array:
    """[[3, 4], [1, 1]] by [[5], [6]] is 39, and the sum 11."""
    ones = jnp.ones((*a.shape[:-2], 1, a.shape[-1]), a.dtype)
    product = int8_product(jnp.concatenate([a, ones], -2), b)
    return product[..., :-1, :] - p * product[..., -1:, :]


VARIANTS = (
    Variant("matrix_products", "cumulative", "cpu", _scan, _has_blocks),
    Variant("matrix_products", "integer_product", "cpu", _multiply_int8, lambda _: True),
)
