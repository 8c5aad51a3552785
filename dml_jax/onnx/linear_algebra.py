"""ONNX's Einsum and Det."""

import re
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from ..errors import ConstraintError
from ..operations.values.accumulation_types import wide_type
from ..operations.values.wide_products import wide_product
from .values import Array, Operators, as_wide, on_device


def einsum(*, inputs: tuple[Array, ...], equation: str) -> jax.Array:
    """Einsum, as exact as `matmul`: floats of 8 and 16 bits are rounded once; integers wrap."""
    dtype = inputs[0].dtype
    if not re.fullmatch(r"[A-Za-z., ]*(->[A-Za-z. ]*)?", equation):
        rule = "equation must be of letters, commas, ellipses and at most one arrow"
        raise ConstraintError(f"{rule}, but it is {equation!r}")
    if equation.count(",") + 1 != len(inputs):
        raise ConstraintError(f"equation must have {len(inputs)} terms, one per input, but it is {equation!r}")
    multiply = partial(jnp.einsum, equation, precision=lax.Precision.HIGHEST, optimize="optimal")
    if len(inputs) == 2:
        product = wide_product(multiply)(*map(on_device, inputs))
    else:
        product = multiply(*(on_device(array).astype(wide_type(dtype)) for array in inputs))
    return product.astype(dtype)


def det(*, x: Array) -> jax.Array:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ConstraintError(f"x must be square matrices, but its shape is {x.shape}")
    return jnp.linalg.det(as_wide(x)).astype(x.dtype)


OPERATORS: Operators = {"Det": {11: det}, "Einsum": {12: einsum}}
