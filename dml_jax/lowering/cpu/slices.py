"""Depthwise convolutions on CPUs as sums of slices: XLA fuses slices of one array into one loop.

A depthwise convolution is a sum of slices, each times a number of the filter. LLVM vectorises that loop. The filter
[1, 10] over [1, 2, 3, 4]:

    1 * [1, 2, 3] + 10 * [2, 3, 4] = [21, 32, 43]

One in groups is a convolution for each slice of the channels, which XLA:CPU gives to a tuned library.
"""

from functools import partial, reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from ...operations.convolution import ConvolutionCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.accumulation_types import wide_type
from ...operations.values.bit_exact import hide_constant, stored
from ...operations.window_slices import read_slices
from .im2col import KEPT, VECTOR

MOST_COMPILED = 128  # slices, or operations of one kind: more take seconds to compile
MOST_CONVOLUTIONS = 32  # likewise


def _convolve(case: ConvolutionCase) -> Move | None:
    if case.call.groups == 1:
        return None
    if case.is_depthwise:
        return case.widened(partial(_scale_slices, case)) if case.kernel <= MOST_COMPILED else None
    return case.widened(partial(_split_groups, case)) if case.call.groups <= MOST_CONVOLUTIONS else None


def _pays(case: ConvolutionCase) -> bool:
    """XLA:CPU convolves groups element by element. The gradient of a depthwise input is a sum of padded slices."""
    return case.kernel > 1 and (case.gives != "input" if case.is_depthwise else case.column_bytes > KEPT)


def _scale_slices(case: ConvolutionCase, x: jax.Array, w: jax.Array) -> jax.Array:
    """Sums the slices of each channel, each slice multiplied by one element of its filters."""
    (count, outputs), groups, wide = (x.shape[0], w.shape[0]), case.call.groups, wide_type(x.dtype)
    counts = case.call.y.shape[2:]
    numbers = jnp.moveaxis(w.astype(wide).reshape(groups, outputs // groups, -1), 2, 0)
    padding = _zero_beside(x) if _has_slow_padding(case) else 0
    slices = read_slices(x.astype(wide), range(2, x.ndim), case.call.windows, padding)
    scaled = (
        each[:, :, None] * number[None, ..., *(None,) * len(counts)]
        for each, number in zip(slices, numbers, strict=True)
    )
    # Apart from a product or a sum behind it: their loop is over merged dimensions or along others, without vectors.
    return stored(reduce(add, scaled).astype(x.dtype).reshape(count, outputs, *counts))


def _has_slow_padding(case: ConvolutionCase) -> bool:
    """Whether nothing but padding reads x, at both ends of rows that fill a vector.

    LLVM vectorises padding at one end. At stride 1 one of the slices is x itself.
    """
    *_, row = windows = case.call.windows
    is_strided = any(dim.stride > 1 for dim in windows)
    return case.gives == "output" and is_strided and row.size > VECTOR and row.start > 0 and row.end > 0


@custom_vmap
def _zero_beside(x: jax.Array) -> jax.Array:
    """0, which may be an element of x for all that XLA knows: so not only the padding reads x.

    What two loops read XLA:CPU computes in a loop of its own, with vectors, if it takes long, such as an exponential.
    In the loop that pads it would be a branch for each element, without. What is fast, such as a maximum, it repeats.
    """
    return jnp.where(hide_constant(True, x), 0, x[(0,) * x.ndim])


@_zero_beside.def_vmap
def _zero_beside_all(_: int, __: Any, x: jax.Array) -> tuple[jax.Array, bool]:
    """One for all examples: with one for each, JAX would not pad, but select."""
    return _zero_beside(x[0]), False


def _split_groups(case: ConvolutionCase, x: jax.Array, w: jax.Array) -> jax.Array:
    """A convolution for each group."""
    groups, alone = case.call.groups, case.call.of_group
    parts = zip(jnp.split(x, groups, 1), jnp.split(w, groups, 0), strict=True)
    return jnp.concatenate([alone(*part) for part in parts], 1)


VARIANTS = (Variant("slices", "convolution", "cpu", _convolve, _pays),)
