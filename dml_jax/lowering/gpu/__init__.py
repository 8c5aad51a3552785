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
    patches,
    ragged_rows,
    sorted_segments,
    tiles,
    window_sum,
    words,
)

# Where several can run one operation, the one that reads or stores less is asked first: `fan_out` reads an element once
# for all its copies, `words` reads whole words, `assembled_words` reads single elements and stores words. Of
# transposes, `isolated_transpose` is last, as it alone takes a copy of the operand. Of reducing scatters, `inverse`
# adds nothing up, and `sorted_segments` widens no table, as `int32_atomics` does.
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
    patches,
    float_products,
)
VARIANTS: Sequence[Variant] = [variant for mechanism in _MECHANISMS for variant in mechanism.VARIANTS]
