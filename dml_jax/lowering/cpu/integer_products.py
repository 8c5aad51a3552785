"""Products of int8 on CPUs: of one row in one pass over the matrix, of more with a row of ones for sums of columns.

XLA:CPU's library orders the matrix anew in every call, which takes longer than to multiply it by one row. LLVM
vectorises a loop instead, a step of which adds a few rows of the matrix to all columns:

    [3, 4] @ [[5, 1],    =  3 * [5, 1] + 4 * [6, 2]  =  [39, 11]
              [6, 2]]

A product of more rows with a zero point needs the sums of the columns, too. A row of ones has them from the library,
which reads the matrix anyway; XLA:CPU takes longer to add up int8 than to multiply them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from ...operations.integer_product import IntegerProductCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.xla_workarounds import int8_product
from .machine import LINE

STEP = 4  # rows of the matrix that a step adds: of more, LLVM may read single elements


def _multiply(case: IntegerProductCase) -> Move | None:
    if case.devices > 1:
        return None
    if case.has_one_row and case.b.shape[-1] >= LINE:
        return _one_row(case)
    return _append_ones if case.has_zero_point and case.known is None else None


def _one_row(case: IntegerProductCase) -> Move:
    """A batch of rows is more rows, whose product is the plain one."""

    @custom_vmap
    def multiply(b: Any, a: jax.Array, *p: jax.Array) -> jax.Array:
        matrix = jnp.asarray(case.known if b is None else b).reshape(case.b.shape[-2:])
        row = a.reshape(1, -1).astype(np.int32)
        row = row - p[0].reshape(1, 1) if p else row
        return _add_rows(matrix, row).reshape(case.result.shape)

    @multiply.def_vmap
    def batched(_: int, are_batched: Sequence[Any], *operands: Any) -> tuple[jax.Array, bool]:
        axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(are_batched))
        return jax.vmap(case.plain, axes)(*operands), True

    return multiply


@jax.jit  # outside of which a constant matrix would be compiled into a program for each call
def _add_rows(matrix: jax.Array, row: jax.Array) -> jax.Array:
    """row @ matrix, [1, K] by [K, N]."""
    first = (len(matrix) - 1) % STEP + 1

    cut = partial(lax.dynamic_slice_in_dim, slice_size=1)

    def total(at: Any, count: int) -> jax.Array:
        places = (at + number for number in range(count))
        return reduce(add, (cut(row, k, axis=1) * cut(matrix, k).astype(np.int32) for k in places))

    steps = (len(matrix) - first) // STEP
    return lax.fori_loop(0, steps, lambda at, sums: sums + total(first + at * STEP, STEP), total(0, first))


def _append_ones(b: jax.Array, a: jax.Array, p: jax.Array) -> jax.Array:
    """[[3, 4], [1, 1]] by [[5], [6]] is 39, and the sum 11."""
    ones = jnp.ones((*a.shape[:-2], 1, a.shape[-1]), a.dtype)
    product = int8_product(jnp.concatenate([a, ones], -2), b)
    return product[..., :-1, :] - p * product[..., -1:, :]


VARIANTS = (Variant("integer_products", "integer_product", "cpu", _multiply, lambda _: True),)
