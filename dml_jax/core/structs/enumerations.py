"""The enumerations that structs and functions share: `AxisDirection` and `InterpolationMode`."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import jax.numpy as jnp

from ...errors import DataTypeError
from ...operations.values.bit_exact import is_key
from ..rules import Operands, Rule, one_of
from .field_types import Named
from .fields import named


class AxisDirection(enum.IntEnum):
    """DML_AXIS_DIRECTION: towards higher coordinates, or towards lower ones."""

    INCREASING = 0
    DECREASING = 1


DirectionName = Literal["increasing", "decreasing"]
FieldDirection = Annotated[Named[AxisDirection], named(AxisDirection, "DML_AXIS_DIRECTION_")]


def direction_of(direction: AxisDirection) -> DirectionName:
    """Returns the name that functions take for a direction."""
    return "increasing" if direction == AxisDirection.INCREASING else "decreasing"


class InterpolationMode(enum.IntEnum):
    """DML_INTERPOLATION_MODE: the nearest element, or linear interpolation of two neighbours along each dimension."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


Mode = Literal["nearest", "linear"]
FieldMode = Annotated[Named[InterpolationMode], named(InterpolationMode, "DML_INTERPOLATION_MODE_")]

MODE = one_of("mode", ("nearest", "linear"))


def mode_of(mode: InterpolationMode) -> Mode:
    """Returns the name that functions take for a mode."""
    return "linear" if mode == InterpolationMode.LINEAR else "nearest"


def interpolable(operand: str) -> Rule:
    """Interpolation other than "nearest" takes floats, and integers that float32 holds exactly."""

    def broken_by(x: Operands) -> str | None:
        array = x[operand]
        if x["mode"] == "nearest" or (not is_key(array) and _is_number(array.dtype)):
            return None
        return f"it is {array.dtype}"

    text = f"{{{operand}}}.{{dtype}} must be a floating-point type, or integers of at most 16 bits, to be interpolated"
    return Rule(f"interpolable({operand})", text, broken_by, DataTypeError)


def _is_number(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating) or (jnp.issubdtype(dtype, jnp.integer) and dtype.itemsize <= 2)
