"""Moves that XLA:CPU compiles alone: it fuses what is in a branch with nothing outside, and runs it in one thread."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .bits import as_bits, hide_constant
from .bounded import SHORT
from .forms import known_bytes

__all__ = ["copy_in_a_loop", "has_short_rows", "in_branch", "slice_runs"]


def in_branch(move: Callable[[jax.Array], jax.Array], array: jax.Array) -> jax.Array:
    """`move(array)`, with its bits, from a branch that is always taken. Casts outside would be passes of their own."""
    keep_bits = partial(as_bits(lambda _, array: move(array)), None)
    return lax.cond(hide_constant(True), keep_bits, lambda array: jnp.zeros_like(move(array)), array)


def copy_in_a_loop(array: jax.Array) -> jax.Array:
    """The same elements, each chosen by a condition that XLA does not know, and so by a loop over all of them."""
    return lax.select(hide_constant(True), array, jnp.zeros_like(array))


def slice_runs(array: jax.Array, start: int, size: int, axis: int) -> jax.Array:
    """Elements [start, start + size) along an axis: the dimensions from there on as one, whose loop is long."""
    sizes, run = array.shape, prod(array.shape[axis + 1 :])
    cut = partial(lax.slice_in_dim, start_index=start * run, limit_index=(start + size) * run, axis=1)
    flat = in_branch(cut, array.reshape(prod(sizes[:axis]), sizes[axis] * run))
    return flat.reshape(*sizes[:axis], size, *sizes[axis + 1 :])


def has_short_rows(array: Any, axis: int) -> bool:
    """Whether a slice along an axis copies runs of rows whose loops are short, of sizes that are known."""
    return known_bytes(array) > 0 and axis < array.ndim - 1 and array.shape[-1] < SHORT.stop
