"""Sums of sliding windows, as in average pooling, and their transpose."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax

from ..select import choose, shapes_of
from .unfold import unfold_axis
from .window_slices import are_sliceable, groups, have_few_phases, spread_slices
from .windows import WindowCase, Windows

__all__ = ["sum_windows"]


def sum_windows(array: jax.Array, axes: Sequence[int], windows: Sequence[Windows]) -> jax.Array:
    """The sum of each window over some dimensions, in an order that is left open."""

    def plain(_: None, array: jax.Array) -> jax.Array:
        for axis, one in zip(axes, windows, strict=True):
            array = unfold_axis(array, axis, one).sum(0, dtype=array.dtype)
        return array

    def back(_: None, cotangent: jax.Array, __: Sequence[jax.Array]) -> Sequence[jax.Array]:
        for some_axes, some in groups(axes, windows):
            cotangent = spread_slices(lambda _, slices: slices, [cotangent], [0], some_axes, some)
        return [cotangent]

    if not are_sliceable(windows) or not have_few_phases(windows):
        return plain(None, array)
    counts = {axis: one.count for axis, one in zip(axes, windows, strict=True)}
    result = jax.ShapeDtypeStruct([counts.get(d, n) for d, n in enumerate(array.shape)], array.dtype)
    return choose("sum_windows", partial(WindowCase, plain, windows, axes, shapes_of(array), result), back)(None, array)
