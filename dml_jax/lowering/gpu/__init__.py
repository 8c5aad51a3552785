"""The mechanisms for NVIDIA GPUs, in the order in which they are asked: the first one that pays runs."""

from collections.abc import Sequence

from ...operations.programs.variant_selection import Variant
from . import (
    assembled_words,
    axis_last,
    block_maxima,
    fan_out,
    flash_attention,
    gathered,
    int32_atomics,
    inverse,
    isolated_transpose,
    ragged_rows,
    slices,
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
    slices,
    flash_attention,
    ragged_rows,
)
VARIANTS: Sequence[Variant] = [variant for mechanism in _MECHANISMS for variant in mechanism.VARIANTS]
