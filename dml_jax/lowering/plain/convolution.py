"""Convolutions, on a CPU as products of matrices where those are faster than what XLA makes of a convolution.

XLA:CPU transposes the filter of every convolution, element by element and in one thread: where the filter is large, or
each place of it does little, that takes longer than the products. A product of matrices takes the filter as it is, and
reads the elements under each place of the filter from columns, which are copied beside each other.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..forms import JAXLIB, forced_form
from ..values.accumulation_types import wide_type
from .unfold import unfold_windows
from .windows import Windows

__all__ = ["by_columns", "by_groups", "by_taps", "convolve", "convolve_back", "form_on_cpu", "plain"]

# A form: of x [N, C, *sizes], w [O, C / groups, *kernel], the windows and the groups to [N, O, *counts].
_Form = Callable[[jax.Array, jax.Array, Sequence[Windows], int], jax.Array]

MOST_TAPS = 128  # elements of a filter; more slices take seconds to compile
MOST_COLUMNS = 2**22  # elements; the C library returns more memory to the system after every call
FEW_CHANNELS = 16
MOST_PARTS = 32  # convolutions, one per group
MANY_PLACES, FEW_PLACES = 1024, 49  # of an example, for a product of its own with jaxlib 0.10, and since
OF_EACH_PLACE = 340  # elements of the filters


def convolve(
    x: jax.Array,
    w: jax.Array,
    windows: Sequence[Windows],
    groups: int = 1,
    precision: lax.Precision | None = None,
) -> jax.Array:
    """Convolves each group of channels.

    On a CPU, floats of 16 bits are added up in float32 and rounded once.

    Inside `use_form("plain")` it is what XLA makes of a convolution, everywhere.

    Args:
      x: [N, C, *sizes].
      w: [O, C / groups, *kernel], of x's type.
      windows: of the filter along each spatial dimension of x.
      groups: divides C and O.
      precision: of products on accelerators; None is the one that JAX is set to.

    Returns:
      [N, O, *counts], of x's type.
    """
    form = plain if forced_form() == "plain" else form_on_cpu(x, w, windows, groups)
    if form is plain:  # JAX transposes a choice by platform as a branch, in which XLA:CPU convolves 15 times as slowly
        return plain(x, w, windows, groups, precision)
    return lax.platform_dependent(
        x,
        w,
        cpu=lambda x, w: form(x, w, windows, groups),
        default=lambda x, w: plain(x, w, windows, groups, precision),
    )


def convolve_back(
    x: jax.Array,
    w: jax.Array,
    windows: Sequence[Windows],
    sizes: Sequence[int],
    groups: int,
    precision: lax.Precision | None,
) -> jax.Array:
    """The transpose of `convolve`, for a filter that is reversed: a convolution with zeros between the elements of x.

    Args:
      x: [N, C, *counts], what a convolution made.
      w: [C, O / groups, *kernel], of x's type.
      windows: of the filter along each spatial dimension, of sizes *counts.
      sizes: of the spatial dimensions that are made.
      groups: divides C and O.
      precision: of products on accelerators; None is the one that JAX is set to.

    Returns:
      [N, O, *sizes], of x's type.
    """
    channels, made, *spatial = w.shape
    by_group = w.reshape(groups, channels // groups, made, *spatial).swapaxes(1, 2)
    starts = [one.span - 1 - one.start for one in windows]
    ends = [n + one.start - one.stride * (one.size - 1) - 1 for n, one in zip(sizes, windows, strict=True)]
    return lax.conv_general_dilated(
        x,
        by_group.reshape(groups * made, channels // groups, *spatial),
        [1] * len(windows),
        list(zip(starts, ends, strict=True)),
        lhs_dilation=[one.stride for one in windows],
        rhs_dilation=[one.dilation for one in windows],
        feature_group_count=groups,
        precision=precision,
    )


def form_on_cpu(x: Any, w: Any, windows: Sequence[Windows], groups: int) -> _Form:
    """The fastest one, by shapes: on two cores, against ONNX Runtime's convolution of the same shapes."""
    counts, taps = [one.count for one in windows], prod(w.shape[2:])
    places = x.shape[0] * prod(counts)
    if not isinstance(places, int) or min((*counts, *x.shape, *w.shape)) < 1 or taps > MOST_TAPS:
        return plain
    if taps > 1 and 1 < groups == x.shape[1]:
        return by_taps
    fits = x.shape[1] * taps * places <= MOST_COLUMNS
    if taps == 1 or (fits and (groups > 1 or x.shape[1] <= FEW_CHANNELS or places <= 2 * w.shape[0])):
        return by_columns
    return by_groups if 1 < groups <= MOST_PARTS else plain


def plain(
    x: jax.Array, w: jax.Array, windows: Sequence[Windows], groups: int, precision: lax.Precision | None = None
) -> jax.Array:
    """What XLA makes of a convolution."""
    return lax.conv_general_dilated(
        x,
        w,
        [one.stride for one in windows],
        [(one.start, one.end) for one in windows],
        rhs_dilation=[one.dilation for one in windows],
        feature_group_count=groups,
        precision=precision,
    )


def by_groups(x: jax.Array, w: jax.Array, windows: Sequence[Windows], groups: int) -> jax.Array:
    """A convolution for each group."""
    parts = zip(jnp.split(x, groups, 1), jnp.split(w, groups, 0), strict=True)
    return jnp.concatenate([plain(*part, windows, 1) for part in parts], 1)


def by_taps(x: jax.Array, w: jax.Array, windows: Sequence[Windows], groups: int) -> jax.Array:
    """Each channel times one number per element of its filters, moved and added up."""
    counts, wide = [one.count for one in windows], wide_type(x.dtype)
    numbers = jnp.moveaxis(w.astype(wide).reshape(groups, w.shape[0] // groups, -1), 2, 0)
    parts = (
        part[:, :, None] * number[None, ..., *(None,) * len(counts)]
        for part, number in zip(_taps(x.astype(wide), windows), numbers, strict=True)
    )
    return reduce(add, parts).astype(x.dtype).reshape(x.shape[0], w.shape[0], *counts)


def by_columns(x: jax.Array, w: jax.Array, windows: Sequence[Windows], groups: int) -> jax.Array:
    """A product of matrices for each group: the filters by what lies under each of their places."""
    counts, depth = [one.count for one in windows], prod(w.shape[1:])
    is_one = prod(w.shape[2:]) == 1  # XLA multiplies x itself then, where nothing is added to it or left out
    under = next(_taps(x, windows)) if is_one else unfold_windows(x, windows)
    columns = under.reshape(x.shape[0], groups, depth, -1)
    filters = w.reshape(groups, -1, depth)
    if x.shape[0] == 1 or _is_large(columns, filters):
        repeated = jnp.broadcast_to(filters, (x.shape[0], *filters.shape)).reshape(-1, *filters.shape[1:])
        made = repeated @ columns.reshape(-1, *columns.shape[2:])
    else:
        made = jnp.moveaxis(lax.dot_general(filters, columns, (((2,), (2,)), ((0,), (1,)))), 2, 0)
    return made.reshape(x.shape[0], w.shape[0], *counts)


def _is_large(columns: jax.Array, filters: jax.Array) -> bool:
    """Whether a product for each example is faster than one for all, before and after which XLA:CPU transposes.

    On two cores of an EPYC it is 0.85-2.6 times as fast with jaxlib 0.10, 1.0-3.2 times since 0.11; 0.1-1.0 times
    below the bounds.
    """
    places, (_, made, depth) = columns.shape[-1], filters.shape
    if JAXLIB < 11:
        return places >= MANY_PLACES
    return places >= FEW_PLACES and made * depth <= OF_EACH_PLACE * places


def _taps(x: jax.Array, windows: Sequence[Windows]) -> Iterator[jax.Array]:
    """What lies under each element of the filter: for one after the other, [N, C, *counts]."""
    padded = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0)] * 2 + [(one.start, one.end, 0) for one in windows])
    strides = [1, 1, *(one.stride for one in windows)]
    for numbers in product(*(range(one.window) for one in windows)):
        starts = [number * one.dilation for number, one in zip(numbers, windows, strict=True)]
        limits = [s + (one.count - 1) * one.stride + 1 for s, one in zip(starts, windows, strict=True)]
        yield lax.slice(padded, [0, 0, *starts], [*x.shape[:2], *limits], strides)
