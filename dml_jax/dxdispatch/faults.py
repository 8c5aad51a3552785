"""`Fault`: one mistake in a model file, with its place and its line."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConstraintError, escaped_lines, located


@dataclass(frozen=True)
class Fault:
    """One fault of a model.

    Args:
      where: such as "dispatchable 'depth'".
      what: the message.
      line: of the file, from 1; None of the file as a whole.
    """

    where: str
    what: str
    line: int | None = None

    @classmethod
    def of(cls, error: ConstraintError, line: int | None = None) -> "Fault":
        """Makes a fault of an error and the outermost place that it names."""
        place, *inner = error.where or ("",)
        return cls(place, located(error.what, inner), line)

    def at(self, path: Path) -> str:
        """Returns the fault with the file and the line before it, as compilers print it: "model.json:12: ..."."""
        return f"{path}:{self.line}: {self}" if self.line else f"{path}: {self}"

    def __str__(self) -> str:
        return escaped_lines(f"{self.where}: {self.what}" if self.where else self.what)


class ModelError(ConstraintError):
    """A model file has faults; `faults` lists all of them."""

    def __init__(self, path: Path, faults: list[Fault]):
        super().__init__("\n".join(fault.at(path) for fault in faults))
        self.path, self.faults = path, faults

    def __reduce__(self) -> Any:
        return type(self), (self.path, self.faults)


@contextmanager
def faults_at(path: Path, where: str) -> Iterator[None]:
    """Makes an error in the block a fault of a model file, at a place in it."""
    try:
        yield
    except ConstraintError as error:
        raise ModelError(path, [Fault(where, str(error))]) from None
