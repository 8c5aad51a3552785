"""What is wrong with a model file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConstraintError, located

__all__ = ["Fault", "ModelError"]


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a model: where, such as "dispatchable 'depth'", and what."""

    where: str
    what: str

    @classmethod
    def of(cls, error: ConstraintError) -> "Fault":
        """What an error says, and the outermost place that it names."""
        place, *inner = error.where or ("",)
        return cls(place, located(error.what, inner))

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class ModelError(ConstraintError):
    """A model file has faults; `faults` lists all of them."""

    def __init__(self, path: Path, faults: list[Fault]):
        super().__init__("\n".join(f"{path}: {fault}" for fault in faults))
        self.path, self.faults = path, faults

    def __reduce__(self) -> Any:
        return type(self), (self.path, self.faults)
