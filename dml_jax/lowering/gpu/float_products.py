"""Convolutions of bytes on GPUs as convolutions of floats: cuDNN has no sums in 32-bit integers.

A byte less its zero point is an integer of at most 255. TF32, of 11 bits, holds it, so that each product is exact.
"""

from functools import partial
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax

from ...operations.convolution_sums import ConvolutionSumsCase
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import hide_constant
from .memory_coalescing import CACHE


def _in_floats(case: ConvolutionSumsCase, filters: Any, x: jax.Array, *zeros: jax.Array) -> jax.Array:
    filters = hide_constant(case.known, x) if case.known is not None else filters  # else XLA would store floats
    of_x, of_filters = case.zero_points(zeros)
    return lax.conv_general_dilated(
        _centred(x, of_x),
        _centred(filters, of_filters),
        [w.stride for w in case.windows],
        [(w.start, w.end) for w in case.windows],
        rhs_dilation=[w.dilation for w in case.windows],
        feature_group_count=case.groups,
        precision=lax.Precision.DEFAULT,
    )


def _centred(numbers: jax.Array, zero: jax.Array | None) -> jax.Array:
    wide = numbers.astype(np.float32)
    if zero is None:
        return wide
    return wide - zero.astype(np.float32).reshape(zero.shape if zero.ndim == wide.ndim else (1,) * wide.ndim)


def _pays(case: ConvolutionSumsCase) -> bool:
    """Where the windows, which a product of integers needs as a matrix, do not stay in the second cache."""
    return prod(case.filters.shape[1:]) * prod((case.x.shape[0], *case.result.shape[2:])) > CACHE


VARIANTS = (Variant("float_products", "convolution_sums", "cuda", lambda case: partial(_in_floats, case), _pays),)
