"""The arithmetic of normalizations, which DirectML's structs and ONNX's operators share.

[1, 2, 3, 6] has the mean 3 and the variance 3.5. With an epsilon of 0.5 the numbers become [-1, -0.5, 0, 1.5].
"""

from collections.abc import Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.structs.activation import Activation
from ..core.structs.activation_table import in_type_of
from ..core.structs.fields import Float
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ..operations.values.elementary_functions import inverse_root

Epsilon = Annotated[Float, "a number that is added to the variance."]


def widened(*arrays: Any) -> tuple[Any, ...]:
    """Returns arrays in the type in which they are computed together; None, which is left out, as it is."""
    wide = np.result_type(*(wide_type(array.dtype) for array in arrays if array is not None))
    return tuple(None if array is None else jnp.asarray(array).astype(wide) for array in arrays)


def axes_of(numbers: Any) -> tuple[int, ...]:
    """Returns the dimensions along which an array of this shape has one number for all elements."""
    return tuple(d for d, n in enumerate(numbers.shape) if n == 1)


def centred(x: jax.Array, axes: Sequence[int]) -> tuple[jax.Array, jax.Array]:
    """Returns x - mean, and the mean along axes, which keep the size 1.

    Differences from one of the numbers are rounded, not the mean: equal numbers give 0, and
    a mean far from 0 does no harm. Derivatives are the same, whichever number it is.
    """
    axes = tuple(axes)
    member = _member(lax.stop_gradient(x), axes)
    differences = x - member
    mean = jnp.mean(differences, axes, keepdims=True)
    return differences - mean, member + mean


def _member(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Returns one of the numbers along axes: that in the middle, as those at the ends are more often unlike the others.

    JAX cannot slice a dimension that an Explicit mesh shards: the greatest number along it is taken. From NaN, infinity
    and numbers so large that differences may overflow nothing is subtracted: of [0, 0, -3e38, 0] they are the numbers.
    """
    for axis in axes:
        if jax.typeof(x).sharding.spec[axis] is None:
            middle, end = x.shape[axis] // 2, x.shape[axis]
            x = lax.slice_in_dim(x, middle, min(middle + 1, end), axis=axis)
    member, type_ = jnp.max(x, axes, keepdims=True, initial=-np.inf), jnp.finfo(x.dtype)
    return jnp.where(jnp.abs(member) < float(type_.max) * float(type_.eps), member, 0)


def moments(x: jax.Array, axes: Sequence[int]) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns x - mean, the mean and the variance of the population along axes, which keep the size 1."""
    differences, mean = centred(x, axes)
    return differences, mean, mean_of_squares(differences, axes)


def mean_of_squares(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Returns the mean of squares along axes, which keep the size 1."""
    return jnp.mean(lax.square(x), tuple(axes), keepdims=True)


def inverse_deviation(variance: jax.Array, epsilon: float) -> jax.Array:
    """Returns 1 / sqrt(variance + epsilon)."""
    return inverse_root(variance + in_type_of(variance, float(epsilon)))


def normalize(
    input: Any,
    mean: Any,
    variance: Any,
    scale: Any,
    bias: Any,
    added: Any = None,
    *,
    epsilon: float,
    activation: Activation | None = None,
) -> jax.Array:
    """Returns activation(scale * (input - mean) / sqrt(variance + epsilon) + bias + added) in the type of `input`.

    Args:
      input: floats; those of 8 and 16 bits are computed in float32 and rounded once, at the end.
      mean: an array that broadcasts against `input`, as the next four do; None leaves it out of the formula.
      variance: as `mean`; without it nothing is divided.
      scale: as `mean`.
      bias: as `mean`.
      added: as `mean`.
      epsilon: a number that is added to the variance.
      activation: an `Activation`, or None.
    """
    y, mean, variance, scale, bias, added = widened(input, mean, variance, scale, bias, added)
    y = y if mean is None else y - mean
    for factor in (None if variance is None else inverse_deviation(variance, epsilon), scale):
        y = y if factor is None else y * factor
    for term in (bias, added):
        y = y if term is None else y + term
    return narrow_apart(y if activation is None else activation(y), input.dtype)
