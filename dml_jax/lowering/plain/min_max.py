"""The greatest and the least numbers along dimensions that stay, of size 1, and where they lie; NaNs are both.

XLA:CPU (jaxlib 0.10 to 0.12) loses NaNs where it reduces many floats to an extreme: it then finds that of some others.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..cpu.cache_chunks import FLOAT8, FRESH, choose_chunks, fold_rows, map_chunks, row_size
from ..forms import Choice
from ..values.accumulation_types import computed_type, narrow_apart, wide_type, widen_apart

__all__ = ["TABLE", "End", "extreme", "place_of_extreme"]

Axes = tuple[int, ...]
End = Literal["greatest", "least"]

# On two cores of an EPYC, 16,777,216 elements of 16384x1024, along rows / columns; milliseconds.
TABLE = (
    Choice(
        "cpu",
        "row_by_row",
        {"of": {"value"}, "dtype": {"float16", "bfloat16", "float32"}, "side_by_side": range(2**15, 2**62)},
        "along axis 0 of 16x262144 0.5-0.6, plain 20; of 128x32768 0.6-1.0, plain 7-11",
    ),
    Choice(
        "cpu",
        "chunks",
        {"of": {"value"}, "dtype": {"float16", *FLOAT8}, "wide_bytes": FRESH},
        "float16 3.2 / 3.7, plain 15 / 15; float8 5.6 / 6.1, plain 22 / 20. Of float32 and bfloat16 plain is faster",
    ),
    Choice(
        "cpu",
        "chunks",
        {"of": {"place"}, "is_numbered": {True}, "wide_bytes": FRESH},
        "float32 8.0 / 5.9, plain 30 / 32; float16 6.4 / 4.7, plain 29 / 28; int8 3.2 / 2.9, plain 20 / 20",
    ),
)

_CHOOSE: Mapping[End, Callable[..., jax.Array]] = {"greatest": jnp.max, "least": jnp.min}
_BEATS: Mapping[End, Callable[..., jax.Array]] = {"greatest": lax.gt, "least": lax.lt}


def extreme(x: jax.Array, axes: Axes, end: End) -> jax.Array:
    """The greatest or the least number, in its own type: a NaN if there is one."""
    choose = _CHOOSE[end]

    def found(x: jax.Array) -> jax.Array:
        of = x if x.dtype.itemsize > 1 else widen_apart(x, computed_type(x.dtype))
        return narrow_apart(choose(of, axes, keepdims=True), x.dtype)

    if not jnp.issubdtype(x.dtype, jnp.floating):
        return found(x)

    def found_on_a_cpu(x: jax.Array) -> jax.Array:
        wide = x.astype(wide_type(x.dtype))
        of = x if x.dtype == jnp.bfloat16 else wide  # XLA:CPU has vectors of it; others are widened once for both
        return _or_nan(choose(of, axes, keepdims=True), _squares(wide, axes)).astype(x.dtype)

    def whole(x: jax.Array) -> jax.Array:
        return lax.platform_dependent(x, cpu=found_on_a_cpu, default=found)

    def by_chunks(x: jax.Array) -> jax.Array:
        def part(x: jax.Array, _: Any) -> tuple[jax.Array, jax.Array]:
            return choose(x, axes, keepdims=True), _squares(x, axes)

        found, squares = map_chunks(part, x, wide_type(x.dtype))
        return _or_nan(choose(found, axes, keepdims=True), jnp.sum(squares, axes, keepdims=True)).astype(x.dtype)

    def by_rows(x: jax.Array) -> jax.Array:
        better = lax.max if end == "greatest" else lax.min
        return fold_rows(better, lambda row: row, x, axes[0], wide_type(x.dtype)).astype(x.dtype)

    others = {"chunks": by_chunks, **({"row_by_row": by_rows} if len(axes) == 1 else {})}
    case = {"of": "value", "is_numbered": False, "side_by_side": row_size(x, axes)}
    return choose_chunks(whole, others, TABLE, case)(x)


def _squares(x: jax.Array, axes: Axes) -> jax.Array:
    """A sum that is a NaN only if one is among the numbers, whatever the device does about infinities."""
    return jnp.sum(x * x, axes, keepdims=True)


def _or_nan(found: jax.Array, squares: jax.Array) -> jax.Array:
    return jnp.where(jnp.isnan(squares), np.asarray(np.nan, found.dtype), found)


def place_of_extreme(x: jax.Array, axis: int, end: End) -> jax.Array:
    """The index of the first NaN, or else of the first one of the greatest or least numbers; uint32."""
    wide = _comparable(x.dtype)

    def whole(x: jax.Array) -> jax.Array:
        x = lax.stop_gradient(widen_apart(x, wide))
        on_cpus = by_number if _is_numbered(x, axis) else by_pairs
        return lax.platform_dependent(x, cpu=on_cpus, default=by_pairs)

    def by_number(x: jax.Array) -> jax.Array:
        return _number(x, axis, 0, end)[1]

    def by_pairs(x: jax.Array) -> jax.Array:
        return _compete(x, lax.broadcasted_iota(np.uint32, x.shape, axis), axis, end)

    def by_chunks(x: jax.Array) -> jax.Array:
        values, places = map_chunks(lambda x, starts: _number(x, axis, starts[axis], end), x, wide)
        return _compete(values, places, axis, end)

    case = {"of": "place", "is_numbered": _is_numbered(x, axis), "side_by_side": 0}
    return choose_chunks(whole, {"chunks": by_chunks}, TABLE, case)(x)


def _comparable(dtype: Any) -> Any:
    """The type itself, but of bools and of what few devices have."""
    if dtype == jnp.bool_:
        return np.dtype(np.int8)
    return dtype if dtype.itemsize > 1 else computed_type(dtype)


def _is_numbered(x: Any, axis: int) -> bool:
    """Whether float32 has a number for each element, and XLA:CPU finds the least number faster than it compares pairs.

    On two cores 4096x1024 take 2 instead of 9-12 ms; columns of 16x262144 15 instead of 1, and those of 64x65536 18
    instead of 10; rows of int32 of 16384x1024 12 instead of 7.
    """
    n, others = x.shape[axis], x.shape[axis + 1 :]
    if not all(isinstance(size, int) for size in x.shape):
        return False
    is_vectorised = jnp.issubdtype(x.dtype, jnp.floating) or x.dtype.itemsize == 1 or prod(others) > 1
    return is_vectorised and 16 < n <= 2**24 and prod(others) < 2**15


def _number(x: jax.Array, axis: int, start: Any, end: End) -> tuple[jax.Array, jax.Array]:
    """Extremes, and where each lies: the least number of those that are as extreme, negative ones for NaNs.

    XLA:CPU vectorises the least of floats, and of no integers.
    """
    n, number = x.shape[axis], lax.broadcasted_iota(np.float32, x.shape, axis)
    value = _CHOOSE[end](x, axis, keepdims=True)
    numbers = jnp.where(x == value, number, np.float32(np.inf))
    if jnp.issubdtype(x.dtype, jnp.floating):
        numbers = jnp.where(x != x, number - n, numbers)
    least = jnp.min(numbers, axis, keepdims=True)
    if jnp.issubdtype(x.dtype, jnp.floating):
        value = jnp.where(least < 0, np.asarray(np.nan, x.dtype), value)
    return value, jnp.where(least < 0, least + n, least).astype(np.uint32) + jnp.asarray(start, np.uint32)


def _compete(values: jax.Array, places: jax.Array, axis: int, end: End) -> jax.Array:
    """Where the winners lie, in one pass over pairs of a value and its place."""
    beats, dtype = _BEATS[end], values.dtype
    is_float = jnp.issubdtype(dtype, jnp.floating)
    limits = (-np.inf, np.inf) if is_float else (jnp.iinfo(dtype).min, jnp.iinfo(dtype).max)

    def better(one: Sequence[jax.Array], other: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
        (a, i), (b, j) = one, other
        wins = beats(a, b) | (a != a) & (b == b)
        ties = (a == b) | (a != a) & (b != b)
        is_one = wins | ties & (i < j)
        return jnp.where(is_one, a, b), jnp.where(is_one, i, j)

    worst = np.asarray(limits[0 if end == "greatest" else 1], dtype), np.uint32(2**32 - 1)
    return jnp.expand_dims(lax.reduce((values, places), worst, better, (axis,))[1], axis)
