"""The mechanisms for CPUs, in the order in which they are asked: the first one that pays runs."""

from collections.abc import Sequence

from ...operations.programs.variant_selection import Variant
from . import (
    blocked_transpose,
    cache_chunks,
    chunked_scatter_add,
    flag_words,
    gather_side_sum,
    gathered,
    halves,
    im2col,
    inverse,
    long_loops,
    matrix_products,
    packed_weights,
    row_by_row,
    scatter_into_copy,
    slices,
    sorted_segments,
    unfused,
    windowed,
)

# Where several can run one operation, the one for fewer cases is asked first. Of transposes, `blocked_transpose` is for
# lines that a cache loses, `halves` stores nothing in between, and `unfused` stores the operand. Of reducing scatters,
# `inverse` adds nothing up, `sorted_segments` is for few rows, `gather_side_sum` for few updates of each row, and
# `chunked_scatter_add` for the others. Where rows are long, or there are one or two, `row_by_row` reads each number
# once: less than `matrix_products` and `cache_chunks` do.
_MECHANISMS = (
    blocked_transpose,
    halves,
    unfused,
    scatter_into_copy,
    long_loops,
    windowed,
    inverse,
    sorted_segments,
    gather_side_sum,
    chunked_scatter_add,
    row_by_row,
    matrix_products,
    packed_weights,
    im2col,
    cache_chunks,
    flag_words,
    slices,
    gathered,
)
VARIANTS: Sequence[Variant] = [variant for mechanism in _MECHANISMS for variant in mechanism.VARIANTS]
