"""The mechanisms for NVIDIA GPUs, in the order in which they are asked: the first one that pays runs."""

from collections.abc import Sequence

from ...operations.programs.variant_selection import Variant
from . import (
    assembled_words,
    axis_last,
    block_maxima,
    fan_out,
    flash_attention,
    float_products,
    gathered,
    int32_atomics,
    inverse,
    isolated_transpose,
    ragged_rows,
    sorted_segments,
    tiles,
    window_sum,
    words,
)

_MECHANISMS = (
    fan_out,
    gathered,
    words,
    assembled_words,
    axis_last,
    tiles,
    window_sum,
    isolated_transpose,
    inverse,
    sorted_segments,
    int32_atomics,
    block_maxima,
    flash_attention,
    ragged_rows,
    float_products,
)
VARIANTS: Sequence[Variant] = [variant for mechanism in _MECHANISMS for variant in mechanism.VARIANTS]
