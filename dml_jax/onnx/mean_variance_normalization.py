"""ONNX's MeanVarianceNormalization; computed in float32 or wider, and rounded once."""

from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from ..operations.sum_prod_norm import total
from ..operations.values.accumulation_types import narrow_apart
from ..operators._normalization_formulas import centred
from .layout import axes_of
from .values import Array, Operators, as_wide


def mean_variance_normalization(*, x: Array, axes: Any) -> jax.Array:
    """MeanVarianceNormalization: (x - mean) / (deviation + 1e-9) along axes, along all of them if there are none."""
    along = tuple(axes_of("axes", axes, x.ndim)) or tuple(range(x.ndim))
    y, _ = centred(as_wide(x), along)
    count = jnp.asarray(prod(x.shape[axis] for axis in along), y.dtype)
    deviation = total(y, along, "l2") / jnp.sqrt(count)
    return narrow_apart(y / (deviation + jnp.asarray(1e-9, y.dtype)), x.dtype)


OPERATORS: Operators = {"MeanVarianceNormalization": {9: mean_variance_normalization}}
