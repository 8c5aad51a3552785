"""Padding with copies on GPUs as one gather: a GPU computes indices faster than it selects among pieces.

For [10, 11, 12] with a border of two elements, reflected, result i comes from place |i - 2|, from the other end beyond
the last one: the places are [2, 1, 0, 1, 2, 1, 0], and one gather reads [12, 11, 10, 11, 12, 11, 10]. A concatenation
of the pieces [12, 11], [10, 11, 12] and [11, 10] along two dimensions becomes long chains of conditions in each thread.
"""

from functools import partial
from math import gcd

import jax
import jax.numpy as jnp
from jax import lax

from ...operations.data_movement import MoveCase
from ...operations.gather import Read
from ...operations.gather_scatter_dimension_numbers import Slices
from ...operations.pad import Border
from ...operations.pad_source_indices import source_of
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import as_bits

PLACES = 2**31  # of int32, in which places are computed


def _gather(case: MoveCase) -> Move | None:
    border = case.move
    if not isinstance(border, Border) or not border.copies or not border.axes:
        return None
    return as_bits(partial(_read, border)) if 3 * max(case.result.shape) < PLACES else None


def _pays(case: MoveCase) -> bool:
    """XLA:GPU concatenates pieces of even sizes along one dimension fast: by two narrow elements at a time."""
    if case.devices > 1 or not isinstance(case.move, Border):
        return False
    start, end, axes = case.move.start, case.move.end, case.move.axes
    is_odd = gcd(*(n for d in axes for n in (start[d], case.data[0].shape[d], end[d]))) % 2 == 1
    return case.itemsize >= 4 or len(axes) > 1 or is_odd


def _read(border: Border, _: None, array: jax.Array) -> jax.Array:
    axes = border.axes
    sizes = [border.start[d] + array.shape[d] + border.end[d] for d in axes]
    places = [lax.broadcasted_iota(jnp.int32, sizes, i) for i in range(len(axes))]
    sources = [source_of(border.mode, i, border.start[d], array.shape[d]) for i, d in zip(places, axes, strict=True)]
    others = tuple(d for d in range(array.ndim) if d not in axes)
    read = Read(Slices(array.ndim, tuple(axes), placed=others), "promise_in_bounds")
    return read(jnp.stack(sources, -1), array)


VARIANTS = (Variant("gathered", "move", "cuda", _gather, _pays, on_several=True),)
