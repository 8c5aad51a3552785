"""Softmax, log-softmax and hardmax along axes: the result is as large as the operand."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn

from .axis_operations import AxisOperation, compute
from .min_max import flat_number, flat_place_of_extreme
from .programs.variant_selection import shapes_of
from .values.accumulation_types import narrow_apart, wide_type


def compute_along(function: Callable[[jax.Array], jax.Array], x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """`function(x)` in the type of `x`; of narrow floats it is computed in float32 and rounded once.

    Args:
      function: takes wide numbers to as many; each result depends on the numbers along `axes` alone.
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


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def softmax(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """exp(x) / the sum of exp(x) along axes; NaN where all numbers are -inf."""
    less, nothing = _below_maximum(x, axes)
    return nn.softmax(less, tuple(axes)) + nothing


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_softmax(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """The logarithm of softmax."""
    less, nothing = _below_maximum(x, axes)
    return nn.log_softmax(less, tuple(axes)) + nothing


# Derivatives are 0 where all numbers are -inf: a program that masks all keys of a query replaces the NaN of its result.
# Derivatives are computed from the result alone, so that XLA keeps one array rather than two.


@softmax.defjvp
def _softmax_jvp(axes: Sequence[int], primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    result = softmax(x, axes)
    weights = jnp.where(_greatest(x, axes) == -jnp.inf, 0, result)
    return result, weights * (dx - jnp.sum(weights * dx, tuple(axes), keepdims=True))


@log_softmax.defjvp
def _log_softmax_jvp(axes: Sequence[int], primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    result, is_excluded = log_softmax(x, axes), _greatest(x, axes) == -jnp.inf
    weights, dx = (jnp.where(is_excluded, 0, array) for array in (jnp.exp(result), dx))
    return result, dx - jnp.sum(weights * dx, tuple(axes), keepdims=True)


def hardmax(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """1 for the first of the greatest numbers along axes, in row-major order, 0 for the others."""
    if 0 in x.shape:
        return x
    is_first = flat_number(x.shape, axes) == flat_place_of_extreme(x, axes, "greatest")
    return is_first.astype(x.dtype)


def _greatest(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    return lax.stop_gradient(jnp.max(x, tuple(axes), keepdims=True, initial=-jnp.inf))


def _below_maximum(x: jax.Array, axes: Sequence[int]) -> tuple[jax.Array, jax.Array]:
    """Returns numbers minus their maximum, at most 0, and a term for results: 0, or NaN where all are -inf.

    NaN is added, because XLA:CPU makes any number of exp(where(condition, NaN, x)): see docs/stability.md.

    XLA may compute x twice, for the maximum and for the difference, and round it once less for one of them. Of 1e10
    the difference may then be 500, with an infinite exponential: so it is cut at 0.
    """
    greatest = _greatest(x, axes)
    less = jnp.where(greatest == -jnp.inf, 0, x - greatest)
    return jnp.where(less > 0, 0, less), greatest - greatest
