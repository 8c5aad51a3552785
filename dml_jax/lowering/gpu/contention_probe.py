"""Sums of updates of which many may write one row, or few: a sample of them tells while the program runs."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from ..plain.reduction import Reduction
from ..plain.rows import Rows, Write
from ..plain.scatter_reduce import combine_at_once
from .fan_out import fill_fanned_out
from .sorted_segments import combine_in_runs

__all__ = ["combine_by_sample", "many_meet"]

SAMPLE = 4096
OFTEN = 16  # of the sample: one update of 256 writes this row
BUCKETS = 2**16
# The odd number next to 2**32 / 1.618: its multiples, modulo 2**32, are spread evenly whatever repeats among updates.
GOLDEN = 2654435769


def combine_by_sample(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, *data: jax.Array
) -> jax.Array:
    """Adds all at once where few updates meet, and in runs where many do."""
    rows = Rows(shape, write)
    in_runs, at_once = (partial(form, shape, write, reduction) for form in (combine_in_runs, combine_at_once))
    few = partial(at_once, fill=fill_fanned_out)
    return lax.cond(many_meet(rows.row_of_each(indices), rows.count), in_runs, few, indices, *data)


def many_meet(rows: jax.Array, count: int) -> jax.Array:
    """Whether a row may be written by one update of 256 or more; rarely true where none is, as rows share buckets.

    Args:
      rows: the row of each update, at least one; `count` for one that is dropped, which meets none.
      count: of rows.
    """
    golden = jnp.uint32(GOLDEN)
    at = lax.iota(jnp.uint32, SAMPLE) * golden % jnp.uint32(rows.shape[0])
    some = rows.at[at.astype(jnp.int32)].get(mode="promise_in_bounds")
    bucket = (some.astype(jnp.uint32) * golden // jnp.uint32(2**32 // BUCKETS)).astype(jnp.int32)
    written = (some < count).astype(jnp.int32)
    return jnp.zeros(BUCKETS, jnp.int32).at[bucket].add(written, mode="promise_in_bounds").max() >= OFTEN
