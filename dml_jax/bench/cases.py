"""The cases of every operator, by plan: generators, most of which take about how many bytes the data has."""

from collections.abc import Iterator
from functools import partial

from .case import Case
from .subjects import SUBJECTS

__all__ = ["full", "quick", "real", "small", "sweep"]


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
