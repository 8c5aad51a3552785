"""ONNX's reductions, by `reduce`, extended to empty axes and to integers of every function."""

from collections.abc import Callable
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import ConstraintError
from ..operations.min_max import End, flat_place_of_extreme
from ..operators import reduce
from ..operators._reduce import Name
from .layout import axes_of, axis_of
from .values import Array, Operators, float_for, known_ints, on_device


def _reduction(function: Name) -> Callable[..., jax.Array]:
    """Returns the reduction of any version: axes may be an attribute or an input."""

    def reduced(*, data: Array, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> jax.Array:
        given = [] if axes is None else known_ints("axes", axes, "axes")
        along = axes_of("axes", given, data.ndim)
        if not given and not noop_with_empty_axes:
            along = list(range(data.ndim))
        reduction = _reduce(on_device(data), function, tuple(along))
        return reduction if keepdims else lax.squeeze(reduction, along)

    return reduced


def _reduce(data: jax.Array, function: Name, axes: tuple[int, ...]) -> jax.Array:
    count = prod(data.shape[d] for d in axes)
    if function in ("max", "min") and not count:
        return jnp.full([1 if d in axes else n for d, n in enumerate(data.shape)], _identity_of(function, data.dtype))
    if function == "average" and jnp.issubdtype(data.dtype, jnp.integer):
        total = reduce(data, "sum", axes)
        return lax.div(total, jnp.full_like(total, max(1, count)))
    if function in ("l2", "log_sum", "log_sum_exp") and jnp.issubdtype(data.dtype, jnp.integer):
        return reduce(data.astype(float_for(data.dtype)), function, axes).astype(data.dtype)
    return reduce(data, function, axes)


def _identity_of(function: Name, dtype: Any) -> Any:
    """Returns the identity of max or min: a value less, or greater, than all numbers of a type."""
    if dtype == np.bool_:
        return np.asarray(function == "min")
    if jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype)
        return np.asarray(limits.min if function == "max" else limits.max, dtype)
    return np.asarray(-np.inf if function == "max" else np.inf, dtype)


def _place(end: End) -> Callable[..., jax.Array]:
    """ArgMax or ArgMin: the first or the last of equal extremes."""

    def placed(*, data: Array, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> jax.Array:
        at = axis_of("axis", axis, data.ndim)
        if not data.shape[at]:
            raise ConstraintError(f"data must have elements along axis {axis}, but its shape is {data.shape}")
        index = flat_place_of_extreme(on_device(data), (at,), end, is_last=bool(select_last_index)).astype(np.int32)
        return index if keepdims else lax.squeeze(index, [at])

    return placed


OPERATORS: Operators = {
    "ArgMax": {1: _place("greatest")},
    "ArgMin": {1: _place("least")},
    "ReduceL1": {1: _reduction("l1")},
    "ReduceL2": {1: _reduction("l2")},
    "ReduceLogSum": {1: _reduction("log_sum")},
    "ReduceLogSumExp": {1: _reduction("log_sum_exp")},
    "ReduceMax": {1: _reduction("max")},
    "ReduceMean": {1: _reduction("average")},
    "ReduceMin": {1: _reduction("min")},
    "ReduceProd": {1: _reduction("multiply")},
    "ReduceSum": {1: _reduction("sum")},
    "ReduceSumSquare": {1: _reduction("sum_square")},
}
