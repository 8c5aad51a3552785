"""Modes of indices out of range, and reductions: the names, and which elements a reduction takes."""

from typing import Annotated, Literal, get_args

import jax.numpy as jnp

from ...errors import DataTypeError
from ...operations.values.bit_exact import is_key
from ..arguments.kinds import attribute
from ..arguments.static_values import as_name
from ..rules import Operands, Rule, one_of

ReadMode = Literal["clip", "fill", "promise_in_bounds"]
READ_MODE = one_of("mode", get_args(ReadMode))

WriteMode = Literal["drop", "clip", "promise_in_bounds"]
WRITE_MODE = one_of("mode", get_args(WriteMode))

Name = Literal["add", "mul", "min", "max", "mean"]
ReductionName = Annotated[Name, attribute(as_name, *get_args(Name), shown="str")]
REDUCTION = one_of("reduction", (None, *get_args(Name)))


def _irreducible(x: Operands) -> str | None:
    """Returns why the elements of `input` do not have the reduction, or None if they do."""
    dtype, reduction = x["input"].dtype, x["reduction"]
    if reduction is None:
        return None
    if is_key(x["input"]):
        return f"it is {dtype}, whose elements are not numbers"
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
