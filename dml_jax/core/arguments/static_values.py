"""Numbers that are equal only if their bits are: compiled programs are cached by attributes, and -0.0 == 0.0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Real", "TypedNumber"]


class Real(float):
    """A float. Two of them are equal if their bits are: so -0.0 is not 0.0, and NaN is NaN."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Real):
            return float(self) == other
        one, two = float(self), float(other)
        return (one == two and math.copysign(1, one) == math.copysign(1, two)) or (one != one and two != two)

    def __hash__(self) -> int:
        return 0 if self != float(self) else hash(float(self))


@dataclass(frozen=True)
class TypedNumber:
    """A number of a NumPy type: DirectML's scalar union with one of its members."""

    dtype: np.dtype[Any]
    bits: bytes

    @classmethod
    def of(cls, number: np.generic) -> TypedNumber:
        return cls(number.dtype, number.tobytes())

    @property
    def number(self) -> np.generic:
        return np.frombuffer(self.bits, self.dtype)[0]

    def __repr__(self) -> str:
        return f"{self.dtype.name}({self.number})"
