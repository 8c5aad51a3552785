"""Softmax, log-softmax and hardmax along axes: the result is as large as the operand."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax, nn

from ..values.accumulation_types import narrow_apart, wide_type
from ..variant_selection import shapes_of
from .axis_operations import AxisOperation, compute
from .min_max import flat_number, flat_place_of_extreme

__all__ = ["compute_along", "hardmax", "log_softmax", "softmax"]


def compute_along(function: Callable[[jax.Array], jax.Array], x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """`function(x)` in the type of `x`; of narrow floats it is computed in float32 and rounded once.

    Args:
      function: makes of wide numbers as many, each of those that lie with it along `axes`.
      x: floats.
      axes: from 0 on, or from the last one back.
    """
    dtype, wide = x.dtype, wide_type(x.dtype)

    def whole(x: jax.Array) -> jax.Array:
        return narrow_apart(function(x.astype(wide)), dtype)

    def part(numbers: jax.Array, _: Sequence[int]) -> jax.Array:
        return function(numbers).astype(dtype)

    (result,) = shapes_of(x)
    return compute(AxisOperation("each", [axis % x.ndim for axis in axes], wide, result, whole, part, join=None), x)


def softmax(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """exp(x) / the sum of exp(x) along axes."""
    return _unless_all_excluded(nn.softmax, x, axes)


def log_softmax(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """The logarithm of softmax."""
    return _unless_all_excluded(nn.log_softmax, x, axes)


def hardmax(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """1 for the first of the greatest numbers along axes, in row-major order, 0 for the others."""
    if 0 in x.shape:
        return x
    is_first = flat_number(x.shape, axes) == flat_place_of_extreme(x, axes, "greatest")
    return is_first.astype(x.dtype)


def _unless_all_excluded(
    function: Callable[[jax.Array, tuple[int, ...]], jax.Array], x: jax.Array, axes: Sequence[int]
) -> jax.Array:
    """`function` of numbers minus their maximum, at most 0; NaN where all of them are -inf.

    The derivatives of that NaN are 0, as a program replaces it that masks every key of a query. It is added, because
    XLA:CPU makes any number of exp(where(condition, NaN, x)): see docs/stability.md.

    Where XLA computes a number twice, and rounds once less beside the maximum, the difference may be 500 of 1e10, and
    its exponential infinite.
    """
    greatest = lax.stop_gradient(jnp.max(x, tuple(axes), keepdims=True, initial=-jnp.inf))
    less = jnp.where(greatest == -jnp.inf, 0, x - greatest)
    return function(jnp.where(less > 0, 0, less), tuple(axes)) + (greatest - greatest)
