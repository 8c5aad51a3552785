"""Sums of single elements on GPUs: additions to one address follow each other, so what is met often is added up apart.

A sample of each row tells which eight of its elements are met most often. With one instead of eight, of the row of
updates 5 1 2 4 8 to the elements 7 7 3 7 7:

    to element 7: 5 + 1 + 4 + 8, by a reduction of the row; to element 3: 2, by a scatter that drops all others
"""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..plain.reduction import Reduction
from ..plain.rows import Rows, Write
from ..plain.scatter_reduce import combine_at_once
from ..values.accumulation_types import narrow_apart, wide_type
from .fan_out import fill_fanned_out

__all__ = ["APART", "SAMPLE", "add_hottest_apart", "length_of_rows", "met_most_often"]

SAMPLE = 64  # of each row
APART = 8
OFTEN = 8  # times in a sample, in the mean, that its first element is there; where it is fewer, the scatter is as fast


def length_of_rows(write: Write, updates: jax.Array) -> int:
    """How many updates each row of the last dimension has; 0 if they write along another dimension."""
    last = updates.ndim - 1
    return updates.shape[-1] if updates.ndim and write.slices.indexed == (last,) else 0


def add_hottest_apart(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Adds to zeros: all at once, or what is met most often apart, if a sample says that this is much."""
    at = _numbers(shape, write, indices, updates)
    often, times = met_most_often(at[:, :: at.shape[1] // SAMPLE][:, :SAMPLE], prod(shape))
    at_once = partial(combine_at_once, shape, write, reduction, fill=fill_fanned_out)
    return lax.cond(
        times.sum() >= OFTEN * often.shape[0],
        partial(_add_apart, shape, write),
        lambda _, *given: at_once(*given),
        often,
        indices,
        updates,
    )


def _numbers(shape: tuple[int, ...], write: Write, indices: jax.Array, updates: jax.Array) -> jax.Array:
    return Rows(shape, write).element_of_each(indices).reshape(-1, length_of_rows(write, updates))


def _add_apart(
    shape: tuple[int, ...], write: Write, often: jax.Array, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    at, count = _numbers(shape, write, indices, updates), prod(shape)
    numbers = updates.reshape(at.shape).astype(wide_type(updates.dtype))
    is_apart = [at == often[:, which, None] for which in range(APART)]
    sums = [jnp.where(chosen, numbers, 0).sum(1, dtype=numbers.dtype) for chosen in is_apart]
    others = jnp.where(sum(is_apart[1:], is_apart[0]), np.int32(count), at)
    zeros = fill_fanned_out(np.zeros((), numbers.dtype), (count,))
    made = zeros.at[others.reshape(-1)].add(numbers.reshape(-1), mode="drop")
    made = made.at[often].add(jnp.stack(sums, 1), mode="drop").reshape(shape)
    return narrow_apart(made, updates.dtype)


def met_most_often(some: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Of each sample the elements that it has most often, `count` for none, and how often it has the first of them.

    Args:
      some: the numbers of elements, a row per sample; `count` for one that is dropped.
      count: of elements.
    """
    place, turn = (np.arange(n, dtype=np.int32) for n in (SAMPLE, APART))
    is_same = some[:, :, None] == some[:, None, :]
    times = jnp.where(some < count, is_same.sum(2, dtype=jnp.int32), 0)
    is_first = ~(is_same & (place[:, None] > place)[None]).any(2)
    # No two are alike but 0, so that each has a rank: to choose one after the other would take longer than the sums.
    key = jnp.where(is_first & (times > 1), times * np.int32(SAMPLE) - place[None], 0)
    rank = (key[:, None, :] > key[:, :, None]).sum(2, dtype=jnp.int32)
    is_chosen = (rank[:, None, :] == turn[None, :, None]) & (key > 0)[:, None, :]
    return jnp.where(is_chosen, some[:, None, :], np.int32(count)).min(2), times.max(1)
