"""Reductions of large arrays on CPUs, chunk by chunk, so that intermediate results stay in the cache.

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

from ...operations.axis_operations import AxisCase, AxisOperation, Part
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import is_float8
from ...operations.values.packed_words import as_unsigned, from_unsigned
from .machine import FRESH
from .unhoisted_loop import unhoisted_loop

CHUNK = 2**21  # bytes of wide numbers: a part of the L2 cache
MOST_SIDE_BY_SIDE = 2**15  # numbers: a chunk has sixteen such rows, and makes one of them
SHORT = 16  # numbers along an axis: so few are compared as pairs as fast


def map_chunks(part: Part, array: jax.Array, wide: Any) -> Any:
    """Results of `part` for each chunk of an array, side by side.

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

    def zeros(of_chunk: Any) -> jax.Array:
        length = n if of_chunk.shape[cut] == size else -(-n // size)
        return to_image(jnp.zeros((*outer, length, *of_chunk.shape[cut + 1 :]), of_chunk.dtype))

    def write(starts: Sequence[Any], of_chunk: Any, results: jax.Array, result: jax.Array) -> jax.Array:
        number = starts[cut] if of_chunk.shape[cut] == size else starts[cut] // size
        return lax.dynamic_update_slice(results, to_image(result), [*starts[:cut], number, *starts[cut + 1 :]])

    def fill(results: Any, first: int, size: int, count: int) -> Any:
        """Computes `count` chunks of `size` from `first` on, along the dimension that is cut."""

        def step(turn: jax.Array, results: Any, array: jax.Array) -> Any:
            *before, number = jnp.unravel_index(turn, (*outer, count))
            starts = [*before, first + number * size, *[jnp.zeros_like(turn)] * len(inner)]
            result = part(widened_slice(array, starts, (*[1] * cut, size, *inner), wide), starts)
            return jax.tree.map(partial(write, starts), like, results, result)

        return unhoisted_loop(0, prod(outer) * count, step, results, array)

    images = fill(jax.tree.map(zeros, like), 0, size, n // size)
    images = fill(images, n - last, last, 1) if last else images
    return jax.tree.map(lambda of_chunk, image: to_numbers(image, of_chunk.dtype), like, images)


def cut_dimension(sizes: Sequence[int], wide: Any) -> int:
    """The dimension that is cut into chunks: the first one whose slices, in type `wide`, fit in a chunk.

    Along earlier dimensions a chunk has one element.
    """
    itemsize = jnp.dtype(wide).itemsize
    return next((d for d in range(len(sizes)) if prod(sizes[d + 1 :]) * itemsize <= CHUNK), 0)


def to_image(numbers: jax.Array) -> jax.Array:
    """The bits of bfloat16 and float8, other numbers as they are: XLA:CPU writes into wider copies of whole arrays."""
    return as_unsigned(numbers) if _has_image(numbers.dtype) else numbers


def to_numbers(image: jax.Array, dtype: Any) -> jax.Array:
    """Undoes `to_image` for numbers of a type."""
    return from_unsigned(image, dtype) if _has_image(dtype) else image


def _has_image(dtype: Any) -> bool:
    return dtype == jnp.bfloat16 or is_float8(dtype)


def widened_slice(array: jax.Array, starts: Sequence[Any], sizes: Sequence[int], wide: Any) -> jax.Array:
    """Numbers of an array in a wide type; a bfloat16 is the upper half of a float32."""
    image = lax.dynamic_slice(to_image(array), starts, sizes)
    if array.dtype != jnp.bfloat16:
        return to_numbers(image, array.dtype).astype(wide)
    return lax.bitcast_convert_type(image.astype(jnp.uint32) << 16, jnp.float32).astype(wide)


def _run(case: AxisCase) -> Move | None:
    """An operation without `join` needs all numbers along its axes in one chunk."""
    operation, cut = case.operation, cut_dimension(case.input.shape, case.operation.wide)
    can = operation.join or all(axis > cut for axis in case.axes)
    return partial(_compute, operation, case.wide_bytes < FRESH) if can else None


def _compute(operation: AxisOperation, is_kept: bool, _: None, x: jax.Array) -> jax.Array:
    starts, part, wide = [0] * x.ndim, operation.part, operation.wide
    parts = part(x.astype(wide), starts) if is_kept else map_chunks(part, x, wide)
    return operation.join(parts) if operation.join else parts


def _pays(case: AxisCase) -> bool:
    """Chunks pay if the result is small, and if XLA would write a temporary as large as the operand."""
    kind, wide = case.operation.kind, case.operation.wide
    cut = cut_dimension(case.input.shape, wide)
    if any(axis < cut or (axis == cut and case.side_by_side > MOST_SIDE_BY_SIDE) for axis in case.axes):
        return False
    if kind == "place":
        return _has_vectors(case)
    is_written = is_converted(case) or (kind in ("product", "exponential") and case.input.dtype != wide)
    return is_written and case.wide_bytes >= FRESH


def is_converted(case: AxisCase) -> bool:
    """Whether floats are computed in a type with another exponent.

    A bfloat16 is the upper half of a float32, so that XLA:CPU has vectors for sums and extremes of it as it lies.
    """
    dtype, wide = case.input.dtype, case.operation.wide
    return jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).nexp != jnp.finfo(wide).nexp


def _has_vectors(case: AxisCase) -> bool:
    """Whether XLA:CPU finds maxima with vectors: not of wide integers along the last axis. For argmax it has none."""
    is_byte_or_float = case.input.dtype.itemsize == 1 or jnp.issubdtype(case.input.dtype, jnp.floating)
    is_long = any(case.input.shape[axis] > SHORT for axis in case.axes)
    return is_long and (is_byte_or_float or case.side_by_side > 1)


VARIANTS = (Variant("cache_chunks", "axis_operation", "cpu", _run, _pays),)
