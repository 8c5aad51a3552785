"""Scales and zero points of quantised operators: per tensor or per axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ConstraintError
from .values import Array, on_device

Parameter = Array | None  # a zero point that is left out is 0


def _number(name: str, parameter: Parameter) -> Any:
    """Returns a per-tensor scale or zero point as a scalar."""
    if parameter is None:
        return None
    if parameter.size != 1:
        raise ConstraintError(f"{name} must have one element, but its shape is {parameter.shape}")
    return on_device(parameter).reshape(())


def numbers(**parameters: Parameter) -> dict[str, Any]:
    return {name: _number(name, parameter) for name, parameter in parameters.items()}


def along(name: str, parameter: Parameter, sizes: Sequence[int], axis: int) -> Any:
    """Returns a scale or zero point that broadcasts: per tensor, per index of an axis, or per element of `sizes`."""
    if parameter is None or parameter.size == 1:
        return _number(name, parameter)
    count = sizes[axis]
    if parameter.shape not in ((count,), tuple(sizes)):
        rule = f"{name} must have one element, or be of {(count,)} or {tuple(sizes)}"
        raise ConstraintError(f"{rule}, but its shape is {parameter.shape}")
    own = [count if d == axis % len(sizes) else 1 for d in range(len(sizes))]
    return on_device(parameter).reshape(own if parameter.ndim == 1 else sizes)
