"""`Dequantized`: the floats of a DequantizeLinear, whose integers other operators can use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from .byte_functions import ByteFunction
from .deferred import Deferred, plain
from .values import Array


@dataclass(frozen=True, eq=False)
class Dequantized(Deferred):
    """(q - zero_point) * scale, computed only where an operator needs floats.

    Args:
      integers: q, which may be a function of other bytes.
      scale: a number, or an array of the rank of q.
      zero_point: as `scale`; None is 0.
      kind: the type of the floats.
    """

    integers: Array | ByteFunction
    scale: Array
    zero_point: Array | None
    kind: np.dtype[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.kind

    @property
    def shape(self) -> tuple[int, ...]:
        return self.integers.shape

    @property
    def q(self) -> Array:
        return plain(self.integers)

    @property
    def transposed(self) -> Self:
        zero_point = None if self.zero_point is None else self.zero_point.T
        return replace(self, integers=self.q.T, scale=self.scale.T, zero_point=zero_point)
