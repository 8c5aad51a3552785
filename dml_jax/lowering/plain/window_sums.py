"""Sums of windows, on a CPU as sums of slices of one padded array, which XLA:CPU vectorises."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import add

import jax

from ..primitive import linear
from .unfold import slices_of, unfold_axis
from .window_parts import by_platform, groups, have_parts, have_phases, pad, read_parts, spread_parts
from .windows import Windows

__all__ = ["sum_windows"]


def sum_windows(array: jax.Array, axes: Sequence[int], windows: Sequence[Windows]) -> jax.Array:
    """The sum of each window over some dimensions, in an order that is left open."""
    unfolded = partial(_sum_unfolded, axes=axes, windows=windows)
    if not have_parts(windows) or not have_phases(windows):
        return unfolded(array)

    def spread_unfolded(cotangent: jax.Array) -> jax.Array:
        return jax.linear_transpose(unfolded, array)(cotangent)[0]

    def forward(_: None, array: jax.Array) -> jax.Array:
        return by_platform(unfolded, cpu=partial(_sum_parts, axes=axes, windows=windows))(array)

    def back(_: None, cotangent: jax.Array, __: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [by_platform(spread_unfolded, cpu=partial(_spread, axes=axes, windows=windows))(cotangent)]

    return linear(forward, back)(None, array)


def _sum_unfolded(array: jax.Array, axes: Sequence[int], windows: Sequence[Windows]) -> jax.Array:
    for axis, one in zip(axes, windows, strict=True):
        array = unfold_axis(array, axis, one).sum(0, dtype=array.dtype)
    return array


def _sum_parts(array: jax.Array, axes: Sequence[int], windows: Sequence[Windows]) -> jax.Array:
    """Of windows that are apart the rows are added first, which leaves less to pad."""
    whole = pad(array, axes, windows, 0) if all(one.stride == 1 for one in windows) else None
    for axis, one in zip(axes, windows, strict=True):
        if whole is not None:
            whole = array = reduce(add, read_parts(whole, [axis], [one], padded=True))
        elif axis < array.ndim - 1:
            array = reduce(add, slices_of(array, axis, one))
        else:
            array = reduce(add, read_parts(array, [axis], [one]))
    return array


def _spread(cotangent: jax.Array, axes: Sequence[int], windows: Sequence[Windows]) -> jax.Array:
    for some_axes, some in groups(axes, windows):
        cotangent = spread_parts(lambda _, part: part, [cotangent], [0], some_axes, some)
    return cotangent
