"""Flattens values to arrays for `lax.cond` and loops, with the form that restores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from .int64_ranges import Bounded, Range, as_bounded
from .sequence_pytrees import EmptyOptional, TensorSequence
from .values import on_device


@dataclass(frozen=True)
class Form:
    """The structure of flattened values: it turns arrays back into values.

    Args:
      structure: of the values, a tree of JAX.
      ranges: by array, the least and greatest number of int64 that has 32 bits; None for other arrays.
    """

    structure: Any
    ranges: tuple[Range | None, ...]

    def values(self, arrays: Sequence[Any]) -> Any:
        """Returns the values that have this form."""
        leaves = [a if r is None else Bounded(a, r) for a, r in zip(arrays, self.ranges, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)

    def joined(self, other: Form) -> Form | None:
        """Returns the form that holds the numbers of both, or None if arrays stand for other types in the other."""
        pairs = list(zip(self.ranges, other.ranges, strict=False))
        if self.structure != other.structure or any((a is None) != (b is None) for a, b in pairs):
            return None
        return Form(self.structure, tuple(a and b and (min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs))

    def with_zero(self) -> Form:
        """Returns the form that holds 0 as well."""
        return Form(self.structure, tuple(r and (min(0, r[0]), max(0, r[1])) for r in self.ranges))


def as_arrays(values: Any) -> tuple[list[jax.Array], Form]:
    """Returns the arrays in values, and their form; int64 is int32 while x64 is off, if the numbers fit.

    Raises:
      DataTypeError: 64-bit numbers while x64 is off.
    """
    leaves, structure = jax.tree.flatten(values)
    leaves = list(map(as_bounded, leaves))
    arrays = [y.array if isinstance(y, Bounded) else on_device(y) for y in leaves]
    return arrays, Form(structure, tuple(y.range if isinstance(y, Bounded) else None for y in leaves))


def types_text(values: Sequence[Any]) -> str:
    """Returns the types of values in words."""
    return ", ".join(map(_text, values))


def _text(value: Any) -> str:
    if isinstance(value, TensorSequence):
        return f"a sequence of [{types_text(value.items)}]"
    return value.type if isinstance(value, EmptyOptional) else f"{value.dtype}{list(value.shape)}"
