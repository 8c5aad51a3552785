"""Tiling: copies of an array side by side along each dimension, as in jnp.tile."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .data_movement import move_elements
from .values.accumulation_types import narrow_apart, wide_type
from .values.bit_exact import as_guarded_bits


@dataclass(frozen=True)
class Tile:
    """The move of an array to `repeats` copies of it along each dimension."""

    repeats: tuple[int, ...]

    def __call__(self, _: Any, array: jax.Array) -> jax.Array:
        return jnp.tile(array, self.repeats)


def repeat_whole(array: jax.Array, repeats: Sequence[int]) -> jax.Array:
    """As jnp.tile does it; cotangents of narrow floats are added up in float32 and rounded once."""

    def back(_: None, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        # The 6 cotangents of three copies of 2 elements, as [3, 2], are summed over the copies.
        apart = [n for pair in zip(repeats, like[0].shape, strict=True) for n in pair]
        wide = cotangent.astype(wide_type(cotangent.dtype)).reshape(apart)
        return [narrow_apart(wide.sum(range(0, len(apart), 2)), cotangent.dtype)]

    tile = Tile(tuple(repeats))
    return move_elements(tile, None, array, words=lambda _: tile, back=back, carry=as_guarded_bits)
