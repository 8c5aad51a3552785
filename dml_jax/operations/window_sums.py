"""Sums of sliding windows, as in average pooling, and their transpose."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import jax

from .programs.primitive import linear
from .sliding_windows import Windows
from .unfold import slices_of, unfold_axis
from .window_slices import are_sliceable, groups, have_few_phases, pad, read_slices, spread_slices


def sum_windows(array: jax.Array, axes: Sequence[int], windows: Sequence[Windows]) -> jax.Array:
    """The sum of each window over some dimensions, in an order that is left open."""

    if not are_sliceable(windows) or not have_few_phases(windows):
        # Windows of many elements, far apart, or mostly of padding: one dimension after the other, as by unfold.
        for axis, dim in zip(axes, windows, strict=True):
            array = unfold_axis(array, axis, dim).sum(0, dtype=array.dtype)
        return array

    def forward(_: None, array: jax.Array) -> jax.Array:
        is_padded = all(dim.stride == 1 for dim in windows)  # of windows that are apart, sums of rows leave less to pad
        array = pad(array, axes, windows, 0) if is_padded else array
        for axis, dim in zip(axes, windows, strict=True):
            is_alone = not is_padded and axis < array.ndim - 1
            each = slices_of(array, axis, dim) if is_alone else read_slices(array, [axis], [dim], padded=is_padded)
            array = reduce(add, each)
        return array

    def back(_: None, cotangent: jax.Array, __: Sequence[jax.Array]) -> Sequence[jax.Array]:
        for some_axes, some in groups(axes, windows):
            cotangent = spread_slices(lambda _, slices: slices, [cotangent], [0], some_axes, some)
        return [cotangent]

    return linear(forward, back)(None, array)
