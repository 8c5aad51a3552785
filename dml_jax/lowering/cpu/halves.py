"""Transposes and tiling on CPUs as a concatenation of two halves, or of all copies.

XLA:CPU fuses a transpose or a broadcast with a reshape that splits or merges dimensions, and then moves single
elements. Halves that it concatenates it fuses just so, but compiles to loops over vectors, and stores nothing in
between. Depth to space of four rows writes rows 0 and 1, then rows 2 and 3. A row [1, 2, 3] that is repeated is a
broadcast to [[1, 2, 3], [1, 2, 3]] and a reshape, which divides the place of each of the six elements by three; the
concatenation of [1, 2, 3] and [1, 2, 3] copies two rows.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from ...operations.data_movement import MoveCase
from ...operations.permute import PermuteCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.tile import Tile
from ...operations.values.bit_exact import as_bits, as_guarded_bits, is_narrow

OPERANDS = 32  # of a concatenation: of more, XLA takes long to compile
VECTORS = 64  # bytes of a row that is copied by vectors
BLOCK = 8  # elements of a side of the least block that XLA:CPU transposes on its own
INTERLEAVED = {2, 4}  # runs of so many elements LLVM takes apart by shuffles
REGISTERS = {2, 4, 8}  # elements of a row that LLVM moves at once, through a register


def _repeat(case: MoveCase) -> Move | None:
    tile = case.move
    if not isinstance(tile, Tile) or max(tile.repeats, default=1) > OPERANDS:
        return None
    return as_guarded_bits(partial(_concatenate, tile))


def _has_long_rows(case: MoveCase) -> bool:
    """XLA:CPU broadcasts wide elements by vectors anyway, and narrow floats pass a loop of their own as integers.

    A second dimension that is repeated would make a temporary.
    """
    is_short = case.itemsize <= 2 and not is_narrow(case.result.dtype)
    if not isinstance(case.move, Tile) or not is_short or not case.result.shape:
        return False
    *others, last = case.move.repeats
    return last > 1 == max(others, default=1) and case.data[0].shape[-1] * case.itemsize >= VECTORS


def _concatenate(tile: Tile, _: None, array: jax.Array) -> jax.Array:
    """Starts with the last dimension, so that the small arrays are the ones that are copied often."""
    for axis, count in reversed([*enumerate(tile.repeats)]):
        array = lax.concatenate([array] * count, axis) if count > 1 else array
    return array


def _permute_halves(case: PermuteCase, _: None, array: jax.Array) -> jax.Array:
    array, first = lax.reshape(array, case.sizes), case.order[0]
    middle = case.sizes[first] // 2
    halves = [lax.slice_in_dim(array, *part, axis=first) for part in ((0, middle), (middle, None))]
    return lax.reshape(lax.concatenate([lax.transpose(half, case.order) for half in halves], 0), case.permutation.shape)


def _pays(case: PermuteCase) -> bool:
    """Rows; short sides beside long ones, which are loops that LLVM unrolls; and bfloat16, which moves as integers."""
    if case.is_operand or case.has_rows or case.operand.dtype == jnp.bfloat16:
        return not case.is_operand and not _is_loop_over_registers(case)
    last, shown = case.sides
    if case.is_matrix:
        return min(last, shown) < BLOCK
    is_interleaved = case.order[-2] + 1 == len(case.order) and last in INTERLEAVED and shown >= BLOCK
    return case.has_neighbours and not is_interleaved


def _is_loop_over_registers(case: PermuteCase) -> bool:
    """Whether XLA's innermost loop moves short rows as they are: one or two, or more than a row has elements.

    Depth to space in blocks of 4 makes lines of w * 4 elements, w short rows side by side. Space to depth makes lines
    of 4 * 4, which only halves fill by vectors.
    """
    line, row = next(size for size in reversed(case.permutation.shape) if size != 1), case.sides[0]
    is_row = case.has_rows and case.operand.dtype != jnp.bfloat16 and line % row == 0
    return is_row and row in REGISTERS and not 2 < line // row <= row


VARIANTS = (
    Variant("halves", "move", "cpu", _repeat, _has_long_rows, on_several=True),
    Variant("halves", "permute", "cpu", lambda case: as_bits(partial(_permute_halves, case)), _pays),
)
