"""Sums of scattered 8 and 16-bit integers as 32-bit ones, to which a GPU adds by atomic operations.

For parts of a word XLA:GPU makes a loop that compares and swaps words until no other thread came between, as it does
for products of any width. As the lower bits of a sum follow from those of its terms, 200 + 100 in 32 bits is 300, whose
lower 8 bits are 44, as they are of the sum in 8 bits.
"""

from functools import partial

import jax
import jax.numpy as jnp

from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.scatter_combiners import ADD
from ...operations.scatter_reduce import ScatterReduceCase
from ...operations.scatter_rows import Rows

SEVERAL = 4  # updates for each row: with fewer, to widen the table takes longer than the threads wait


def _add_words(case: ScatterReduceCase) -> Move | None:
    is_narrow = not case.is_float and case.itemsize < 4 and case.updates.dtype != jnp.bool_
    return partial(_add, case.rows) if is_narrow and case.may_meet and case.reduction is ADD else None


def _add(rows: Rows, indices: jax.Array, *data: jax.Array) -> jax.Array:
    *table, updates = data
    dtype = updates.dtype
    wide = jnp.uint32 if jnp.issubdtype(dtype, jnp.unsignedinteger) else jnp.int32
    into = table[0].astype(wide) if table else jnp.zeros(rows.shape, wide)
    return ADD.scatter(into, indices, updates.astype(wide), rows.write.numbers, **rows.write.promises).astype(dtype)


def _pays(case: ScatterReduceCase) -> bool:
    """Where threads come between: several updates for each row."""
    return case.number >= SEVERAL * case.rows.count


VARIANTS = (Variant("int32_atomics", "scatter_reduce", "cuda", _add_words, _pays),)
