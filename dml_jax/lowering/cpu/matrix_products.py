"""Sums as products with matrices of ones, for which CPUs have the fastest loops.

The cumulative sums of [1, 2, 3] are its product with a triangle of ones:

              [[1, 1, 1],
    [1, 2, 3]  [0, 1, 1],  =  [1, 3, 6]
               [0, 0, 1]]

Longer rows are cut into blocks, each of which starts with the sum of those before it.
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
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from .cache_chunks import cut_dimension, map_chunks

BLOCK = 32  # elements that one triangular matrix adds up


def _scan(case: CumulativeCase) -> Move | None:
    """Sums of floats along what is the last axis but for sizes of 1."""
    is_sum = case.kind is SUMMATION and jnp.issubdtype(case.input.dtype, jnp.floating)
    return partial(_add_chunks, case) if is_sum and case.side_by_side == 1 and case.devices == 1 else None


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


VARIANTS = (Variant("matrix_products", "cumulative", "cpu", _scan, _has_blocks),)
