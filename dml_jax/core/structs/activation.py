"""`Activation`: one of DirectML's activations with its parameters, which an operator can be fused with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax

from ...errors import ConstraintError, suggestion
from .activation_table import ACTIVATIONS, Row, in_type_of


@dataclass(frozen=True)
class Activation:
    """An activation that an operator is fused with: called, it computes it.

    Args:
      operator_type: DirectML's name of the operator, such as "ACTIVATION_ELU".
      parameters: its numbers, in DirectML's order; those left out are DirectMLX's, where it has some.

    Raises:
      ConstraintError: no such activation, or another number of parameters.
      DataTypeError: a parameter is no number.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax import Activation
      >>> print(Activation("ACTIVATION_LEAKY_RELU", (0.5,))(jnp.float32([-2, 4])))
      [-1.  4.]
    """

    operator_type: str
    parameters: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.operator_type not in ACTIVATIONS:
            near = suggestion(str(self.operator_type), ACTIVATIONS)
            raise ConstraintError(f"unknown activation {self.operator_type!r}; {near}")
        names, fields, given = self.row.parameters, self.row.fields, self.parameters
        padded = (*given, *[*names.values()][len(given) :]) if isinstance(given, tuple) else ()
        named = dict(zip(names, padded, strict=False))
        lacks = any(named.get(name) is None for name in self.row.required)
        if not isinstance(given, tuple) or len(padded) != len(names) or lacks:
            wanted = ", ".join(names) or "none"
            raise ConstraintError(f"{self.operator_type}: the parameters are {wanted}, but {given} are given")
        values = tuple(fields[name].kept(self.operator_type, name, value) for name, value in named.items())
        object.__setattr__(self, "parameters", values)

    @classmethod
    def of(cls, operator_type: str, values: Mapping[str, Any]) -> Activation:
        """The activation with these parameters, by name.

        Raises:
          ConstraintError: one is missing or unknown.
        """
        if operator_type not in ACTIVATIONS:
            return cls(operator_type)  # which raises the error
        row = ACTIVATIONS[operator_type]
        if not row.required <= {*values} <= {*row.parameters}:
            wanted = ", ".join(row.parameters) or "none"
            raise ConstraintError(
                f"{operator_type}: the parameters are {wanted}, but {', '.join(map(str, values))} are given"
            )
        return cls(operator_type, tuple(values.get(name) for name in row.parameters))

    @property
    def row(self) -> Row:
        """Its row in the table of DirectML's activations."""
        return ACTIVATIONS[self.operator_type]

    @property
    def by_name(self) -> dict[str, Any]:
        """The parameters by their names."""
        return dict(zip(self.row.parameters, self.parameters, strict=True))

    @property
    def axes(self) -> tuple[int, ...] | None:
        """The dimensions along which it combines elements; None if it looks at each one alone."""
        return self.by_name.get("Axes", self.row.axes or None)

    def describe(self) -> str:
        """Returns its form in messages."""
        return f"{self.operator_type}({', '.join(f'{name}={value}' for name, value in self.by_name.items())})"

    def __call__(self, x: jax.Array) -> jax.Array:
        """Computes it of every element, in the type of the array."""
        return self.row.formula(x, *(in_type_of(x, value) for value in self.parameters))
