"""The reductions of a scatter: how an update is combined with the element that is there."""

from typing import Any, Literal, get_args

import jax.numpy as jnp

from ..errors import DataTypeError
from ..lowering.values.bits import is_key
from .arguments import as_name
from .rules import Operands, Rule, one_of

__all__ = ["REDUCIBLE", "REDUCTION", "ReductionName", "as_reduction"]

ReductionName = Literal["add", "mul", "min", "max", "mean"]
REDUCTION = one_of("reduction", (None, *get_args(ReductionName)))


def _irreducible(x: Operands) -> str | None:
    """Returns why the elements of `input` do not have the reduction, or None if they do."""
    dtype, reduction = x["input"].dtype, x["reduction"]
    if reduction is None:
        return None
    if is_key(x["input"]):
        return f"it is {dtype}, which are no numbers"
    if reduction in ("min", "max") and jnp.issubdtype(dtype, jnp.complexfloating):
        return f"it is {dtype}, whose numbers have no order"
    if reduction == "mean" and dtype == jnp.bool_:
        return "it is bool, which has no mean"
    return f"it is {dtype}, which has no zero" if dtype == jnp.float8_e8m0fnu else None


REDUCIBLE = Rule(
    "reducible(input)",
    "{input}.{dtype} must have numbers that {reduction} combines",
    _irreducible,
    DataTypeError,
)


def as_reduction(operator: str, value: Any) -> str | None:
    """Returns a static name, or None.

    Raises:
      DataTypeError: anything else.
    """
    return None if value is None else as_name(operator, "reduction", value)
