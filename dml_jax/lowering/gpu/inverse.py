"""Scatters of permuted rows as gathers on GPUs: each row of the result reads its one update.

Updates to rows 2, 0, 1 are numbered 0, 1, 2. Stored where they go, the numbers say which update each row reads:
1, 2, 0. So nothing is filled with zeros first, and narrow numbers are read by words.
"""

from functools import partial

import jax

from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant, known_bytes
from ...operations.scatter_reduce import ScatterReduceCase
from ...operations.scatter_rows import Rows
from ...operations.values.packed_words import from_words, lanes, to_words
from .memory_coalescing import BURST, CACHE


def _read_inverse(case: ScatterReduceCase) -> Move | None:
    return partial(_read, case.rows) if case.is_permutation else None


def _read(rows: Rows, indices: jax.Array, updates: jax.Array) -> jax.Array:
    source, folded = rows.source_of_each(indices), rows.fold_updates(updates)
    if rows.width % lanes(updates.dtype):
        return rows.unfold(folded.at[source].get(mode="promise_in_bounds"))
    return rows.unfold(from_words(to_words(folded).at[source].get(mode="promise_in_bounds"), updates.dtype))


def _pays(case: ScatterReduceCase) -> bool:
    """A read of fewer bytes than memory gives at once wastes the others. What a cache holds is filled there."""
    return case.row_bytes >= BURST and known_bytes(case.updates) >= 2 * CACHE


VARIANTS = (Variant("inverse", "scatter_reduce", "cuda", _read_inverse, _pays),)
