"""Scatters that reduce, with their derivatives: add, mul, min, max and mean.

Where `input` takes no part, the updates are combined with one another, and an element that none addresses keeps its
value. For input [5, 3, 4], indices [0, 0, 1] and updates [2, 8, 5]:

    add    with input 15 8 4    without 10 5 4
    mean   with input  5 4 4    without  5 5 4      sums divided by 3 2 1, or by 2 1, and 4 as it is
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from .gather import read_of, reading
from .programs.primitive import linear
from .scatter_combiners import ADD, MAX, MIN, MUL, Reduction
from .scatter_reduce import scatter_reduce
from .scatter_rows import Rows, Write, check_sortable
from .values.accumulation_types import narrow_apart, wide_type, widen_apart
from .values.bit_exact import as_guarded_bits, carry_bits

# Takes the indices, then the table unless it holds the identity of the reduction, then the updates.
Reduced = Callable[..., jax.Array]


def reduce_slices(
    indices: jax.Array, input: jax.Array, updates: jax.Array, write: Write, reduction: str, includes_input: bool
) -> jax.Array:
    """Copies `input` and combines its elements with `updates` where `indices` say.

    Args:
      indices: in the rank that lax.scatter wants.
      input: any dtype with the numbers that the reduction needs.
      updates: of the dtype of `input`.
      write: how.
      reduction: "add", "mul", "min", "max" or "mean".
      includes_input: whether an element of `input` takes part; else it is only kept where no update addresses it.
    """
    input, updates = jnp.asarray(input), jnp.asarray(updates)
    data = (input, updates) if includes_input else (updates,)
    if includes_input and reduction != "mean":
        return _combine(indices, data, input.shape, write, reduction)
    counts = _count_updates(indices, input.shape, updates, write)
    # The input is one more term of its mean.
    if reduction == "mean":
        combined = _mean(indices, data, input.shape, write, counts + int(includes_input))
    else:
        combined = _combine(indices, data, input.shape, write, reduction)
    is_reached = jnp.broadcast_to(counts > 0, input.shape)
    return carry_bits(jnp.where, is_reached, combined, input, carry=as_guarded_bits)


def _combine(
    indices: jax.Array, data: Sequence[jax.Array], shape: tuple[int, ...], write: Write, reduction: str
) -> jax.Array:
    """Combines the table, unless it holds the identity, and the updates; bools as NumPy does."""
    dtype = data[-1].dtype
    if dtype == jnp.bool_:
        extreme = {"add": "max", "mul": "min"}.get(reduction, reduction)  # add and max are "or", mul and min "and"
        numbers = _combine(indices, [x.astype(jnp.int8) for x in data], shape, write, extreme)
        return numbers.astype(jnp.bool_)
    if not jnp.issubdtype(dtype, jnp.inexact):
        return scatter_reduce(indices, data, shape, write, _KINDS[reduction])
    return _REDUCTIONS[reduction](shape, write)(indices, *data)


def _mean(
    indices: jax.Array, data: Sequence[jax.Array], shape: tuple[int, ...], write: Write, counts: jax.Array
) -> jax.Array:
    """Sums in 32 bits at least, divided and rounded once: floats to the nearest, integers towards minus infinity."""
    dtype, is_integer = data[-1].dtype, jnp.issubdtype(data[-1].dtype, jnp.integer)
    wide = jnp.int32 if is_integer and dtype.itemsize < 4 else wide_type(dtype)
    total = _combine(indices, [widen_apart(x, wide) for x in data], shape, write, "add")
    # Elements that no update addresses are replaced afterwards; 0 / 0 would make NaN of their derivatives.
    divisors = jnp.maximum(counts, 1).astype(wide)
    return narrow_apart(total // divisors if is_integer else total / divisors, dtype)


def _count_updates(indices: jax.Array, shape: tuple[int, ...], updates: jax.Array, write: Write) -> jax.Array:
    """How many updates address each element; of size 1 along dimensions that updates have whole: all counts agree."""
    slices = write.slices
    ones = jnp.ones([1 if d in slices.placed else n for d, n in enumerate(updates.shape)], jnp.int32)
    shape = tuple(1 if d in slices.whole else n for d, n in enumerate(shape))
    if shards := write.shards:
        table, of_updates = _but(shards.table, slices.whole), _but(shards.slices, slices.placed)
        write = replace(write, shards=replace(shards, table=table, slices=of_updates))
    return scatter_reduce(indices, (ones,), shape, write, ADD)


def _but(spec: PartitionSpec, dims: Sequence[int]) -> PartitionSpec:
    """The sharding of an array that has size 1 along some dimensions."""
    return PartitionSpec(*(None if d in dims else axes for d, axes in enumerate(spec)))


def _added(shape: tuple[int, ...], write: Write) -> Reduced:
    def forward(indices: jax.Array, *data: jax.Array) -> jax.Array:
        return scatter_reduce(indices, data, shape, write, ADD)

    def back(indices: jax.Array, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [*[cotangent] * (len(like) - 1), reading(read_of(write))(indices, cotangent)]

    return linear(forward, back)


def _multiplied(shape: tuple[int, ...], write: Write) -> Reduced:
    @jax.custom_jvp
    def multiplied(indices: jax.Array, *data: jax.Array) -> jax.Array:
        return scatter_reduce(indices, data, shape, write, MUL)

    @multiplied.defjvp
    def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        indices, *data = primals
        others = _products_of_others(indices, data, shape, write, multiplied)
        moved = [factor * dot for factor, dot in zip(others, tangents[1:], strict=True)]
        return multiplied(*primals), _added(shape, write)(indices, *moved)

    return multiplied


def _products_of_others(
    indices: jax.Array, data: Sequence[jax.Array], shape: tuple[int, ...], write: Write, multiplied: Reduced
) -> Sequence[jax.Array]:
    """The product of all other factors, for each element of the table and each update, without dividing by a factor."""
    *table, updates = data
    check_sortable("the derivative of mul", indices, shape, write)
    rows, wide = Rows(shape, write), wide_type(updates.dtype)
    # Sorted, the factors of a row lie together. The factors 2, 3, 0 have the products 1, 2, 6 before them and 0, 0, 1
    # after them. Both together make the products of all other factors, 0, 0, 6, without a division by 0.
    numbers, order = lax.sort((rows.row_of_each(indices), lax.iota(jnp.int32, updates.size // rows.width)), num_keys=1)
    is_kept = (numbers < rows.count)[:, None]
    factors = jnp.where(is_kept, rows.fold_updates(updates).astype(wide)[order], 1)
    starts = jnp.concatenate([jnp.ones(1, bool), numbers[1:] != numbers[:-1]])
    ends = jnp.concatenate([starts[1:], jnp.ones(1, bool)])
    ones = jnp.ones((1, rows.width), wide)

    def before(factors: jax.Array, starts: jax.Array) -> jax.Array:
        """The product of the factors before each one in its row."""
        shifted = jnp.where(starts[:, None], ones, jnp.concatenate([ones, factors[:-1]]))
        return lax.associative_scan(_joined_runs, (starts[:, None], shifted))[1]

    others = before(factors, starts) * before(factors[::-1], ends[::-1])[::-1]
    # The element of the table is a factor, too. For an update that is dropped it is 0: nothing flows back to it.
    held = [rows.fold(x).astype(wide).at[numbers].get(mode="fill", fill_value=0) for x in table]
    first = held[0] if held else is_kept.astype(wide)
    unsorted = jnp.zeros_like(others).at[order].set(others * first, unique_indices=True)
    of_updates = narrow_apart(_unfold_updates(unsorted, updates, rows), updates.dtype)
    return [*(multiplied(indices, updates) for _ in table), of_updates]


def _joined_runs(left: tuple[jax.Array, jax.Array], right: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    return left[0] | right[0], jnp.where(right[0], right[1], left[1] * right[1])


def _unfold_updates(folded: jax.Array, updates: jax.Array, rows: Rows) -> jax.Array:
    """Undoes `Rows.fold_updates`."""
    window = rows.slices.placed
    order = [*(d for d in range(updates.ndim) if d not in window), *window]
    return folded.reshape([updates.shape[d] for d in order]).transpose([order.index(d) for d in range(updates.ndim)])


def _extreme(kind: Reduction, shape: tuple[int, ...], write: Write) -> Reduced:
    """Minima or maxima; all numbers that equal the result share its derivative."""

    @jax.custom_jvp
    def extreme(indices: jax.Array, *data: jax.Array) -> jax.Array:
        return scatter_reduce(indices, data, shape, write, kind)

    @extreme.defjvp
    def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        indices, *data = primals
        result, wide = extreme(*primals), wide_type(data[-1].dtype)

        def of_each(result: jax.Array) -> Sequence[jax.Array]:
            """The value of an element, once for its element of the table and once for each update that it combines."""
            return [*[result] * (len(data) - 1), reading(read_of(write))(indices, result)]

        # Compared as sort keys, in which NaN equals NaN, so that a NaN that wins has a derivative.
        wins = [kind.encode(x) == best for x, best in zip(data, of_each(kind.encode(result)), strict=True)]
        # Both 7 of [5, 7, 7] get half of the derivative of the maximum: a scatter-add of ones counts the winners.
        count = scatter_reduce(indices, [each.astype(jnp.int32) for each in wins], shape, write, ADD)
        shares = of_each(1 / jnp.maximum(count, 1).astype(wide))
        moved = [
            (jnp.where(is_best, share, 0) * dot.astype(wide)).astype(dot.dtype)
            for is_best, share, dot in zip(wins, shares, tangents[1:], strict=True)
        ]
        return result, _added(shape, write)(indices, *moved)

    return extreme


_KINDS = {"add": ADD, "mul": MUL, "min": MIN, "max": MAX}
_REDUCTIONS: dict[str, Callable[[tuple[int, ...], Write], Reduced]] = {
    "add": _added,
    "mul": _multiplied,
    "min": partial(_extreme, MIN),
    "max": partial(_extreme, MAX),
}
