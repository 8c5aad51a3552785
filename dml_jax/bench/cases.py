"""What is measured: the cases of every operator."""

from collections.abc import Iterator

from .case import Case
from .subjects import SUBJECTS

__all__ = ["full", "quick", "real", "small", "sweep"]


def quick() -> Iterator[Case]:
    """A few cases of every operator, 4 MB each."""
    return _of_all("quick", 2**22)


def full(size: int) -> Iterator[Case]:
    """Every operator, data type and layout.

    Args:
      size: bytes of the data, about.
    """
    return _of_all("full", size)


def real(size: int) -> Iterator[Case]:
    """Shapes of real programs, with "real" in their names; batches as large as the data may be."""
    return _of_all("real", size)


def small() -> Iterator[Case]:
    """1 KB, where the call itself is what takes time."""
    return _of_all("small", 2**10)


def sweep(largest: int) -> Iterator[Case]:
    """Sizes from 16 KB on, four times as much each time."""
    size = 2**14
    while size <= largest:
        yield from _of_all("sweep", size)
        size *= 4


def _of_all(plan: str, size: int) -> Iterator[Case]:
    for subject in SUBJECTS.values():
        yield from subject.plans[plan](size) if plan in subject.plans else ()
