"""What XLA:CPU compiles alone: it fuses nothing with a branch, which runs in one thread, nor with a loop."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .bits import as_bits, fence, hide_constant
from .bounded import SHORT, never_one
from .forms import known_bytes

__all__ = ["copy_in_a_loop", "has_short_rows", "in_branch", "materialize", "slice_runs"]


def in_branch(move: Callable[[jax.Array], jax.Array], array: jax.Array) -> jax.Array:
    """`move(array)`, from a branch that is always taken."""
    return lax.cond(hide_constant(True), move, lambda array: jnp.zeros_like(move(array)), array)


def copy_in_a_loop(array: jax.Array) -> jax.Array:
    """The same elements, each chosen by a condition that XLA does not know, and so by a loop over all of them."""
    return lax.select(hide_constant(True), array, jnp.zeros_like(array))


def materialize(array: jax.Array) -> jax.Array:
    """The same integers, one at least, stored before anything reads them, as they enter a loop that never runs."""
    runs = never_one(array.reshape(-1)[0]) != 0
    return lax.while_loop(lambda state: state[0], lambda state: (~state[0], state[1] + 1), (runs, array))[1]


def slice_runs(array: jax.Array, start: int, size: int, axis: int) -> jax.Array:
    """Elements [start, start + size) along an axis: the dimensions from there on as one, whose loop is long."""
    sizes, run = array.shape, prod(array.shape[axis + 1 :])

    def cut(_: None, array: jax.Array) -> jax.Array:
        return lax.slice_in_dim(array, start * run, (start + size) * run, axis=1)

    # Casts outside of the branch would be passes of their own.
    flat = in_branch(partial(as_bits(fence(cut)), None), array.reshape(prod(sizes[:axis]), sizes[axis] * run))
    return flat.reshape(*sizes[:axis], size, *sizes[axis + 1 :])


def has_short_rows(array: Any, axis: int) -> bool:
    """Whether a slice along an axis copies runs of rows whose loops are short, of sizes that are known."""
    return known_bytes(array) > 0 and axis < array.ndim - 1 and array.shape[-1] < SHORT.stop
