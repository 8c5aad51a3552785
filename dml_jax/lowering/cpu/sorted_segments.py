"""Reducing scatters of few rows by sorted segments on CPUs: a large donated table is written in place.

The table is otherwise encoded as a whole, in memory that the C library takes fresh from the system, and decoded.
"""

from ...operations.programs.variant_selection import Variant
from ...operations.scatter_reduce import ScatterReduceCase
from .machine import FRESH


def _pays(case: ScatterReduceCase) -> bool:
    return case.is_few and case.wide_bytes >= FRESH


VARIANTS = (Variant("sorted_segments", "scatter_reduce", "cpu", lambda case: case.segments, _pays),)
