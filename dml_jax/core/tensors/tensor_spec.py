"""`TensorSpec`: an input as a model describes it. Its sizes may be open; those of a `TensorDesc` never are.

It has a file of its own because the command describes inputs before it imports JAX, which `tensor.py` needs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import escaped


@dataclass(frozen=True)
class TensorSpec:
    """An input of a model, before there is an array for it.

    Args:
      name: in the model.
      dtype: of the elements.
      sizes: one entry per dimension: a number, the name of an open size, or None if any number will do. None in place
        of the tuple if any rank will do.
    """

    name: str
    dtype: np.dtype[Any]
    sizes: tuple[int | str | None, ...] | None

    @property
    def open_sizes(self) -> tuple[str, ...]:
        """The sizes that the model leaves open, in words."""
        if self.sizes is None:
            return (f"all of input {self.name!r}",)
        is_open = [(d, n) for d, n in enumerate(self.sizes) if not isinstance(n, int)]
        return tuple(f"{repr(n) if n else f'dimension {d}'} of input {self.name!r}" for d, n in is_open)

    def __str__(self) -> str:
        shown = ("?" if n is None else escaped(str(n)) for n in self.sizes or ())
        return f"{escaped(self.name)}: {self.dtype}" + ("" if self.sizes is None else f"[{', '.join(shown)}]")
