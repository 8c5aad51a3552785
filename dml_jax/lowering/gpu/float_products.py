"""Convolutions of bytes on GPUs as convolutions of TF32, whose products of these are exact.

cuDNN has no sums in 32-bit integers. TF32 has 11 significant bits: it holds a byte less its zero point, an integer of
at most 255.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from ...operations.convolution_sums import ConvolutionSumsCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import hide_constant
from .memory_coalescing import CACHE


def _run(case: ConvolutionSumsCase) -> Move | None:
    """None for groups: XLA makes a convolution of bytes of one of converted bytes, and computes its groups wrongly."""
    return partial(_in_floats, case) if case.groups == 1 else None


def _in_floats(case: ConvolutionSumsCase, filters: Any, x: jax.Array, *zeros: jax.Array) -> jax.Array:
    filters = hide_constant(case.known, x) if case.known is not None else filters  # else XLA would store floats
    of_x, of_filters = case.zero_points(zeros)
    return _convolution(case)(_centred(x, of_x), _centred(filters, of_filters))


def _convolution(case: ConvolutionSumsCase) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """The convolution of floats; jax.vmap over filters, which would be groups, makes a loop."""

    @custom_vmap
    def convolve(x: jax.Array, filters: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x,
            filters,
            [w.stride for w in case.windows],
            [(w.start, w.end) for w in case.windows],
            rhs_dilation=[w.dilation for w in case.windows],
            precision=lax.Precision.DEFAULT,
        )

    @convolve.def_vmap
    def _(size: int, is_batched: Sequence[bool], x: jax.Array, filters: jax.Array) -> tuple[jax.Array, bool]:
        if not is_batched[1]:
            results = convolve(x.reshape(-1, *x.shape[2:]), filters)
            return results.reshape(*x.shape[:2], *results.shape[1:]), True
        x = x if is_batched[0] else jnp.broadcast_to(x, (size, *x.shape))
        return lax.map(lambda both: convolve(*both), (x, filters)), True

    return convolve


def _centred(numbers: jax.Array, zero: jax.Array | None) -> jax.Array:
    wide = numbers.astype(np.float32)
    if zero is None:
        return wide
    return wide - zero.astype(np.float32).reshape(zero.shape if zero.ndim == wide.ndim else (1,) * wide.ndim)


def _pays(case: ConvolutionSumsCase) -> bool:
    """Where the windows, which a product of integers needs as a matrix, do not stay in the second cache."""
    return prod(case.filters.shape[1:]) * prod((case.x.shape[0], *case.result.shape[2:])) > CACHE


VARIANTS = (Variant("float_products", "convolution_sums", "cuda", _run, _pays),)
