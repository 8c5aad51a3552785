"""ONNX's Dropout: the identity, and in training elements dropped at random, by opset."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ..errors import ConstraintError
from .operand_checks import one_number
from .random_keys import RandomKeys
from .values import Array, Operators, arrays, as_wide

Outputs = tuple[Array, ...]


def dropout(
    *,
    data: Array,
    random: RandomKeys,
    ratio: Array | None = None,
    training_mode: Array | None = None,
    seed: int | None = None,
    count: int = 1,
) -> Outputs:
    """Dropout; the ratio and the mode may be data."""
    rate = 0.5 if ratio is None else one_number("ratio", ratio)
    trains = False if training_mode is None else one_number("training_mode", training_mode)
    if not isinstance(trains, Tracer) and not trains:
        return _keep_all(data, np.dtype(bool))[:count]
    return _drop(data, np.dtype(bool), rate, random, seed, trains)[:count]


def dropout_by_is_test(
    *, data: Array, random: RandomKeys, is_test: int = 0, ratio: float = 0.5, count: int = 1
) -> Outputs:
    """Dropout of opsets 1 to 6: in training unless `is_test` is set; the mask has the data's type."""
    if is_test:
        return _keep_all(data, data.dtype)[:count]
    return _drop(data, data.dtype, ratio, random)[:count]


def dropout_with_numbers(*, data: Array, ratio: float = 0.5, count: int = 1) -> Outputs:
    """Dropout of opsets 7 to 9, which drops nothing; the mask has the data's type."""
    return _keep_all(data, data.dtype)[:count]


def dropout_with_booleans(*, data: Array, ratio: float = 0.5, count: int = 1) -> Outputs:
    """Dropout of opsets 10 and 11, which drops nothing; the mask is boolean."""
    return _keep_all(data, np.dtype(bool))[:count]


def _keep_all(data: Array, mask: np.dtype[Any]) -> Outputs:
    xp, data = arrays(data)
    return data, xp.ones(data.shape, mask)


def _drop(
    data: Array, mask: np.dtype[Any], ratio: Any, random: RandomKeys, seed: int | None = None, trains: Any = True
) -> Outputs:
    """Drops elements with the probability `ratio`, and divides the others by 1 - ratio; returns the mask, too."""
    if not isinstance(ratio, Tracer):
        if not 0 <= ratio < 1:
            raise ConstraintError(f"in training the ratio must be in [0, 1), but it is {ratio}")
        if ratio == 0:
            return _keep_all(data, mask)
    wide = as_wide(data)
    probability = lax.stop_gradient(jnp.where(trains, jnp.asarray(ratio, wide.dtype), 0))
    is_kept = jax.random.uniform(random.key(seed), data.shape, wide.dtype) >= probability
    kept = jnp.where(is_kept, wide / (1 - probability), 0)
    return kept.astype(data.dtype), is_kept.astype(mask)


OPERATORS: Operators = {
    "Dropout": {1: dropout_by_is_test, 7: dropout_with_numbers, 10: dropout_with_booleans, 12: dropout}
}
