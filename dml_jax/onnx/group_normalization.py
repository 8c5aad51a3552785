"""ONNX's GroupNormalization, and ONNX Runtime's GroupNorm and SkipGroupNorm; in float32 or wider, rounded once."""

from typing import Any

import jax
import jax.numpy as jnp

from ..core.structs.activation import Activation
from ..errors import ConstraintError
from ..operations.values.accumulation_types import narrow_apart
from ..operators._normalization_formulas import moments, normalize
from .contrib_schemas import required, schema
from .operand_checks import check_shape, check_value
from .values import Array, Operators, as_wide, on_device


def group_normalization(
    *, x: Array, scale: Array, bias: Array, num_groups: int, epsilon: float, stash_type: int
) -> jax.Array:
    """GroupNormalization, with a scale and a bias for each channel; `stash_type` changes nothing."""
    _check_groups(x, num_groups, x.shape[1:2], scale=scale, bias=bias)
    return _normalize_groups(x, num_groups, scale, bias, epsilon)


def group_normalization_by_group(*, x: Array, scale: Array, bias: Array, num_groups: int, epsilon: float) -> jax.Array:
    """GroupNormalization of opsets 18 to 20, with a scale and a bias for each group."""
    _check_groups(x, num_groups, (num_groups,), scale=scale, bias=bias)
    scale, bias = (jnp.repeat(on_device(numbers), x.shape[1] // num_groups) for numbers in (scale, bias))
    return _normalize_groups(x, num_groups, scale, bias, epsilon)


def _check_groups(x: Array, groups: int, sizes: tuple[int, ...], **numbers: Array) -> None:
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        rule = "X must be (N, C, ...), and num_groups divide C"
        raise ConstraintError(f"{rule}, but they are {x.shape} and {groups}")
    for name, array in numbers.items():
        check_shape(name, array, sizes)


def _normalize_groups(
    x: Array, groups: int, scale: Array, bias: Array, epsilon: float, activation: Activation | None = None
) -> jax.Array:
    """Normalizes groups of channels, the second dimension, with a scale and a bias for each channel."""
    sizes = x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]
    by_group = on_device(x).reshape(sizes)
    differences, _, variance = moments(as_wide(by_group), range(2, len(sizes)))
    of_channels = (on_device(array).reshape(1, *sizes[1:3], *(1,) * (x.ndim - 2)) for array in (scale, bias))
    y = normalize(differences, None, variance, *of_channels, epsilon=epsilon, activation=activation)
    return narrow_apart(y.reshape(x.shape), x.dtype)


def _group_norm(
    *,
    x: Array,
    gamma: Array,
    beta: Array,
    groups: int,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
) -> jax.Array:
    """GroupNorm; channels are the last or the second dimension; activation 1 is SiLU, x * sigmoid(x)."""
    if x.ndim != 4 or activation not in (0, 1):
        rule = "x must have 4 dimensions, and activation be 0 or 1"
        raise ConstraintError(f"{rule}, but they are {x.shape} and {activation}")
    pictures = jnp.moveaxis(on_device(x), -1, 1) if channels_last else on_device(x)
    channels = pictures.shape[1]
    if groups < 1 or channels % groups or not gamma.shape == beta.shape == (channels,):
        rule = f"groups must divide the {channels} channels, and gamma and beta have a number for each of them"
        raise ConstraintError(f"{rule}, but they are {groups}, {gamma.shape} and {beta.shape}")
    silu = Activation("ACTIVATION_SWISH") if activation else None
    y = _normalize_groups(pictures, groups, gamma, beta, epsilon, silu)
    return jnp.moveaxis(y, 1, -1) if channels_last else y


def _skip_group_norm(
    *,
    x: Array,
    gamma: Array,
    beta: Array,
    skip: Array,
    bias: Array | None = None,
    channels_last: int,
    count: int = 1,
    **attributes: Any,
) -> tuple[jax.Array, ...]:
    """SkipGroupNorm: GroupNorm of x + skip + bias, and that sum, which is not rounded before it is normalized."""
    check_shape("X", x, (None,) * 4)
    at = 3 if channels_last else 1
    of_channels = tuple(n if d == at else 1 for d, n in enumerate(x.shape))
    of_pictures = (x.shape[0], *of_channels[1:])
    check_value("skip.shape", skip.shape, (x.shape, of_pictures, (x.shape[0], x.shape[at])))
    total = as_wide(x) + as_wide(skip).reshape(of_pictures if skip.ndim == 2 else skip.shape)
    if bias is not None:
        check_shape("bias", bias, (x.shape[at],))
        total = total + as_wide(bias).reshape(of_channels)
    y = _group_norm(x=total, gamma=gamma, beta=beta, channels_last=channels_last, **attributes)
    return tuple(narrow_apart(array, x.dtype) for array in (y, total))[:count]


OPERATORS: Operators = {
    "GroupNormalization": {18: group_normalization_by_group, 21: group_normalization},
    "com.microsoft::GroupNorm": {1: _group_norm},
    "com.microsoft::SkipGroupNorm": {1: _skip_group_norm},
}
_GROUPS = {"activation": required("INT"), "channels_last": 1, "epsilon": 1e-5, "groups": required("INT")}
_FLOATS = "float16 float"
SCHEMAS = (
    schema("GroupNorm", "X T, gamma M, beta M", "Y T", _GROUPS, T=_FLOATS, M=_FLOATS),
    schema("SkipGroupNorm", "X T, gamma M, beta M, skip T, bias? T", "Y T, S? T", _GROUPS, T=_FLOATS, M=_FLOATS),
)
