"""The benchmark of every operator: families of operators that share shapes and peers, one file each.

An operator without a row in these tables is measured on the example of its docstring, grown. Plans generate the cases
of all operators; most take about how many bytes the data has.
"""

from collections.abc import Iterator, Mapping
from functools import partial

from ...catalogue import FUNCTIONS
from ..case import Case
from . import (
    elementwise,
    fills,
    gathers,
    layers,
    layouts,
    pictures,
    pooling,
    reductions,
    resizing,
    scatters,
    strided,
    windows,
)
from .examples import grown
from .subject import Subject

__all__ = ["FAMILIES", "SUBJECTS", "full", "quick", "real", "small", "sweep"]

FAMILIES = (
    elementwise,
    fills,
    gathers,
    layers,
    layouts,
    pictures,
    pooling,
    reductions,
    resizing,
    scatters,
    strided,
    windows,
)
_ROWS = {name: subject for family in FAMILIES for name, subject in family.SUBJECTS.items()}
SUBJECTS: Mapping[str, Subject] = {name: _ROWS.get(name) or Subject(plans=grown(name)) for name in FUNCTIONS}


def _of_all(plan: str, size: int) -> Iterator[Case]:
    for subject in SUBJECTS.values():
        yield from subject.plans[plan](size) if plan in subject.plans else ()


# A few cases of every operator, 4 MB each.
quick = partial(_of_all, "quick", 2**22)
# Every operator, data type and layout.
full = partial(_of_all, "full")
# Shapes of real programs, with "real" in their names; batches as large as the data may be.
real = partial(_of_all, "real")
# 1 KB, where the call itself is what takes time.
small = partial(_of_all, "small", 2**10)


def sweep(largest: int) -> Iterator[Case]:
    """Sizes from 16 KB on, four times as much each time."""
    size = 2**14
    while size <= largest:
        yield from _of_all("sweep", size)
        size *= 4
