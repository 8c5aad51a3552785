"""ONNX's NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss; computed in float32 or wider, and rounded once."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..operations.softmax import compute_along, log_softmax
from ..operations.values.accumulation_types import narrow_apart
from ..operators import gather, gather_elements
from .operand_checks import check_shape, check_value
from .values import Array, Operators, arrays, as_wide, on_device


def negative_log_likelihood_loss(
    *, input: Array, target: Array, weight: Array | None = None, ignore_index: int | None = None, reduction: str
) -> jax.Array:
    """NegativeLogLikelihoodLoss of logarithms of probabilities (N, C, ...), by the class of each, (N, ...)."""
    _check(reduction, input=input, target=target, weight=weight)
    is_ignored = _is_ignored(target, ignore_index)
    return narrow_apart(_loss(as_wide(input), target, is_ignored, weight, reduction), input.dtype)


def softmax_cross_entropy_loss(
    *,
    scores: Array,
    labels: Array,
    weights: Array | None = None,
    ignore_index: int | None = None,
    reduction: str,
    count: int = 1,
) -> tuple[jax.Array, ...]:
    """SoftmaxCrossEntropyLoss: the loss of the logarithms of softmax, and these logarithms."""
    _check(reduction, scores=scores, labels=labels, weights=weights)
    is_ignored = _is_ignored(labels, ignore_index)
    # Scores that are ignored may be NaN or infinite: they must not reach the derivatives.
    read = jnp.where(is_ignored[:, None], 0, as_wide(scores))
    loss = _loss(log_softmax(read, (1,)), labels, is_ignored, weights, reduction)
    logarithms = [compute_along(lambda x: log_softmax(x, (1,)), on_device(scores), (1,))] if count > 1 else []
    return narrow_apart(loss, scores.dtype), *logarithms


def _loss(logarithms: jax.Array, target: Array, is_ignored: Any, weight: Array | None, reduction: str) -> jax.Array:
    """Returns the weighted loss; the mean of no elements is NaN."""
    xp, target = arrays(target)  # NumPy keeps the 64 bits of constants
    index = xp.where(is_ignored, 0, target)
    picked = gather_elements(logarithms, index[:, None], 1)[:, 0]
    weights = jnp.ones_like(picked) if weight is None else gather(as_wide(weight), index, 0)
    # Both factors are masked: 0 times an infinite one would be NaN, in the derivatives too.
    picked, weights = (jnp.where(is_ignored, 0, factor) for factor in (picked, weights))
    losses = -picked * weights
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / weights.sum()


def _is_ignored(target: Array, ignore_index: int | None) -> Any:
    limits = np.iinfo(target.dtype)
    if ignore_index is None or not limits.min <= ignore_index <= limits.max:
        return np.zeros(target.shape, bool)
    return arrays(target)[1] == ignore_index


def _check(reduction: str, **operands: Any) -> None:
    """Checks the reduction, and the shapes of three operands: numbers (N, C, ...), targets (N, ...), weights (C)."""
    check_value("reduction", reduction, ("none", "sum", "mean"))
    sizes = next(iter(operands.values())).shape
    shapes = (None, None, *sizes[2:]), (sizes[0], *sizes[2:]), sizes[1:2]
    for (name, operand), shape in zip(operands.items(), shapes, strict=True):
        check_shape(name, operand, shape)


OPERATORS: Operators = {
    "NegativeLogLikelihoodLoss": {12: negative_log_likelihood_loss},
    "SoftmaxCrossEntropyLoss": {12: softmax_cross_entropy_loss},
}
