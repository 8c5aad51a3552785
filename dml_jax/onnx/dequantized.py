"""`Dequantized`: the floats of a DequantizeLinear, whose integers other operators can use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from .deferred import Deferred
from .values import Array


@dataclass(frozen=True, eq=False)
class Dequantized(Deferred):
    """(q - zero_point) * scale, computed only where an operator needs floats.

    Args:
      q: the integers.
      scale: a number, or an array of the rank of `q`.
      zero_point: as `scale`; None is 0.
      kind: the type of the floats.
    """

    q: Array
    scale: Array
    zero_point: Array | None
    kind: np.dtype[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.kind

    @property
    def shape(self) -> tuple[int, ...]:
        return self.q.shape

    @property
    def transposed(self) -> Self:
        zero_point = None if self.zero_point is None else self.zero_point.T
        return replace(self, q=self.q.T, scale=self.scale.T, zero_point=zero_point)
