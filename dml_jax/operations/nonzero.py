"""Indices of the True elements (nonzero)."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .programs.primitive import Move
from .programs.variant_selection import choose, known_bytes, shapes_of


@dataclass(frozen=True)
class NonzeroCase:
    """One search of flags, for the choice between implementations.

    Args:
      flags: shape and type.
      devices: among which XLA may divide an array.
    """

    flags: Any
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of the flags and the indices; 0 without flags, or if their number is symbolic."""
        known = known_bytes(self.flags)
        return known + known_bytes(self.result) if known else 0

    @property
    def plain(self) -> Move:
        """The plain implementation."""
        return _one_by_one

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type of the indices."""
        return jax.ShapeDtypeStruct(self.flags.shape, jnp.uint32)


def numbers_set(is_set: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The count of True elements, and their indices in ascending order, padded with 0 to the number of flags.

    Args:
      is_set: (n,), bools, fewer than 2**32.
    """
    return is_set.sum(dtype=jnp.uint32), choose("nonzero", partial(NonzeroCase, *shapes_of(is_set)))(None, is_set)


def _one_by_one(_: None, is_set: jax.Array) -> jax.Array:
    """Each True element finds its place by a cumulative sum, and writes its index there; a sort takes longer."""
    # [False, True, True] have the places [-1, 0, 1]. The indices 1 and 2 are written to places 0 and 1: [1, 2, 0].
    # The False writes to place 3, out of range, and is dropped.
    place = jnp.cumsum(is_set, dtype=jnp.uint32) - 1
    number = lax.iota(jnp.uint32, is_set.shape[0])
    at = jnp.where(is_set, place, jnp.asarray(is_set.shape[0], jnp.uint32))
    return jnp.zeros_like(number).at[at].set(number, mode="drop", unique_indices=True)
