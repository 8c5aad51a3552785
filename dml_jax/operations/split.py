"""Splits of an array along an axis."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

import jax
from jax import lax

from .data_movement import move_elements


@dataclass(frozen=True)
class Part:
    """The move of elements [start, start + size) along an axis.

    Args:
      axis: at least 0.
      start: of the first element.
      size: how many.
      is_whole: whether there is no other part.
    """

    axis: int
    start: int
    size: int
    is_whole: bool

    def __call__(self, _: Any, array: jax.Array) -> jax.Array:
        return lax.slice_in_dim(array, self.start, self.start + self.size, axis=self.axis)

    def in_words(self, rank: int, count: int) -> "Part | None":
        """This part of an array whose last dimension is words of `count` elements; None if it cuts a word."""
        if self.axis != rank - 1:
            return self
        # Of 8 bytes, the parts of 4, 2 and 2: the first one is a word, the others cut one.
        is_cut = self.start % count or self.size % count
        return None if is_cut else replace(self, start=self.start // count, size=self.size // count)


def split_along(array: Any, sizes: Sequence[int], axis: int) -> tuple[jax.Array, ...]:
    """Parts of these sizes, in order, along an axis of at least 0."""
    starts = [0, *accumulate(sizes)]
    parts = [Part(axis, start, size, len(sizes) == 1) for start, size in zip(starts, sizes, strict=False)]
    return tuple(move_elements(part, None, array, words=partial(part.in_words, array.ndim)) for part in parts)
