"""ONNX's Unique: in NumPy for constants; in JAX with a maximum number of elements, padded with 0."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .data_movement import take_or_zero
from .int64_ranges import Bounded
from .layout import axis_of
from .stated_sizes import Maximum
from .values import Array, Operators, is_narrowed, on_device


def unique(
    *, x: Array, axis: int | None = None, sorted: int = 1, count: int = 1, maximum: Maximum
) -> tuple[np.ndarray | jax.Array | Bounded, ...]:
    """Returns unique elements, or slices along an axis; then first indices, inverse indices and counts.

    With a stated `maximum` for the elements there are so many: those beyond are left out, and after the last one
    elements and counts are 0, and first indices are the size of x. Then x may be data. Inverse indices are as without.
    """
    along = None if axis is None else axis_of("axis", axis, x.ndim)
    size = maximum.of()
    if size is not None:
        return _up_to(size, on_device(x), along, bool(sorted))[:count]
    data = maximum.known("x", x, "how many elements differ")
    uniques = np.unique(data, return_index=True, return_inverse=True, return_counts=True, axis=along)
    first, inverse, counts = _found(uniques, np, bool(sorted))
    y = np.take(data, first, along)
    return (y, *(numbers.astype(np.int64) for numbers in (first, inverse, counts)))[:count]


def _found(uniques: Any, xp: Any, is_sorted: bool) -> tuple[Any, Any, Any]:
    """Returns first indices, inverse indices and counts, in the order of the elements or as they come."""
    _, first, inverse, counts = uniques
    inverse = inverse.reshape(-1)
    if is_sorted:
        return first, inverse, counts
    order = xp.argsort(first)
    return first[order], xp.argsort(order)[inverse], counts[order]


def _up_to(size: int, x: jax.Array, along: int | None, is_sorted: bool) -> tuple[Any, ...]:
    """Unique of data, with `size` elements."""
    data = x.reshape(-1) if along is None else x
    axis = along or 0
    room = data.shape[axis]
    # As in NumPy, NaNs are equal, but slices with NaNs are not.
    uniques = jnp.unique(data, True, True, True, axis, equal_nan=data.ndim == 1, size=room)
    is_there = uniques[3] > 0
    uniques = (*uniques[:1], jnp.where(is_there, uniques[1], room), *uniques[2:])
    first, inverse, counts = _found(uniques, jnp, is_sorted)
    after = (0, max(0, size - first.shape[0]))
    first = jnp.pad(first[:size], after, constant_values=room)
    counts = jnp.pad(counts[:size], after)
    numbers = (n.astype(np.int32) for n in (first, inverse, counts))
    indices = (Bounded(n, (0, room)) if is_narrowed(np.int64) else n.astype(np.int64) for n in numbers)
    return take_or_zero(data, first, axis), *indices


OPERATORS: Operators = {"Unique": {11: unique}}
