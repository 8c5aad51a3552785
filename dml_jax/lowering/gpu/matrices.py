"""Dense views that transpose matrices, and ways to do so."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...strides.layout import Layout
from ..cpu.blocked_transpose import transpose_in_panels
from ..forms import Form
from ..plain.strided_reads import as_stored
from ..values.bits import as_bits, is_float
from ..values.words import lanes
from .isolated_transpose import good_run, transpose_apart, transpose_in_runs
from .thin import is_thin, transpose_thin

__all__ = ["matrices_of", "ways_to_turn"]

SHORT_SIDE = 12  # rows or columns of matrices that gain from runs


def matrices_of(layout: Layout) -> tuple[int, int, int] | None:
    """Returns (batch, rows, columns) of the stored elements, if the view is those matrices transposed.

    A view of NHWC as NCHW is one of N matrices of H*W rows and C columns: its dimensions, 0 to 3, are stored in the
    order 0, 2, 3, 1.
    """
    stored, shown = layout.dims, tuple(sorted(layout.dims))
    batch = next((i for i, (d, e) in enumerate(zip(stored, shown, strict=True)) if d != e), None)
    if batch is None:
        return None
    columns = stored.index(shown[batch])
    if stored[columns:] + stored[batch:columns] != shown[batch:]:
        return None
    sizes = layout.stored_sizes
    return prod(sizes[:batch]), prod(sizes[batch:columns]), prod(sizes[columns:])


def ways_to_turn(layout: Layout, matrices: tuple[int, int, int], dtype: Any) -> dict[str, Form]:
    """Returns the forms of a view that transposes `matrices`: panels for CPUs, the others for GPUs.

    They flatten dimensions, so the buffer may not be sharded.
    """
    _, rows, columns = matrices
    ways: dict[str, Callable[[jax.Array], jax.Array]] = {}
    if (count := lanes(dtype)) > 1:
        ways["matrices"] = lambda array: lax.optimization_barrier(jnp.swapaxes(array, 1, 2))
        ways["matrices_apart"] = partial(transpose_apart, axes=(0, 2, 1))
        if min(rows, columns) <= SHORT_SIDE and (run := good_run(max(rows, columns))):
            ways["apart"] = partial(transpose_in_runs, run=run)  # instead of one along the dimensions of the view
        if is_thin(rows, columns, count, read_words=True):
            ways["tiles"] = partial(transpose_thin, read_words=True)
        if is_thin(rows, columns, count, read_words=False):
            ways["element_tiles"] = partial(transpose_thin, read_words=False)

    def turned(transpose: Callable[[jax.Array], jax.Array]) -> Form:
        return lambda _, buffer: transpose(as_stored(buffer, layout).reshape(matrices)).reshape(layout.sizes)

    forms = {name: as_bits(turned(transpose), is_float) for name, transpose in ways.items()}
    return {**forms, "panels": as_bits(turned(transpose_in_panels))}
