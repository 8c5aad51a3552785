"""Dense views that transpose matrices, and ways to do so."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..strides.layout import Layout
from .apart import transpose_apart
from .bits import as_bits, is_float
from .forms import Form
from .panels import transpose_in_panels
from .strided_reads import as_stored
from .thin import is_thin, transpose_thin
from .words import lanes

__all__ = ["matrices_of", "ways_to_turn"]


THIN = 12  # rows or columns
# Elements of a run that XLA:GPU (jaxlib 0.11) moves in good tiles: odd numbers, and 8 and 16 times odd ones. Multiples
# of 32 take up to twice as long, and so do 2 and 4 times odd numbers for some widths.
RUN = 240
RUNS = range(56, 401)


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
        if (run := _run_of(max(rows, columns))) and min(rows, columns) <= THIN:
            ways["apart"] = partial(_transpose_in_runs, run=run)
        if is_thin(rows, columns, count, read_words=True):
            ways["tiles"] = partial(transpose_thin, read_words=True)
        if is_thin(rows, columns, count, read_words=False):
            ways["element_tiles"] = partial(transpose_thin, read_words=False)

    def turned(transpose: Callable[[jax.Array], jax.Array]) -> Form:
        return lambda _, buffer: transpose(as_stored(buffer, layout).reshape(matrices)).reshape(layout.sizes)

    forms = {name: as_bits(turned(transpose), is_float) for name, transpose in ways.items()}
    return {**forms, "panels": as_bits(turned(transpose_in_panels))}


def _run_of(long: int) -> int | None:
    """The length of the runs into which a long side is cut best; None if no good one divides it.

    Of 224x224 pixels 112, which is 16 * 7; of 320x320 pixels 200; of 299x299 pixels 299; of 256x256 pixels none.
    """
    divisors = [n for n in RUNS if long % n == 0]
    even, odd = ([n for n in divisors if n & -n in powers] for powers in ((8, 16), (1,)))
    return min(even or odd, key=lambda n: abs(n - RUN), default=None)


def _transpose_in_runs(matrices: jax.Array, run: int) -> jax.Array:
    """Transposes thin matrices in a kernel of its own, their long side cut into runs, whatever the view has."""
    batch, rows, columns = matrices.shape
    if rows > columns:
        turned = transpose_apart(matrices.reshape(batch, rows // run, run, columns), (0, 3, 1, 2))
    else:
        turned = transpose_apart(matrices.reshape(batch, rows, columns // run, run), (0, 2, 3, 1))
    return turned.reshape(batch, columns, rows)
