"""Max pooling without indices: the maximum of each window, one dimension after the other."""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .programs.variant_selection import choose, shapes_of
from .reread_input import window_input
from .sliding_windows import WindowCase, Windows
from .window_slices import read_slices


def max_pool_windows(x: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """The greatest element of each window; NaN exceeds every number.

    Args:
      x: integers or floats, (..., spatial sizes).
      windows: along each spatial dimension; padding has no elements.

    Returns:
      (..., counts of windows).
    """
    lead = x.shape[: x.ndim - len(windows)]

    def plain(_: None, x: jax.Array) -> jax.Array:
        for d in reversed(range(len(windows))):
            x = _greatest(x, len(lead) + d, windows[d])
        return x

    result = jax.ShapeDtypeStruct((*lead, *(w.count for w in windows)), x.dtype)
    case_of = partial(WindowCase, plain, windows, range(len(lead), x.ndim), *shapes_of(x), result)
    return choose("max_pool", case_of)(None, window_input(x, windows))


def are_apart(windows: Windows) -> bool:
    """Whether reading each element of each window costs less than computing a window at every place."""
    return windows.window - 1 < windows.stride * (windows.window - 1).bit_length()


def _greatest(x: jax.Array, axis: int, windows: Windows) -> jax.Array:
    """Max pooling by doubling: maxima of spans of 1, 2, 4, ... elements; two spans cover a window.

    That computes a window at every place. Few elements of windows that are apart are read as slices, at these alone.
    """
    if are_apart(windows):
        return reduce(_greater, read_slices(x, [axis], [windows], _least(x.dtype)))
    needed = (windows.count - 1) * windows.stride + windows.span
    edges = [(0, 0, 0)] * x.ndim
    edges[axis] = (windows.start, needed - windows.start - windows.size, 0)
    y, covered = lax.pad(x, _least(x.dtype), edges), 1
    while covered < windows.window:
        more = min(covered, windows.window - covered)
        length = y.shape[axis] - more * windows.dilation
        y = _greater(*(lax.slice_in_dim(y, n, n + length, axis=axis) for n in (0, more * windows.dilation)))
        covered += more
    return lax.slice_in_dim(y, 0, (windows.count - 1) * windows.stride + 1, windows.stride, axis)


def _greater(first: jax.Array, second: jax.Array) -> jax.Array:
    return jnp.where((first >= second) | (first != first), first, second)


def _least(dtype: Any) -> np.ndarray:
    return np.asarray(jnp.iinfo(dtype).min if jnp.issubdtype(dtype, jnp.integer) else -np.inf, dtype)
