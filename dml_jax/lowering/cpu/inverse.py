"""Scatters of permuted rows as gathers on CPUs: XLA:CPU scatters in one thread, and gathers in all of them.

Updates to rows 2, 0, 1 are numbered 0, 1, 2. Stored where they go, the numbers say which update a row reads: 1, 2, 0.
"""

from functools import partial

import jax
from jax import lax

from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.scatter_reduce import ScatterReduceCase
from ...operations.scatter_rows import Rows
from ...operations.values.bit_exact import as_bits
from .long_loops import SHORT


def _read_inverse(case: ScatterReduceCase) -> Move | None:
    return partial(_read, case.rows) if case.is_permutation else None


def _read(rows: Rows, indices: jax.Array, updates: jax.Array) -> jax.Array:
    @as_bits
    def read(source: jax.Array, updates: jax.Array) -> jax.Array:
        return updates.at[lax.optimization_barrier(source)].get(mode="promise_in_bounds")  # else one per element

    return rows.unfold(read(rows.source_of_each(indices), rows.fold_updates(updates)))


def _pays(case: ScatterReduceCase) -> bool:
    """Rows are copied by vectors in either way, if LLVM does not unroll their loops."""
    return case.rows.width >= SHORT.stop and case.itemsize in (2, 4)


VARIANTS = (Variant("inverse", "scatter_reduce", "cpu", _read_inverse, _pays),)
