"""Promises of a caller about indices: XLA relies on them, and jax.experimental.checkify checks them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.checkify import debug_check

from .gather import read_of
from .programs.primitive import by_target
from .scatter_rows import Rows, Write
from .values.checkify_only import show_to_checkify


@dataclass(frozen=True)
class Promises:
    """The promises of one call.

    Args:
      unique_indices: no two indices in range address one element, after wrapping and clamping.
      indices_are_sorted: the indices ascend in row-major order, and none is negative.
      deterministic: a wish rather than a promise: sums of floats shall have the same bits in every run.
    """

    unique_indices: bool = False
    indices_are_sorted: bool = False
    deterministic: bool = False


def show_indices(indices: jax.Array, shape: tuple[int, ...], write: Write) -> jax.Array:
    """Returns the same indices. checkify then reports indices out of range, and with user_checks broken promises.

    Args:
      indices: not negative unless out of range, as lax.scatter takes them.
      shape: of the array that they address.
      write: the arguments of lax.scatter.
    """

    def check(indices: jax.Array) -> None:
        read = replace(read_of(write), mode="clip", indices_are_sorted=False)
        read(indices, jnp.zeros(shape, jnp.int8))  # which index_checks look at
        if write.indices_are_sorted:
            ascend = _once_lowered(lambda indices: ~_descend(indices, write))
            debug_check(ascend(indices), "indices_are_sorted was promised, but indices descend")
        rows = Rows(shape, write)
        if write.unique_indices and rows.are_numbered(indices):
            differ = _once_lowered(lambda indices: ~_meet(indices, rows))
            debug_check(differ(indices), "unique_indices was promised, but two indices address one element")

    return show_to_checkify(check, indices)


def _once_lowered(is_kept: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """Whether a promise is kept, traced only for a program that checks it."""
    return by_target(lambda _: is_kept, is_kept, result=jax.ShapeDtypeStruct((), bool))


def _meet(indices: jax.Array, rows: Rows) -> jax.Array:
    """Whether two indices address one row."""
    row = lax.sort(rows.row_of_each(indices))
    # Sorted, equal rows are neighbours. Updates that are dropped share the number `count`, which is no row.
    return jnp.any((row[1:] == row[:-1]) & (row[1:] < rows.count))


def _descend(indices: jax.Array, write: Write) -> jax.Array:
    """Whether any index tuple is less than the one before it in the same batch."""
    batch = prod(indices.shape[d] for d in write.slices.indices_along)
    tuples = indices.reshape(batch, -1, indices.shape[-1])
    before, after = tuples[:, :-1], tuples[:, 1:]
    descends, alike = jnp.zeros(before.shape[:2], bool), jnp.ones(before.shape[:2], bool)
    # As words in a dictionary: [0, 5] is less than [1, 2], and a later coordinate decides only where all before tie.
    for t in range(indices.shape[-1]):
        descends |= alike & (before[..., t] > after[..., t])
        alike &= before[..., t] == after[..., t]
    return jnp.any(descends)
