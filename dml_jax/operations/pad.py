"""Padding with a number, or with copies of elements (edge, reflect, ...), whose gradients add up in wide types."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .data_movement import back_with_number, move_elements
from .pad_source_indices import PERIODS, Run, cut_runs
from .values.accumulation_types import narrow_apart, wide_type
from .values.bit_exact import as_guarded_bits

# Up to so many slices are concatenated; instead of more, whole periods are tiled. XLA:CPU adds up the cotangents of a
# tiling a hundred times as slowly.
MOST_PARTS = 64


@dataclass(frozen=True)
class Border:
    """The move of an array into one with `start` elements before it and `end` after it along each dimension.

    Args:
      start: per dimension.
      end: per dimension.
      mode: "constant", or a key of BORDERS.
    """

    start: tuple[int, ...]
    end: tuple[int, ...]
    mode: str

    @property
    def copies(self) -> bool:
        """Whether the border is made of elements of the array."""
        return self.mode in BORDERS

    @property
    def axes(self) -> Sequence[int]:
        """The dimensions that get a border."""
        return [d for d, sizes in enumerate(zip(self.start, self.end, strict=True)) if any(sizes)]

    def __call__(self, _: Any, array: jax.Array, *value: jax.Array) -> jax.Array:
        if not self.copies:
            return lax.pad(array, value[0], [(*sizes, 0) for sizes in zip(self.start, self.end, strict=True)])
        # The last dimension first: borders of the others are then copies of longer rows.
        for axis in reversed(self.axes):
            array = BORDERS[self.mode](array, axis, self.start[axis], self.end[axis])
        return array


def pad_with_value(array: jax.Array, value: jax.Array, start: Sequence[int], end: Sequence[int]) -> jax.Array:
    """The array with a border of one number of its dtype."""
    border = _border(start, end, "constant")
    return move_elements(border, None, array, value, back=back_with_number(border), carry=as_guarded_bits)


def pad_with_copies(array: jax.Array, start: Sequence[int], end: Sequence[int], mode: str) -> jax.Array:
    """The array with a border of its elements, which are copied as BORDERS says."""

    def back(_: None, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        wide = wide_type(cotangent.dtype)
        zeros = jnp.zeros_like(like[0], wide)
        # The transpose of the border in the wide type: copies of one element meet there, and are rounded once.
        (added,) = jax.vjp(partial(border, None), zeros)[1](cotangent.astype(wide))
        return [narrow_apart(added, cotangent.dtype)]

    border = _border(start, end, mode)
    return move_elements(border, None, array, back=back, carry=as_guarded_bits)


def _border(start: Sequence[int], end: Sequence[int], mode: str) -> Border:
    return Border(tuple(start), tuple(end), mode)


def _edge(array: jax.Array, axis: int, start: int, end: int) -> jax.Array:
    size = array.shape[axis]

    def copies(at: Any, count: int) -> jax.Array:
        element = lax.slice_in_dim(array, at, at + 1, axis=axis)
        return jnp.broadcast_to(element, (*array.shape[:axis], count, *array.shape[axis + 1 :]))

    return lax.concatenate([copies(0, start), array, copies(size - 1, end)], axis)


def _periodic(runs_of: Callable[[int], list[Run]]) -> Callable[..., jax.Array]:
    def border(array: jax.Array, axis: int, start: int, end: int) -> jax.Array:
        runs = runs_of(array.shape[axis])
        period, total = sum(stop - first for first, stop, _ in runs), start + array.shape[axis] + end
        before = -start % period  # elements of the first period that are left out
        if (before + total) // period * len(runs) <= MOST_PARTS:
            return _join(array, axis, cut_runs(runs, before, before + total))
        once = _join(array, axis, runs)
        repeats = [1] * array.ndim
        repeats[axis] = -(-(before + total) // period)
        return lax.slice_in_dim(jnp.tile(once, repeats), before, before + total, axis=axis)

    return border


def _join(array: jax.Array, axis: int, runs: list[Run]) -> jax.Array:
    def part(first: int, stop: int, is_reversed: bool) -> jax.Array:
        cut = lax.slice_in_dim(array, first, stop, axis=axis)
        return lax.rev(cut, (axis,)) if is_reversed else cut

    return lax.concatenate([part(*run) for run in runs], axis)


# By mode, the function that pads one dimension.
BORDERS: Mapping[str, Callable[[jax.Array, int, int, int], jax.Array]] = {
    "edge": _edge,
    **{mode: _periodic(runs_of) for mode, runs_of in PERIODS.items()},
}
