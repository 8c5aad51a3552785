"""Gathers of short rows on CPUs: bounds in the loop make it too long for LLVM to unroll, and so it is vectorised.

LLVM unrolls a loop if its length times the cost of its body is at most 300, and vectorises no loop that it has
unrolled. A copy of 64 elements costs 64 * 4. A minimum or a maximum costs 2 more, and hardly any time once vectorised.
"""

from functools import partial
from math import ceil

import jax
import jax.numpy as jnp

from ...operations.gather import GatherCase, Read
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import never_one
from ...operations.values.packed_words import as_unsigned, from_unsigned, has_unsigned

# Elements of a row: longer ones are vectorised anyway; of shorter ones a vector or two gain by bounds (gather's table).
SHORT = range(32, 77)
SHORTEST = 16  # elements of a row: shorter ones pass as many bounds as these
_UNROLLED, _COPY, _BOUND = 340, 4, 2  # costs to LLVM of a loop, with a margin, of a copy, of a minimum


def _within_bounds(rows: jax.Array, zero: jax.Array) -> jax.Array:
    """Clamps unsigned integers to [0, the greatest of the type], which changes none.

    Args:
      rows: the loop copies along their last dimension.
      zero: of `never_one`.
    """
    least = zero.astype(rows.dtype)
    for number in range(ceil((_UNROLLED / max(SHORTEST, rows.shape[-1]) - _COPY) / _BOUND)):
        rows = jnp.maximum(rows, least) if number % 2 else jnp.minimum(rows, ~least)
    return rows


def _read_long(read: Read, dims: int, indices: jax.Array, input: jax.Array) -> jax.Array:
    """The read of slices whose last `dims` dimensions are whole, within bounds."""
    rows, of_rows = read.of_rows(input, dims)
    copied = _within_bounds(of_rows(indices, as_unsigned(rows)), never_one(indices.reshape(-1)[0]))
    return from_unsigned(copied, input.dtype).reshape(*copied.shape[:-1], *input.shape[input.ndim - dims :])


def _read_rows(case: GatherCase) -> Move | None:
    can = case.row_dims and has_unsigned(case.input.dtype)
    return partial(_read_long, case.read, case.row_dims) if can else None


def _pays(case: GatherCase) -> bool:
    """Vectors take eight narrow elements at a time; the rest of a row passes the bounds one by one."""
    return case.width in SHORT or (case.itemsize <= 2 and SHORTEST <= case.width < SHORT.start and case.width % 8 == 0)


VARIANTS = (Variant("long_loops", "gather", "cpu", _read_rows, _pays),)
