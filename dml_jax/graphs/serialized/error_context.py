"""Adds the place in a graph to errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import ConstraintError


@contextmanager
def at(*where: str) -> Iterator[None]:
    """Raises the errors of the block as those of `where`."""
    try:
        yield
    except ConstraintError as error:
        raise error.at(*where) from None
