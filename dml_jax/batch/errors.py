"""The error of a job that cannot start or go on, where nothing is wrong with the operator."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["BatchError", "os_errors_told"]


class BatchError(Exception):
    """A file, a folder, a disk or another process stands in the way; what was done so far is kept."""


@contextmanager
def os_errors_told(path: Path, what: str, then: str = "") -> Iterator[None]:
    """Turns an OSError of the block into a BatchError.

    Args:
      path: the file that the block works on.
      what: cannot be done: "the progress cannot be written".
      then: what to do about it.
    """
    try:
        yield
    except OSError as error:
        raise BatchError(f"{path}: {what}: {error.strerror or error}{then and '; '}{then}") from None
