"""Reductions of few rows beside a large table of narrow numbers on CPUs, which is written in place if it is donated.

The table is otherwise encoded as a whole, in memory that the C library takes fresh from the system, and decoded.
"""

from functools import partial

from ..plain.scatter_reduce import ScatterReduceCase
from ..plain.sorted_segments import reduce_segments
from ..primitive import Move
from ..select import Variant
from .cache_chunks import FRESH

__all__ = ["VARIANTS"]


def _sort(case: ScatterReduceCase) -> Move | None:
    return partial(reduce_segments, case.rows, case.reduction) if case.is_float and case.may_meet else None


def _pays(case: ScatterReduceCase) -> bool:
    return case.is_few and case.wide_bytes >= FRESH


VARIANTS = (Variant("sorted_segments", "scatter_reduce", "cpu", _sort, _pays),)
