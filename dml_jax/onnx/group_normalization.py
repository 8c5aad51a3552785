"""ONNX's GroupNormalization; computed in float32 or wider, and rounded once."""

import jax
import jax.numpy as jnp

from ..errors import ConstraintError
from ..operators._normalization_formulas import moments, normalize
from .operand_checks import check_shape
from .values import Array, Operators, as_wide, on_device

__all__ = ["OPERATORS", "group_normalization", "group_normalization_by_group"]


def group_normalization(
    *, x: Array, scale: Array, bias: Array, num_groups: int, epsilon: float, stash_type: int = 1
) -> jax.Array:
    """GroupNormalization, with a scale and a bias for each channel; `stash_type` changes nothing."""
    _check_groups(x, num_groups)
    for name, numbers in {"scale": scale, "bias": bias}.items():
        check_shape(name, numbers, x.shape[1:2])
    sizes = len(x), num_groups, x.shape[1] // num_groups, *x.shape[2:]
    by_group = on_device(x).reshape(sizes)
    mean, variance = moments(as_wide(by_group), range(2, len(sizes)))
    of_channels = (on_device(numbers).reshape(1, *sizes[1:3], *(1,) * (x.ndim - 2)) for numbers in (scale, bias))
    return normalize(by_group, mean, variance, *of_channels, epsilon=epsilon).reshape(x.shape)


def group_normalization_by_group(*, x: Array, scale: Array, bias: Array, num_groups: int, epsilon: float) -> jax.Array:
    """GroupNormalization of opsets 18 to 20, with a scale and a bias for each group."""
    _check_groups(x, num_groups)
    for name, numbers in {"scale": scale, "bias": bias}.items():
        check_shape(name, numbers, (num_groups,))
    of_channels = (jnp.repeat(on_device(numbers), x.shape[1] // num_groups) for numbers in (scale, bias))
    scale, bias = of_channels
    return group_normalization(x=x, scale=scale, bias=bias, num_groups=num_groups, epsilon=epsilon)


def _check_groups(x: Array, num_groups: int) -> None:
    if x.ndim < 2 or num_groups < 1 or x.shape[1] % num_groups:
        rule = "X must be (N, C, ...), and num_groups divide C"
        raise ConstraintError(f"{rule}, but they are {x.shape} and {num_groups}")


OPERATORS: Operators = {"GroupNormalization": {18: group_normalization_by_group, 21: group_normalization}}
