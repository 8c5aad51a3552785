"""ONNX's normalizations; computed in float32 or wider."""

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import operators
from ..errors import ConstraintError
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ..operators._lp_normalization import divide_by_norm
from ..operators._normalization_formulas import inverse_deviation, moments, normalize
from .values import Array, Operators, as_wide, on_device


def batch_normalization(
    *, input_mean: Array, input_var: Array, training_mode: int = 0, count: int = 1, **given: Any
) -> tuple[Array, ...]:
    """BatchNormalization by running mean and variance; in training by those of x, and the running ones are updated."""
    if count > 1 and not training_mode:
        raise ConstraintError(f"there must be 1 output unless training_mode is 1, but there are {count}")
    training = bool(training_mode)
    return _batch_normalization_of_five(mean=input_mean, var=input_var, training=training, count=count, **given)[:3]


def batch_normalization_by_is_test(*, is_test: int = 0, **given: Any) -> tuple[Array, ...]:
    """BatchNormalization of opsets 1 to 6: in training unless `is_test` is set."""
    return _batch_normalization_of_five(training=not is_test, **given)


def batch_normalization_by_count(*, count: int = 1, **given: Any) -> tuple[Array, ...]:
    """BatchNormalization of opsets 7 to 13: in training if there are several outputs."""
    return _batch_normalization_of_five(training=count > 1, count=count, **given)


def _batch_normalization_of_five(
    *,
    x: Array,
    scale: Array,
    b: Array,
    mean: Array,
    var: Array,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training: bool,
    count: int = 1,
) -> tuple[Array, ...]:
    """Returns y, running mean and variance, and those of x; without `spatial` per element, not per channel."""
    if count > 1 and not training:
        raise ConstraintError(f"there must be 1 output unless is_test is 0, but there are {count}")
    if not training:
        return (_normalize_channels(x, scale, b, mean, var, epsilon),)
    differences, *now = _moments(x, per_element=not spatial)
    moved = (_moving_average(old, new, momentum) for old, new in zip((mean, var), now, strict=True))
    y = _normalize_channels(differences, scale, b, None, now[1], epsilon)
    return (narrow_apart(y, x.dtype), *moved, *(array.astype(x.dtype) for array in now))


def instance_normalization(*, input: Array, scale: Array, b: Array, epsilon: float = 1e-5) -> Array:
    _check_channels(input, scale.shape, b.shape)
    differences, _, variance = moments(as_wide(input), range(2, input.ndim))
    of_channels = (_along_channels(array, input) for array in (scale, b))
    return narrow_apart(normalize(differences, None, variance, *of_channels, epsilon=epsilon), input.dtype)


def layer_normalization(
    *,
    x: Array,
    scale: Array,
    b: Array | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    count: int = 1,
) -> tuple[Array, ...]:
    """LayerNormalization, in the type of the scale.

    float64 is computed in float64, and `stash_type` only gives the type of the mean.
    """
    if not -x.ndim <= axis < x.ndim:
        raise ConstraintError(f"axis must be in [{-x.ndim}, {x.ndim}), but it is {axis}")
    factors = spread("scale", scale, x.shape)
    added = None if b is None else spread("b", b, x.shape)
    differences, mean, variance = moments(as_wide(x), range(axis % x.ndim, x.ndim))
    y = narrow_apart(normalize(differences, None, variance, factors, added, epsilon=epsilon), scale.dtype)
    stash = jnp.bfloat16 if stash_type == 16 else np.float32
    return (y, mean.astype(stash), inverse_deviation(variance, epsilon).astype(stash))[:count]


def lrn(*, x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    """LRN; channels are the second dimension, of any rank."""
    if x.ndim < 2:
        raise ConstraintError(f"x must have the dimensions N and C, but its shape is {x.shape}")
    flat = on_device(x).reshape(*x.shape[:2], prod(x.shape[2:]), 1)
    return operators.local_response_normalization(flat, size, alpha=alpha, beta=beta, bias=bias).reshape(x.shape)


def lp_normalization(*, input: Array, axis: int = -1, p: int = 2) -> Array:
    """LpNormalization; vectors of zeros stay as they are."""
    if p not in (1, 2) or not -input.ndim <= axis < input.ndim:
        rule = f"p must be 1 or 2, and axis in [{-input.ndim}, {input.ndim})"
        raise ConstraintError(f"{rule}, but they are {p} and {axis}")
    return divide_by_norm(on_device(input), axis % input.ndim, p)


# Shared helpers. Numbers per channel, or per element, broadcast from the second dimension of x on.


def _normalize_channels(x: Array, scale: Array, b: Array, mean: Any, variance: Any, epsilon: float) -> jax.Array:
    numbers = (mean, variance, scale, b)
    _check_channels(x, *(array.shape for array in numbers if array is not None))
    of_channels = (None if array is None else _along_channels(array, x) for array in numbers)
    return normalize(on_device(x), *of_channels, epsilon=epsilon)


def _moments(x: Array, *, per_element: bool = False) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns x - mean, and mean and variance per channel, or per element over the batch."""
    axes = (0,) if per_element else tuple(d for d in range(x.ndim) if d != 1)
    differences, mean, variance = moments(as_wide(x), axes)
    shape = x.shape[1:] if per_element else (-1,)
    return differences, mean.reshape(shape), variance.reshape(shape)


def _moving_average(old: Array, new: jax.Array, momentum: float) -> jax.Array:
    wide = np.promote_types(wide_type(old.dtype), new.dtype)
    return (on_device(old).astype(wide) * momentum + new.astype(wide) * (1 - momentum)).astype(old.dtype)


def _along_channels(numbers: Array, x: Array) -> jax.Array:
    return on_device(numbers).reshape(((1,) * min(x.ndim - 1, 1) + numbers.shape + (1,) * x.ndim)[: x.ndim])


def spread(name: str, numbers: Array, shape: tuple[int, ...]) -> jax.Array:
    """Broadcasts numbers to a shape, by NumPy's rules."""
    fits = len(numbers.shape) <= len(shape)
    if not fits or any(n not in (1, m) for n, m in zip(numbers.shape[::-1], shape[::-1], strict=False)):
        raise ConstraintError(f"{name} must broadcast to {shape}, but its shape is {numbers.shape}")
    return jnp.broadcast_to(as_wide(numbers), shape)


def _check_channels(x: Array, *shapes: tuple[int, ...]) -> None:
    """Checks that there is a number per channel or per element; a 1-D x has one channel."""
    wanted = x.shape[1:] or (1,)
    if any(shape not in (wanted[:1], wanted) for shape in shapes):
        rule = f"there must be one number for each of the {wanted[0]} channels"
        raise ConstraintError(f"{rule}, but the shapes are {', '.join(map(str, shapes))}")


OPERATORS: Operators = {
    "BatchNormalization": {
        1: batch_normalization_by_is_test,
        7: batch_normalization_by_count,
        14: batch_normalization,
    },
    "InstanceNormalization": {1: instance_normalization},
    "LRN": {1: lrn},
    "LayerNormalization": {1: layer_normalization},
    "LpNormalization": {1: lp_normalization},
}
