"""Scatter-adds by sorted segments on GPUs: no table in float32, and no addition that waits for another one.

A table of 16-bit floats is otherwise filled, added to and rounded in float32, three passes over twice its bytes. Where
that leaves the second cache, sorting the updates by row costs less: see operations/sorted_segments.py, with an example.
"""

from ...operations.programs.variant_selection import Variant
from ...operations.scatter_reduce import ScatterReduceCase
from .memory_coalescing import CACHE, WARP, WORD


def _pays(case: ScatterReduceCase) -> bool:
    """Sorting costs by the update, and gains by the bytes of a row, if the cache holds less than half of the table."""
    is_far = case.is_narrow and case.takes_rows and case.reduction.rounds and case.wide_table_bytes > 2 * CACHE
    return case.is_few or (is_far and case.number <= case.rows.count and case.row_bytes >= WARP * WORD)


VARIANTS = (Variant("sorted_segments", "scatter_reduce", "cuda", lambda case: case.segments, _pays),)
