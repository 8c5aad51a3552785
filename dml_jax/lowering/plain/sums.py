"""What numbers along dimensions that stay, of size 1, make together: sums, products and norms."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..cpu.cache_chunks import FLOAT8, FRESH, choose_chunks, fold_rows, map_chunks, row_size
from ..forms import Choice
from ..values.accumulation_types import computed_type, narrow_apart, widen_apart

__all__ = ["TABLE", "total"]

Axes = tuple[int, ...]

# On two cores of an EPYC, 16,777,216 elements of 16384x1024, along rows / columns; milliseconds.
TABLE = (
    Choice(
        "cpu",
        "row_by_row",
        {
            "dtype": {"float16", "bfloat16", "float32"},
            "function": {"average", "l1", "l2", "log_sum", "sum", "sum_square"},
            "side_by_side": range(2**15, 2**62),
            "jaxlib": range(11),
        },
        "sums along axis 0 of 16x262144 0.4-0.7, plain 13; of 128x32768 0.5-0.7, plain 7; of 256x16384 both 0.6. With"
        " jaxlib 0.11 and 0.12 half as fast as plain",
    ),
    Choice(
        "cpu",
        "chunks",
        {"dtype": {"float16", *FLOAT8}, "wide_bytes": FRESH},
        "sums of float16 2.6 / 3.0, plain 18 / 19; their log_sum_exp 6.2 / 6.6, plain 22 / 22; float8 5.1 / 5.5, plain "
        "18 / 18",
    ),
    Choice(
        "cpu",
        "chunks",
        {"dtype": {"bfloat16"}, "function": {"log_sum_exp", "multiply"}, "wide_bytes": range(2**26, 2**62)},
        "products 5.2 / 3.3, plain 20 / 21; log_sum_exp 6.2 / 6.9, plain 18 / 19. Half of it, and other sums, plain",
    ),
    Choice(
        "cpu",
        "chunks",
        {"dtype": {"int16", "int32", "uint16", "uint32"}, "function": {"l1", "sum_square"}, "wide_bytes": FRESH},
        "squares of int32 4.7 / 4.2, plain 22 / 21; of int16 3.2 / 2.4, plain 14 / 13. Sums plain 1-2, chunks 2-3",
    ),
)


def _sum(x: jax.Array, axes: Axes) -> jax.Array:
    return jnp.sum(x, axes, dtype=x.dtype, keepdims=True)


def _product(x: jax.Array, axes: Axes) -> jax.Array:
    return jnp.prod(x, axes, dtype=x.dtype, keepdims=True)


def _log_sum_exp(x: jax.Array, axes: Axes) -> jax.Array:
    return jax.scipy.special.logsumexp(x, axes, keepdims=True)


@jax.custom_jvp
def _size(x: jax.Array) -> jax.Array:
    """The absolute value, whose derivative at 0 is 0."""
    return jnp.abs(x)


_size.defjvps(lambda dot, _, x: jnp.sign(x) * dot)


def _mean(sum_: jax.Array, count: Any) -> jax.Array:
    return sum_ / jnp.asarray(count, sum_.dtype)


def _root(sum_: jax.Array, _: Any) -> jax.Array:
    """A norm whose derivative is 0 where all elements are 0, like that of absolute values."""
    is_zero = sum_ == 0
    return jnp.where(is_zero, 0, jnp.sqrt(jnp.where(is_zero, 1, sum_)))


class _Total(NamedTuple):
    """How wide numbers are combined, all at once or chunk by chunk.

    Args:
      combine: along axes; what it makes of chunks it combines again.
      of: what is combined, of each number.
      finish: takes what all make together, and how many they are.
    """

    combine: Callable[[jax.Array, Axes], jax.Array] = _sum
    of: Callable[[jax.Array], jax.Array] = lambda x: x
    finish: Callable[[jax.Array, Any], jax.Array] = lambda x, _: x


_TOTALS: Mapping[str, _Total] = {
    "average": _Total(finish=_mean),
    "l1": _Total(of=_size),
    "l2": _Total(of=jnp.square, finish=_root),
    "log_sum": _Total(finish=lambda x, _: jnp.log(x)),
    "log_sum_exp": _Total(_log_sum_exp),
    "multiply": _Total(_product),
    "sum": _Total(),
    "sum_square": _Total(of=jnp.square),
}


def total(x: jax.Array, axes: Axes, function: str) -> jax.Array:
    """A number of the type of `x` for all along `axes`: narrow floats are combined in float32, and rounded once.

    Args:
      x: numbers.
      axes: each once, from 0 on.
      function: "average", "l1", "l2", "log_sum", "log_sum_exp", "multiply", "sum" or "sum_square".
    """
    combine, of, finish = _TOTALS[function]
    count, wide = prod(x.shape[axis] for axis in axes), jnp.int8 if x.dtype == jnp.bool_ else computed_type(x.dtype)

    def whole(x: jax.Array) -> jax.Array:
        return narrow_apart(finish(combine(of(widen_apart(x, wide)), axes), count), x.dtype)

    def by_chunks(x: jax.Array) -> jax.Array:
        found = map_chunks(lambda x, _: combine(of(x), axes), x, wide)
        return finish(combine(found, axes), count).astype(x.dtype)

    def by_rows(x: jax.Array) -> jax.Array:
        add = lax.mul if function == "multiply" else lax.add
        return finish(fold_rows(add, of, x, axes[0], wide), count).astype(x.dtype)

    others: dict[str, Callable[[jax.Array], jax.Array]] = {"chunks": by_chunks}
    if len(axes) == 1 and combine is not _log_sum_exp:
        others["row_by_row"] = by_rows
    return choose_chunks(whole, others, TABLE, {"function": function, "side_by_side": row_size(x, axes)})(x)
