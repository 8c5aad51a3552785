"""Scatter-adds by sorted segments on GPUs: no table in float32, and no addition that waits for another one.

A table of 16-bit floats is otherwise filled, added to and rounded in float32, three passes over twice its bytes. Where
that leaves the second cache, sorting the updates by row costs less: see operations/sorted_segments.py, with an example.
"""

from math import prod

from ...operations.programs.variant_selection import Variant
from ...operations.scatter_reduce import ScatterReduceCase
from .memory_coalescing import CACHE, STORE, WARP, WORD

SORTING = 10 * CACHE  # bytes that memory moves while updates are sorted, and their sums begun


def _pays(case: ScatterReduceCase) -> bool:
    """Rows of some length; few are added to a table that is there where it is, without a copy in float32."""
    return case.takes_rows and case.row_bytes >= WARP * WORD and (case.is_few or _makes_table(case))


def _makes_table(case: ScatterReduceCase) -> bool:
    """Threads read whole vectors of rows, unless XLA would write an odd number of elements one at a time.

    Sorting gains by the bytes of the table, and more if few updates meet it: the rest is written once.
    """
    is_rounded = case.is_narrow and case.reduction.rounds and case.number <= case.rows.count
    is_fast = case.row_bytes % STORE == 0 or prod(case.rows.shape) % 2 == 1
    saved = case.wide_table_bytes * (2 if case.has_few_updates else 1)
    return is_rounded and is_fast and saved > SORTING


VARIANTS = (Variant("sorted_segments", "scatter_reduce", "cuda", lambda case: case.segments, _pays),)
