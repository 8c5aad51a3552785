"""The list of all variants, in the order in which they are asked: the only file that names gpu/ and cpu/."""

from collections.abc import Sequence

from ..operations.programs.variant_selection import Variant
from .cpu import (
    blocked_transpose,
    cache_chunks,
    cache_chunks_scatter_add,
    concatenated_halves,
    convolution_slices,
    flag_words,
    gather_side_sum,
    im2col,
    long_loops,
    matrix_products,
    packed_product,
    row_by_row,
    scatter_into_copy,
    unfused,
    windowed_pad,
)
from .cpu import inverse_permutation as cpu_inverse_permutation
from .cpu import sorted_segments as cpu_sorted_segments
from .gpu import (
    assembled_words,
    axis_last,
    block_maxima,
    fan_out,
    gathered_pad,
    int32_atomics,
    inverse_permutation,
    isolated_transpose,
    sorted_segments,
    tiles,
    unfold_slices,
    window_sum,
    words,
)

# In the order in which they are asked: the first one that pays runs.
VARIANTS: Sequence[Variant] = (
    *fan_out.VARIANTS,
    *gathered_pad.VARIANTS,
    *words.VARIANTS,
    *assembled_words.VARIANTS,
    *axis_last.VARIANTS,
    *tiles.VARIANTS,
    *window_sum.VARIANTS,
    *isolated_transpose.VARIANTS,
    *inverse_permutation.VARIANTS,
    *sorted_segments.VARIANTS,
    *int32_atomics.VARIANTS,
    *block_maxima.VARIANTS,
    *unfold_slices.VARIANTS,
    *blocked_transpose.VARIANTS,
    *concatenated_halves.VARIANTS,
    *unfused.VARIANTS,
    *scatter_into_copy.VARIANTS,
    *long_loops.VARIANTS,
    *windowed_pad.VARIANTS,
    *cpu_inverse_permutation.VARIANTS,
    *cpu_sorted_segments.VARIANTS,
    *gather_side_sum.VARIANTS,
    *cache_chunks_scatter_add.VARIANTS,
    *row_by_row.VARIANTS,
    *matrix_products.VARIANTS,
    *packed_product.VARIANTS,
    *im2col.VARIANTS,
    *cache_chunks.VARIANTS,
    *flag_words.VARIANTS,
    *convolution_slices.VARIANTS,
)
