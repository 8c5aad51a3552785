"""The scales and zero points of ONNX's operators on integers: of a whole tensor, or along one of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ConstraintError
from .values import Array, on_device

__all__ = ["Parameter", "along", "numbers"]

Parameter = Array | None  # a zero point that is left out is 0


def _number(name: str, parameter: Parameter) -> Any:
    """A scale or a zero point of a whole tensor, as a scalar."""
    if parameter is None:
        return None
    if parameter.size != 1:
        raise ConstraintError(f"{name} must have one element, but its shape is {parameter.shape}")
    return on_device(parameter).reshape(())


def numbers(**parameters: Parameter) -> dict[str, Any]:
    return {name: _number(name, parameter) for name, parameter in parameters.items()}


def along(name: str, parameter: Parameter, sizes: Sequence[int], axis: int) -> Any:
    """A scale or a zero point of one number, of one for each index along an axis, or of some `sizes`."""
    if parameter is None or parameter.size == 1:
        return _number(name, parameter)
    count = sizes[axis]
    if parameter.shape not in ((count,), tuple(sizes)):
        rule = f"{name} must have one element, or be of {(count,)} or {tuple(sizes)}"
        raise ConstraintError(f"{rule}, but its shape is {parameter.shape}")
    own = [count if d == axis % len(sizes) else 1 for d in range(len(sizes))]
    return on_device(parameter).reshape(own if parameter.ndim == 1 else sizes)
