"""Fills with one number, and selects between two numbers by a mask."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from .data_movement import back_with_number, move_elements
from .programs.partition import known_shards, on_each_device
from .programs.primitive import Back, linear
from .values.bit_exact import as_guarded_bits


@dataclass(frozen=True)
class Fill:
    """The move of one number to everywhere in an array of `sizes`."""

    sizes: tuple[Any, ...]

    def __call__(self, _: Any, value: jax.Array) -> jax.Array:
        return jnp.broadcast_to(value, self.sizes)


def fill_with(value: Any, sizes: Sequence[Any]) -> jax.Array:
    """An array of one number, whose bits arrive as they are."""
    move = Fill(tuple(sizes))
    return move_elements(move, None, jnp.asarray(value), back=back_with_number(move))


def choose_value(on: jax.Array, values: Any, back: Back) -> jax.Array:
    """`values[1]` where `on`, else `values[0]`; `back` adds cotangents up."""
    # Guarded: in a choice between two numbers LLVM would take the casts to integers back, and lose bits.
    choose = partial(move_elements, select_value, back=back, carry=as_guarded_bits)
    if shards := known_shards():
        each = on_each_device(choose, (shards.output, PartitionSpec()), shards.output)
        return linear(each, back)(on, jnp.asarray(values))
    return choose(on, values)


def select_value(on: jax.Array, values: jax.Array) -> jax.Array:
    """The move that `choose_value` makes."""
    return jnp.where(on, values[1], values[0])
