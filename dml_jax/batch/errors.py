"""`BatchError`: a job cannot start or go on, though the operator is right."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class BatchError(Exception):
    """A file, a folder, a disk or another process stops the job; its finished rows are kept."""


@contextmanager
def os_errors_told(path: Path, what: str, then: str = "") -> Iterator[None]:
    """Context manager that turns an OSError into a BatchError.

    Args:
      path: the file that the block works on.
      what: cannot be done: "the progress cannot be written".
      then: what to do about it.
    """
    try:
        yield
    except OSError as error:
        raise BatchError(f"{path}: {what}: {error.strerror or error}{then and '; '}{then}") from None
