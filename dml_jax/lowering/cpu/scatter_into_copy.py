"""Scatters on CPUs into a copy of the table that a loop of its own makes, in all threads.

XLA:CPU copies a table that is not donated in one thread, to fresh memory, writes there, and copies that to the output.
The loop that copies it instead has all cores, and stores to the output: of a table [0, 1, 2, 3] and an update 9 of
element 2 it makes [0, 1, 2, 3] there, and the write makes that [0, 1, 9, 3]. Where the table is donated it copies
nothing, but is a pass over the table.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...operations.programs.mesh_types import varying_alike
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.scatter import ScatterCase, TableCopy, is_tiny
from ...operations.strided_writes import StridedWrite, write
from ...operations.values.bit_exact import hide_constant, is_key, is_narrow
from ...strides.layout import Layout
from .unfused import copy_in_a_loop

DROPPED = 2**16 - 1  # an index of 16 bits that is out of range of as many elements


def _write_into_copy(case: ScatterCase) -> Move | None:
    return partial(_scatter_into_copy, case) if _is_copied(case.input) else None


def _is_copied(table: Any) -> bool:
    """The images of narrow floats are copies already."""
    return not is_key(table) and not is_narrow(table.dtype)


def _scatter_into_copy(case: ScatterCase, indices: jax.Array, input: jax.Array, updates: jax.Array) -> jax.Array:
    """XLA:CPU stores all coordinates of single elements first: in 16 bits where these suffice, half of an index's."""
    write = case.write
    sizes = [input.shape[axis] for axis in write.slices.indexed]
    if write.slices.kind != "slices" and max(sizes) <= DROPPED and case.devices == 1:  # or XLA adds offsets to indices
        indices, write = _shorten(indices, sizes, write.mode), replace(write, indices_are_sorted=False)
    return replace(case, write=write).scatter(indices, copy_in_a_loop(input), updates)


def _shorten(indices: jax.Array, sizes: Sequence[int], mode: str) -> jax.Array:
    """Indices of 16 bits that address the same; any out of range becomes the greatest, which is out of range too."""
    last = np.asarray([size - 1 for size in sizes], indices.dtype).reshape((1,) * (indices.ndim - 1) + (-1,))
    inside = jnp.clip(indices, np.zeros((), indices.dtype), last)
    if mode == "clip":
        indices = inside
    if mode == "fill":
        indices = jnp.where(indices == inside, indices, np.asarray(DROPPED, indices.dtype))
    return indices.astype(jnp.uint16)


def _leave(case: TableCopy) -> Move | None:
    """The scatter that follows copies the table."""
    return (lambda _, out, input: input) if _is_copied(case.input) else None


def _update_copy(case: StridedWrite) -> Move | None:
    can = case.bytes > 0 and _is_copied(case.buffer)
    return partial(_branch_into_copy, case.layout) if can and case.layout.window(case.buffer.shape[0]) else None


def _branch_into_copy(layout: Layout, _: None, buffer: jax.Array, updates: jax.Array) -> jax.Array:
    """Writes in a branch, which XLA does not fuse with the copy."""
    buffer, updates = varying_alike(buffer, updates)
    taken, table = partial(write, layout, None), copy_in_a_loop(buffer)
    return lax.cond(hide_constant(True), taken, lambda buffer, _: buffer, table, updates)


def _is_large(case: ScatterCase | TableCopy) -> bool:
    return not is_tiny(case.input, case.updates)


VARIANTS = (
    Variant("scatter_into_copy", "scatter", "cpu", _write_into_copy, _is_large, on_several=True),
    Variant("scatter_into_copy", "copy_table", "cpu", _leave, _is_large, on_several=True),
    Variant(
        "scatter_into_copy", "strided_write", "cpu", _update_copy, lambda case: not is_tiny(case.buffer, case.updates)
    ),
)
