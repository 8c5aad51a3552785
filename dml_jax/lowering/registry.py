"""Every variant of every operation: the only file that names gpu/ and cpu/."""

from collections.abc import Sequence

from .cpu import (
    cache_chunks,
    flag_words,
    halves,
    im2col,
    long_loops,
    matrix_products,
    row_by_row,
    unfused,
    unfused_writes,
    windowed_pad,
)
from .cpu import slices as cpu_slices
from .gpu import (
    assembled_words,
    axis_last,
    block_maxima,
    fan_out,
    gathered,
    isolated_transpose,
    tiles,
    window_sum,
    words,
)
from .gpu import slices as gpu_slices
from .select import Variant

__all__ = ["VARIANTS"]

# In the order in which they are asked: the first one that pays runs.
VARIANTS: Sequence[Variant] = (
    *fan_out.VARIANTS,
    *gathered.VARIANTS,
    *words.VARIANTS,
    *assembled_words.VARIANTS,
    *axis_last.VARIANTS,
    *tiles.VARIANTS,
    *window_sum.VARIANTS,
    *isolated_transpose.VARIANTS,
    *block_maxima.VARIANTS,
    *gpu_slices.VARIANTS,
    *halves.VARIANTS,
    *unfused.VARIANTS,
    *unfused_writes.VARIANTS,
    *long_loops.VARIANTS,
    *windowed_pad.VARIANTS,
    *row_by_row.VARIANTS,
    *matrix_products.VARIANTS,
    *im2col.VARIANTS,
    *cache_chunks.VARIANTS,
    *flag_words.VARIANTS,
    *cpu_slices.VARIANTS,
)
