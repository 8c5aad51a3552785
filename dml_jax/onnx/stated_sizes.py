"""`Maximum`: the sizes that `to_jax(maximum=...)` states of outputs whose sizes depend on data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.core import Tracer

from .errors import NotConstantError


@dataclass(frozen=True)
class Maximum:
    """The stated sizes of the outputs of a node.

    Args:
      outputs: names of the outputs.
      sizes: those that are stated, by name.
    """

    outputs: tuple[str, ...]
    sizes: Mapping[str, int]

    @property
    def stated(self) -> list[int]:
        """All stated sizes of the outputs."""
        return [self.sizes[name] for name in self.outputs if name in self.sizes]

    @property
    def name(self) -> str:
        """Of the first output that has one: by it, the size of the outputs is stated."""
        return next(filter(None, self.outputs), "")

    def of(self) -> int | None:
        """Returns the stated size of the outputs; None if there is none."""
        return self.sizes.get(self.name)

    def known(self, name: str, value: Any, decides: str) -> np.ndarray:
        """Returns a value that must be known, because no size is stated.

        Raises:
          NotConstantError: it depends on data that is being traced.
        """
        if not isinstance(value, Tracer):
            return np.asarray(value)
        raise NotConstantError(
            f"{name} must be known under jax.jit, because it decides {decides}, but it depends on the data of an "
            f"input, or on a parameter that is given; to_jax(model, maximum={{{self.name!r}: 100}}) states 100"
        )
