"""Reductions with keepdims=True: sums, products and norms."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .axis_operations import AxisOperation, Kind, compute, reduced
from .programs.primitive import transpose_of
from .values.accumulation_types import computed_type, narrow_apart, widen_apart

Axes = tuple[int, ...]


def _sum(x: jax.Array, axes: Axes) -> jax.Array:
    return jnp.sum(x, axes, dtype=x.dtype, keepdims=True)


def _product(x: jax.Array, axes: Axes) -> jax.Array:
    return jnp.prod(x, axes, dtype=x.dtype, keepdims=True)


def _log_sum_exp(x: jax.Array, axes: Axes) -> jax.Array:
    return jax.scipy.special.logsumexp(x, axes, keepdims=True)


@jax.custom_jvp
def absolute(x: jax.Array) -> jax.Array:
    """The absolute value, whose derivative at 0 is 0."""
    return jnp.abs(x)


absolute.defjvps(lambda dot, _, x: jnp.sign(x) * dot)


def _root(sum_: jax.Array, _: Any) -> jax.Array:
    """The square root of a sum of squares; its derivative is 0 where all elements are 0."""
    # The slope of a root at 0 is infinite, and infinity times the slope 0 of a square is NaN: so 1 is put in its place
    # before the root, too, not only after it.
    is_zero = sum_ == 0
    return jnp.where(is_zero, 0, jnp.sqrt(jnp.where(is_zero, 1, sum_)))


class _Total(NamedTuple):
    """A reduction of wide numbers, all at once or chunk by chunk: finish(combine(of(x)), count).

    Args:
      combine: reduces along axes; also the results of chunks to one.
      of: a function of each number.
      finish: takes the combined number, and the count of numbers.
    """

    combine: Callable[[jax.Array, Axes], jax.Array] = _sum
    of: Callable[[jax.Array], jax.Array] = lambda x: x
    finish: Callable[[jax.Array, Any], jax.Array] = lambda x, _: x


_TOTALS: Mapping[str, _Total] = {
    "average": _Total(finish=lambda x, count: x / jnp.asarray(count, x.dtype)),
    "l1": _Total(of=absolute),
    "l2": _Total(of=jnp.square, finish=_root),
    "log_sum": _Total(finish=lambda x, _: jnp.log(x)),
    "log_sum_exp": _Total(_log_sum_exp),
    "multiply": _Total(_product),
    "sum": _Total(),
    "sum_square": _Total(of=jnp.square),
}
_KINDS: Mapping[Any, tuple[Kind, Any]] = {
    _sum: ("sum", lax.add),
    _product: ("product", lax.mul),
    _log_sum_exp: ("exponential", None),
}


def total(x: jax.Array, axes: Axes, function: str) -> jax.Array:
    """A reduction along `axes` in the type of `x`: narrow floats are combined in float32, and rounded once.

    Args:
      x: numbers.
      axes: each once, from 0 on.
      function: "average", "l1", "l2", "log_sum", "log_sum_exp", "multiply", "sum" or "sum_square".
    """
    combine, of, finish = _TOTALS[function]
    count, wide = prod(x.shape[axis] for axis in axes), jnp.int8 if x.dtype == jnp.bool_ else computed_type(x.dtype)
    dtype = x.dtype

    def whole(x: jax.Array) -> jax.Array:
        return narrow_apart(finish(combine(of(widen_apart(x, wide)), axes), count), dtype)

    def part(numbers: jax.Array, _: Sequence[int]) -> jax.Array:
        return combine(of(numbers), axes)

    def join(parts: jax.Array) -> jax.Array:
        return finish(combine(parts, axes), count).astype(dtype)

    kind, combine_two = _KINDS[combine]
    operation = AxisOperation(kind, axes, wide, reduced(x, axes, dtype), whole, part, join, combine_two)
    # Only these are sums of their elements times constants; others have the derivative of their plain program.
    is_linear = function in ("average", "sum") and jnp.issubdtype(dtype, jnp.floating)
    return compute(operation, x, transpose_of(lambda _, x: whole(x)) if is_linear else None)
