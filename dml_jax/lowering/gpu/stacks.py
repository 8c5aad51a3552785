"""Puts arrays side by side: one thread of XLA:GPU has all of them, and writes all parts or chooses one."""

from collections.abc import Sequence
from math import prod

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["LONGEST_STACK", "choose_one", "concatenate_rows"]

# Parts of a concatenation that XLA:GPU writes in one thread.
LONGEST_STACK = 4


def concatenate_rows(parts: Sequence[jax.Array], axis: int) -> jax.Array:
    """Concatenates along an axis: up to `LONGEST_STACK` flat rows, which one thread writes, one element of each."""
    before, after = parts[0].shape[:axis], parts[0].shape[axis + 1 :]
    rows = [part.reshape(prod(before), prod(part.shape[axis:])) for part in parts]
    return jnp.concatenate(rows, axis=1).reshape(*before, sum(part.shape[axis] for part in parts), *after)


def choose_one(parts: Sequence[jax.Array], axis: int) -> jax.Array:
    """Stacks along a new axis: every thread has all parts and takes the one of its coordinate."""
    shape = (*parts[0].shape[:axis], len(parts), *parts[0].shape[axis:])
    coordinate = lax.broadcasted_iota(jnp.int32, shape, axis)
    result, *others = (jnp.expand_dims(part, axis) for part in parts)
    for number, part in enumerate(others, 1):
        result = jnp.where(coordinate == number, part, result)
    return result
