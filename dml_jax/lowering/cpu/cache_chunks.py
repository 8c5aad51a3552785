"""Large arrays chunk by chunk on CPUs, so that what is computed on the way to a small result stays in the cache.

XLA:CPU reduces numbers with vectors only if they lie in memory. So it writes all of them to fresh memory first where
they are widened, multiplied or numbered, and that costs more than to reduce them. The maximum of 16 million float16 so
writes 64 MiB of float32. In chunks of half a million it writes the same 2 MiB again and again:

    [3, 1, 4, 1, 5, 9]  ->  widen [3, 1, 4], maximum 4; widen [1, 5, 9], maximum 9  ->  maximum of [4, 9]
"""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..plain.along import Along, AlongCase, Part
from ..primitive import Move, varying_alike
from ..select import Variant
from .cache_chunks_sum import as_image, from_image, widen

__all__ = ["VARIANTS", "cut_dimension", "map_chunks", "widened_slice"]

CHUNK = 2**21  # bytes of wide numbers: a part of the L2 cache
FRESH = 2**25  # bytes of an array that the C library takes fresh from the system each time; smaller ones it keeps
MOST_SIDE_BY_SIDE = 2**15  # numbers: a chunk has sixteen such rows, and makes one of them
SHORT = 16  # numbers along an axis: so few are compared as pairs as fast


def map_chunks(part: Part, array: jax.Array, wide: Any) -> Any:
    """What `part` makes of the chunks of an array, put side by side.

    Args:
      part: makes arrays whose size along a dimension is that of the chunk, or 1.
      array: of known sizes, none of them 0.
      wide: the type in which chunks are computed.
    """
    cut = cut_dimension(array.shape, wide)
    outer, n, inner = array.shape[:cut], array.shape[cut], array.shape[cut + 1 :]
    size = min(n, max(1, CHUNK // (prod(inner) * jnp.dtype(wide).itemsize)))
    last = n % size

    def compute(numbers: jax.Array) -> Any:
        return part(numbers, [0] * array.ndim)

    like = jax.eval_shape(compute, jax.ShapeDtypeStruct((*[1] * cut, size, *inner), wide))

    def zeros(one: Any) -> jax.Array:
        length = n if one.shape[cut] == size else -(-n // size)
        return as_image(jnp.zeros((*outer, length, *one.shape[cut + 1 :]), one.dtype))

    def write(one: Any, made: jax.Array, found: jax.Array, starts: Sequence[Any]) -> jax.Array:
        number = starts[cut] if one.shape[cut] == size else starts[cut] // size
        return lax.dynamic_update_slice(made, as_image(found), [*starts[:cut], number, *starts[cut + 1 :]])

    def fill(made: Any, first: int, size: int, count: int) -> Any:
        """The chunks of a size from `first` on, as many along the dimension that is cut."""

        def step(turn: jax.Array, carried: Any) -> Any:
            array, made = carried
            # XLA:CPU moves a conversion out of a loop, as no iteration changes its result.
            turn, now = lax.optimization_barrier((turn, array))
            *before, number = jnp.unravel_index(turn, (*outer, count))
            starts = [*before, first + number * size, *[jnp.zeros_like(turn)] * len(inner)]
            found = part(widened_slice(now, starts, (*[1] * cut, size, *inner), wide), starts)
            return array, jax.tree.map(lambda *each: write(*each, starts), like, made, found)

        return lax.fori_loop(0, prod(outer) * count, step, (array, made))[1]

    _, images = varying_alike(array, jax.tree.map(zeros, like))
    images = fill(images, 0, size, n // size)
    images = fill(images, n - last, last, 1) if last else images
    return jax.tree.map(lambda one, image: from_image(image, one.dtype), like, images)


def cut_dimension(sizes: Sequence[int], wide: Any) -> int:
    """The first dimension whose slices of numbers of a type fit in a chunk: that which is cut.

    Of those before it each chunk has one element.
    """
    itemsize = jnp.dtype(wide).itemsize
    return next((d for d in range(len(sizes)) if prod(sizes[d + 1 :]) * itemsize <= CHUNK), 0)


def widened_slice(array: jax.Array, starts: Sequence[Any], sizes: Sequence[int], wide: Any) -> jax.Array:
    """Numbers of an array in a wide type."""
    image = lax.dynamic_slice(as_image(array), starts, sizes)
    return (widen(image, wide) if array.dtype == jnp.bfloat16 else image).astype(wide)


def _run(case: AlongCase) -> Move | None:
    """Without `join` the numbers along the axes must be in one chunk."""
    along, cut = case.along, cut_dimension(case.input.shape, case.along.wide)
    can = case.devices == 1 and (along.join or all(axis > cut for axis in case.axes))
    return partial(_compute, along, case.wide_bytes < FRESH) if can else None


def _compute(along: Along, is_kept: bool, _: None, x: jax.Array) -> jax.Array:
    whole = [0] * x.ndim
    parts = along.part(x.astype(along.wide), whole) if is_kept else map_chunks(along.part, x, along.wide)
    return along.join(parts) if along.join else parts


def _pays(case: AlongCase) -> bool:
    """Where chunks make few numbers of many, and XLA would write more than it keeps."""
    along, cut = case.along, cut_dimension(case.input.shape, case.along.wide)
    if any(axis < cut or (axis == cut and case.side_by_side > MOST_SIDE_BY_SIDE) for axis in case.axes):
        return False
    is_narrow = case.is_converted or (along.is_stored and case.input.dtype != along.wide)
    return _has_vectors(case) if along.is_place else is_narrow and case.wide_bytes >= FRESH


def _has_vectors(case: AlongCase) -> bool:
    """XLA:CPU has none for the greatest integer along a last axis, unless it is a byte, and none for pairs."""
    is_byte_or_float = case.input.dtype.itemsize == 1 or jnp.issubdtype(case.input.dtype, jnp.floating)
    is_long = any(case.input.shape[axis] > SHORT for axis in case.axes)
    return is_long and (is_byte_or_float or case.side_by_side > 1)


VARIANTS = (Variant("cache_chunks", "along", "cpu", _run, _pays),)
