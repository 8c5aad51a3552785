"""Activations that an operator can be fused with: each is an operator without tensors of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ConstraintError, DataTypeError, suggestion

__all__ = ["ACTIVATIONS", "Activation"]

# By operator, the names of its parameters.
ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "ACTIVATION_CELU": ("Alpha",),
    "ACTIVATION_ELU": ("Alpha",),
    "ACTIVATION_GELU": (),
    "ACTIVATION_HARD_SIGMOID": ("Alpha", "Beta"),
    "ACTIVATION_IDENTITY": (),
    "ACTIVATION_LEAKY_RELU": ("Alpha",),
    "ACTIVATION_LINEAR": ("Alpha", "Beta"),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": ("Alpha", "Beta"),
    "ACTIVATION_RELU": (),
    "ACTIVATION_SCALED_ELU": ("Alpha", "Gamma"),
    "ACTIVATION_SCALED_TANH": ("Alpha", "Beta"),
    "ACTIVATION_SHRINK": ("Bias", "Threshold"),
    "ACTIVATION_SIGMOID": (),
    "ACTIVATION_SOFTPLUS": ("Steepness",),
    "ACTIVATION_SOFTSIGN": (),
    "ACTIVATION_TANH": (),
    "ACTIVATION_THRESHOLDED_RELU": ("Alpha",),
}


@dataclass(frozen=True)
class Activation:
    """A fused activation.

    Args:
      operator_type: DirectML's name of the operator, such as "ACTIVATION_ELU".
      parameters: its numbers, in DirectML's order.

    Raises:
      ConstraintError: no such activation, or another number of parameters.
      DataTypeError: a parameter is no number.
    """

    operator_type: str
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.operator_type not in ACTIVATIONS:
            near = suggestion(str(self.operator_type), ACTIVATIONS)
            raise ConstraintError(f"unknown activation {self.operator_type!r}; {near}")
        names = ACTIVATIONS[self.operator_type]
        if not isinstance(self.parameters, tuple) or len(self.parameters) != len(names):
            wanted = ", ".join(names) or "none"
            raise ConstraintError(f"{self.operator_type}: the parameters are {wanted}, but {self.parameters} are given")
        for name, value in zip(names, self.parameters, strict=True):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise DataTypeError(f"{self.operator_type}: {name} must be a number, but it is {value!r}")

    @classmethod
    def of(cls, operator_type: str, numbers: Mapping[str, Any]) -> Activation:
        """The activation with these parameters, by name.

        Raises:
          ConstraintError: one is missing or unknown.
        """
        names = ACTIVATIONS.get(operator_type, ())
        if operator_type in ACTIVATIONS and set(numbers) != set(names):
            wanted = ", ".join(names) or "none"
            raise ConstraintError(f"{operator_type}: the parameters are {wanted}, but {', '.join(numbers)} are given")
        return cls(operator_type, tuple(numbers[name] for name in names))

    @property
    def by_name(self) -> dict[str, float]:
        """The parameters by their names."""
        return dict(zip(ACTIVATIONS[self.operator_type], self.parameters, strict=True))
