"""Transposes, copies and indices kept out of fusions on CPUs: XLA:CPU fuses nothing with a branch or with a loop."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..plain.data_movement import MoveCase
from ..plain.gather import GatherCase
from ..plain.gather_scatter_dimension_numbers import Slices
from ..plain.permute import PermuteCase
from ..plain.split import Part
from ..primitive import Move
from ..values.bit_exact import as_bits, fence, hide_constant, is_float8, is_narrow, never_one
from ..variant_selection import Variant, known_bytes
from .long_loops import SHORT, read_long

__all__ = ["VARIANTS", "copy_in_a_loop"]


def copy_in_a_loop(array: jax.Array) -> jax.Array:
    """A copy by a loop over all elements: a condition that XLA does not know selects each of them."""
    return lax.select(hide_constant(True), array, jnp.zeros_like(array))


def _materialize(array: jax.Array) -> jax.Array:
    """Stores integers, one at least, before anything reads them: they enter a loop that never runs."""
    runs = never_one(array.reshape(-1)[0]) != 0
    return lax.while_loop(lambda state: state[0], lambda state: (~state[0], state[1] + 1), (runs, array))[1]


# Indices clipped before rows are read: a core looks some 256 instructions ahead, so the fewer of them a row takes, the
# more rows it waits for at once. Indices [7, -1] of a table of 4 rows become [3, 0], stored, which the loop only loads.

CACHE = 32 * 2**20  # bytes that the last cache of a small server has: rows of a smaller table are near
MANY = 2**20  # bytes read, so that storing the indices is little beside them


def _read_rows(case: GatherCase) -> Move | None:
    if not case.row_dims or case.devices > 1 or case.read.mode == "fill":
        return None
    read = replace(case.read, mode="promise_in_bounds")
    is_long = case.width in SHORT and case.itemsize <= 2
    move = partial(read_long, read, case.row_dims) if is_long else as_bits(read, is_float8)
    return lambda indices, input: move(_clip(indices, input.shape, case.read.slices), input)


def _is_cold(case: GatherCase) -> bool:
    """Whole vectors of 32 bytes, in loops that LLVM unrolls, from a table that no cache holds."""
    is_far = case.slab_bytes > CACHE and known_bytes(case.result) >= MANY and not case.is_sorted
    return is_far and case.width < SHORT.stop and case.row_bytes >= 32


def _clip(indices: jax.Array, shape: Sequence[int], slices: Slices) -> jax.Array:
    """Indices within a table of `shape`, as unsigned integers."""
    most = np.asarray([shape[axis] - 1 for axis in slices.indexed], indices.dtype)
    clipped = jnp.clip(indices, 0, most.reshape((1,) * (indices.ndim - 1) + (-1,)))
    return _materialize(clipped.astype(f"uint{8 * indices.dtype.itemsize}"))


# Parts of pictures of 16 columns: 100 of their 200 rows are cut out of runs of 200 * 16 elements as runs of 100 * 16. A
# loop over rows of 16 LLVM would unroll, and copy single elements.

UNROLLED = 75  # elements: the loop over a shorter row LLVM unrolls, as each costs 4 of 300
RUN = 1024  # bytes: a shorter run gains less than the branch and its loop take to begin


def _cut(case: MoveCase) -> Move | None:
    part, can = case.move, case.devices == 1 and case.bytes > 0
    return partial(_cut_flat, part, case.result.shape) if isinstance(part, Part) and can else None


def _has_short_rows(case: MoveCase) -> bool:
    """Branches of several parts run at the same time; images of narrow floats pass a loop of their own."""
    part, dtype = case.move, case.result.dtype
    if not isinstance(part, Part) or part.is_whole or case.itemsize > 2 or is_narrow(dtype):
        return False
    *inner, row = case.result.shape[part.axis + 1 :] or (UNROLLED,)
    return row < UNROLLED and part.size * prod(inner) * row * case.itemsize >= RUN


def _cut_flat(part: Part, shape: Sequence[int], _: None, array: jax.Array) -> jax.Array:
    """Merges the dimensions from the axis on, so that the loop over them is long."""
    *outer, size = array.shape[: part.axis + 1]
    run = prod(array.shape[part.axis + 1 :])
    flat = Part(1, part.start * run, part.size * run, part.is_whole)
    rows = array.reshape(prod(outer), size * run)
    cut = partial(as_bits(fence(flat)), None)  # casts outside of the branch would be passes
    return lax.cond(hide_constant(True), cut, lambda rows: jnp.zeros_like(cut(rows)), rows).reshape(shape)


# A transpose after a barrier, which is not fused with the split of dimensions before it: XLA:CPU transposes by blocks.


def _permute(case: PermuteCase) -> Move | None:
    """None for floats that XLA:CPU quiets: to move them as integers after a barrier takes two more passes."""
    can = case.devices == 1 and not is_narrow(case.operand.dtype)
    return partial(_permute_after_barrier, case) if can else None


def _has_far_sides(case: PermuteCase) -> bool:
    """XLA:CPU transposes by blocks only over two long loops: those of a matrix, or of sides that lie apart."""
    return not case.is_operand and (case.is_matrix or not case.has_neighbours)


def _permute_after_barrier(case: PermuteCase, _: None, array: jax.Array) -> jax.Array:
    split = lax.optimization_barrier(lax.reshape(array, case.sizes))
    return lax.reshape(lax.transpose(split, case.order), case.permutation.shape)


VARIANTS = (
    Variant("unfused", "gather", "cpu", _read_rows, _is_cold),
    Variant("unfused", "move", "cpu", _cut, _has_short_rows),
    Variant("unfused", "permute", "cpu", _permute, _has_far_sides),
)
