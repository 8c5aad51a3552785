"""Minima and maxima along axes, with keepdims=True, and argmin and argmax; NaN propagates.

XLA:CPU (jaxlib 0.10 to 0.12) loses NaNs where it reduces many floats: it finds the extreme of some other elements.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .axis_operations import AxisOperation, compute, reduced
from .programs.primitive import by_platform
from .values.accumulation_types import computed_type, narrow_apart, wide_type, widen_apart

Axes = tuple[int, ...]
End = Literal["greatest", "least"]

_CHOOSE: Mapping[End, Callable[..., jax.Array]] = {"greatest": jnp.max, "least": jnp.min}
_BEATS: Mapping[End, Callable[..., jax.Array]] = {"greatest": lax.gt, "least": lax.lt}


def extreme(x: jax.Array, axes: Axes, end: End) -> jax.Array:
    """The greatest or the least number, in its own type: a NaN if there is one."""
    choose, dtype, wide = _CHOOSE[end], x.dtype, wide_type(x.dtype)

    def of_all(x: jax.Array) -> jax.Array:
        # Few devices have float8, or integers of less than a byte: in a wider type the extreme is the same.
        of = x if dtype.itemsize > 1 else widen_apart(x, computed_type(dtype))
        return narrow_apart(choose(of, axes, keepdims=True), dtype)

    # Integers have no NaN to lose: XLA reduces them as they are.
    if not jnp.issubdtype(dtype, jnp.floating):
        return of_all(x)

    def of_all_on_a_cpu(x: jax.Array) -> jax.Array:
        numbers = x.astype(wide)
        of = x if dtype == jnp.bfloat16 else numbers  # XLA:CPU has vectors of it; others are widened once for both
        return _or_nan(choose(of, axes, keepdims=True), _squares(numbers, axes)).astype(dtype)

    def whole(x: jax.Array) -> jax.Array:
        return by_platform(x, cpu=of_all_on_a_cpu, default=of_all)  # as XLA:CPU loses NaNs

    def part(numbers: jax.Array, _: Sequence[int]) -> tuple[jax.Array, jax.Array]:
        return choose(numbers, axes, keepdims=True), _squares(numbers, axes)

    def join(parts: tuple[jax.Array, jax.Array]) -> jax.Array:
        values, squares = parts
        return _or_nan(choose(values, axes, keepdims=True), jnp.sum(squares, axes, keepdims=True)).astype(dtype)

    def combine(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return (lax.max if end == "greatest" else lax.min)(left[0], right[0]), left[1] + right[1]

    return compute(AxisOperation("extreme", axes, wide, reduced(x, axes, dtype), whole, part, join, combine), x)


def _squares(x: jax.Array, axes: Axes) -> jax.Array:
    """A sum that is NaN only if a number is NaN, whatever a device does about infinities."""
    return jnp.sum(x * x, axes, keepdims=True)


def _or_nan(values: jax.Array, squares: jax.Array) -> jax.Array:
    return jnp.where(jnp.isnan(squares), np.asarray(np.nan, values.dtype), values)


def place_of_extreme(x: jax.Array, axis: int, end: End) -> jax.Array:
    """The index of the first NaN, or else of the first one of the greatest or least numbers; uint32."""
    wide = _comparable(x.dtype)

    def whole(x: jax.Array) -> jax.Array:
        places = lax.broadcasted_iota(np.uint32, x.shape, axis, out_sharding=jax.typeof(x).sharding)
        return _compete(widen_apart(x, wide), places, axis, end)

    def part(numbers: jax.Array, starts: Sequence[Any]) -> tuple[jax.Array, jax.Array]:
        return _number(numbers, axis, starts[axis], end)

    def join(parts: tuple[jax.Array, jax.Array]) -> jax.Array:
        return _compete(*parts, axis, end)

    operation = AxisOperation("place", (axis,), wide, reduced(x, (axis,), np.uint32), whole, part, join)
    return compute(operation, lax.stop_gradient(x))


def flat_place_of_extreme(x: jax.Array, axes: Sequence[int], end: End, *, is_last: bool = False) -> jax.Array:
    """`place_of_extreme` along several axes, in row-major order as `flat_number`; the first or the last of equals."""
    axes, rows = sorted(axis % x.ndim for axis in axes), x
    if len(axes) > 1:
        others = [d for d in range(x.ndim) if d not in axes]
        moved = lax.transpose(x, (*others, *axes))
        # One axis in place of several: the place along it is the row-major number along all of them.
        rows = moved.reshape(*(x.shape[d] for d in others), prod(x.shape[d] for d in axes))
    axis = axes[0] if len(axes) == 1 else rows.ndim - 1
    # The last of equal numbers is the first one from the other end: of [7, 2, 7] it has place 0 there, hence 2.
    place = place_of_extreme(lax.rev(rows, [axis]) if is_last else rows, axis, end)
    place = jnp.asarray(rows.shape[axis] - 1).astype(np.uint32) - place if is_last else place
    return place.reshape(reduced(x, axes, np.uint32).shape)


def flat_number(sizes: Sequence[int], axes: Sequence[int]) -> jax.Array:
    """Numbers in row-major order of all elements along axes: 0 to 5 along the outer two of sizes (2, 1, 3)."""
    number = jnp.zeros((), np.uint32)
    for axis in sorted(axis % len(sizes) for axis in axes):
        number = number * jnp.asarray(sizes[axis]).astype(np.uint32) + lax.broadcasted_iota(np.uint32, sizes, axis)
    return number


def _comparable(dtype: Any) -> Any:
    """The type in which numbers are compared: their own, but for bools and types that few devices have."""
    if dtype == jnp.bool_:
        return np.dtype(np.int8)
    return dtype if dtype.itemsize > 1 else computed_type(dtype)


def _number(x: jax.Array, axis: int, start: Any, end: End) -> tuple[jax.Array, jax.Array]:
    """Extremes of a part of an array, and the first place of each, or of a NaN.

    Places are float32, as XLA finds the least of floats with vectors more often than the least of integers.
    """
    n, number = x.shape[axis], lax.broadcasted_iota(np.float32, x.shape, axis)
    value = _CHOOSE[end](x, axis, keepdims=True)
    # For the greatest of [3, NaN, 7, NaN] the NaNs get 1 - 4 and 3 - 4, and all others at least 0, or infinity. The
    # least is -3, which says both that there is a NaN, and that the first one lies at 4 - 3 = 1.
    numbers = jnp.where(x == value, number, np.float32(np.inf))
    if jnp.issubdtype(x.dtype, jnp.floating):
        numbers = jnp.where(x != x, number - n, numbers)
    least = jnp.min(numbers, axis, keepdims=True)
    if jnp.issubdtype(x.dtype, jnp.floating):
        value = jnp.where(least < 0, np.asarray(np.nan, x.dtype), value)
    return value, jnp.where(least < 0, least + n, least).astype(np.uint32) + jnp.asarray(start, np.uint32)


def _compete(values: jax.Array, places: jax.Array, axis: int, end: End) -> jax.Array:
    """Places of minima or maxima, in one pass over pairs of a value and its place."""
    beats, dtype = _BEATS[end], values.dtype
    is_float = jnp.issubdtype(dtype, jnp.floating)
    limits = (-np.inf, np.inf) if is_float else (jnp.iinfo(dtype).min, jnp.iinfo(dtype).max)

    def better(left: Sequence[jax.Array], right: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
        (a, i), (b, j) = left, right
        # Only a NaN differs from itself. It beats every number and ties with other NaNs; the earlier place wins a tie.
        wins = beats(a, b) | (a != a) & (b == b)
        ties = (a == b) | (a != a) & (b != b)
        is_left = wins | ties & (i < j)
        return jnp.where(is_left, a, b), jnp.where(is_left, i, j)

    # The identity loses every tie, too, as no place is later.
    worst = np.asarray(limits[0 if end == "greatest" else 1], dtype), np.uint32(2**32 - 1)
    return jnp.expand_dims(lax.reduce((values, places), worst, better, (axis,))[1], axis)
