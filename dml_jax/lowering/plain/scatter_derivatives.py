"""Scatters that reduce, with their derivatives: add, mul, min and max."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..primitive import linear
from ..values.accumulation_types import narrow_apart, wide_type
from .gather import read_of, reading
from .reduction import ADD, MAX, MIN, MUL, Reduction
from .rows import Rows, Write, check_sortable
from .scatter_reduce import scatter_reduce

__all__ = ["reduce_slices"]


def reduce_slices(indices: jax.Array, input: jax.Array, updates: jax.Array, write: Write, reduction: str) -> jax.Array:
    """Copies `input` and combines `updates` with what is there, where `indices` say.

    Args:
      indices: in the rank that lax.scatter wants.
      input: any dtype with the numbers that the reduction needs.
      updates: of the dtype of `input`.
      write: how.
      reduction: "add", "mul", "min" or "max".
    """
    input, updates = jnp.asarray(input), jnp.asarray(updates)
    if input.dtype == jnp.bool_:
        return _of_bools(indices, input, updates, write, reduction)
    if not jnp.issubdtype(input.dtype, jnp.inexact):
        return scatter_reduce(indices, input, updates, input.shape, write, _KINDS[reduction])
    return _REDUCTIONS[reduction](write)(indices, input, updates)


def _of_bools(indices: jax.Array, input: jax.Array, updates: jax.Array, write: Write, reduction: str) -> jax.Array:
    """As NumPy has them: add and max are "or", mul and min "and"."""
    extreme = {"add": "max", "mul": "min"}.get(reduction, reduction)
    numbers = reduce_slices(indices, input.astype(jnp.int8), updates.astype(jnp.int8), write, extreme)
    return numbers.astype(jnp.bool_)


Reduced = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def _added(write: Write) -> Reduced:
    def forward(indices: jax.Array, input: jax.Array, updates: jax.Array) -> jax.Array:
        return scatter_reduce(indices, input, updates, input.shape, write, ADD)

    def back(indices: jax.Array, cotangent: jax.Array, _: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [cotangent, reading(read_of(write))(indices, cotangent)]

    return linear(forward, back)


def _multiplied(write: Write) -> Reduced:
    @jax.custom_jvp
    def multiplied(indices: jax.Array, input: jax.Array, updates: jax.Array) -> jax.Array:
        return scatter_reduce(indices, input, updates, input.shape, write, MUL)

    @multiplied.defjvp
    def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        indices, input, updates = primals
        of_input, of_updates = _products_of_others(indices, input, updates, write, multiplied)
        _, input_dot, updates_dot = tangents
        moved = _added(write)(indices, of_input * input_dot, of_updates * updates_dot)
        return multiplied(*primals), moved

    return multiplied


def _products_of_others(
    indices: jax.Array, input: jax.Array, updates: jax.Array, write: Write, multiplied: Reduced
) -> tuple[jax.Array, jax.Array]:
    """What each element of `input`, and each update, is multiplied with; no division, so that zeros are exact."""
    check_sortable("the derivative of mul", indices, input.shape, write)
    rows, wide = Rows(input.shape, write), wide_type(input.dtype)
    numbers, order = lax.sort((rows.row_of_each(indices), lax.iota(jnp.int32, updates.size // rows.width)), num_keys=1)
    is_kept = (numbers < rows.count)[:, None]
    factors = jnp.where(is_kept, rows.fold_updates(updates).astype(wide)[order], 1)
    starts = jnp.concatenate([jnp.ones(1, bool), numbers[1:] != numbers[:-1]])
    ends = jnp.concatenate([starts[1:], jnp.ones(1, bool)])
    one = jnp.ones((1, rows.width), wide)

    def before(factors: jax.Array, starts: jax.Array) -> jax.Array:
        """The product of the factors before each one in its run."""
        shifted = jnp.where(starts[:, None], one, jnp.concatenate([one, factors[:-1]]))
        return lax.associative_scan(_joined_runs, (starts[:, None], shifted))[1]

    others = before(factors, starts) * before(factors[::-1], ends[::-1])[::-1]
    held = rows.fold(input).astype(wide).at[numbers].get(mode="fill", fill_value=0)
    unsorted = jnp.zeros_like(others).at[order].set(others * held, unique_indices=True)
    of_updates = narrow_apart(_unfold_updates(unsorted, updates, rows), input.dtype)
    return multiplied(indices, jnp.ones_like(input), updates), of_updates


def _joined_runs(one: tuple[jax.Array, jax.Array], other: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    return one[0] | other[0], jnp.where(other[0], other[1], one[1] * other[1])


def _unfold_updates(folded: jax.Array, updates: jax.Array, rows: Rows) -> jax.Array:
    """Undoes `Rows.fold_updates`."""
    window = rows.slices.placed
    order = [*(d for d in range(updates.ndim) if d not in window), *window]
    return folded.reshape([updates.shape[d] for d in order]).transpose([order.index(d) for d in range(updates.ndim)])


def _extreme(kind: Reduction, write: Write) -> Reduced:
    """The derivative is shared by all that are as extreme as the result."""

    @jax.custom_jvp
    def extreme(indices: jax.Array, input: jax.Array, updates: jax.Array) -> jax.Array:
        return scatter_reduce(indices, input, updates, input.shape, write, kind)

    @extreme.defjvp
    def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        indices, input, updates = primals
        found, wide = extreme(*primals), wide_type(input.dtype)
        read = reading(read_of(write))
        wins = kind.encode(input) == kind.encode(found)
        update_wins = kind.encode(updates) == read(indices, kind.encode(found))
        winners, update_winners = wins.astype(jnp.int32), update_wins.astype(jnp.int32)
        count = scatter_reduce(indices, winners, update_winners, input.shape, write, ADD).astype(wide)
        share = 1 / jnp.maximum(count, 1)
        shares = [jnp.where(wins, share, 0), jnp.where(update_wins, read(indices, share), 0)]
        _, *dots = tangents
        moved = [(share * dot.astype(wide)).astype(dot.dtype) for share, dot in zip(shares, dots, strict=True)]
        return found, _added(write)(indices, *moved)

    return extreme


_KINDS = {"add": ADD, "mul": MUL, "min": MIN, "max": MAX}
_REDUCTIONS: dict[str, Callable[[Write], Reduced]] = {
    "add": _added,
    "mul": _multiplied,
    "min": partial(_extreme, MIN),
    "max": partial(_extreme, MAX),
}
