"""`AxisDirection`: along an axis, towards higher or lower coordinates; for structs and for functions."""

from __future__ import annotations

import enum
from typing import Annotated, Literal

from .fields import named

__all__ = ["AxisDirection", "DirectionName", "FieldDirection", "direction_of"]


class AxisDirection(enum.IntEnum):
    """DML_AXIS_DIRECTION: towards higher coordinates, or towards lower ones."""

    INCREASING = 0
    DECREASING = 1


DirectionName = Literal["increasing", "decreasing"]
FieldDirection = Annotated[AxisDirection, named(AxisDirection, "DML_AXIS_DIRECTION_")]


def direction_of(direction: AxisDirection) -> DirectionName:
    """Returns the name that functions take for a direction."""
    return "increasing" if direction == AxisDirection.INCREASING else "decreasing"
