"""Elements read one by one and stored as 32-bit words: a thread of a GPU stores four bytes, or two halves, at once.

Reading elements 5, 2, 2 and 7 of [10, 11, ... 17], a thread reads the bytes 15, 12, 12 and 17, and stores the one word
0x110c0c0f. XLA fuses the four reads, each of every fourth index, with the shifts that put them together.
"""

from functools import partial

import jax
from jax import lax

from ...operations.data_movement import MoveCase
from ...operations.fill import Fill, select_value
from ...operations.gather import GatherCase, Read
from ...operations.pad import Border
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.packed_words import as_integers, from_words, join_all, join_elements, join_lanes, lanes
from .memory_coalescing import WARP


def _read_elements(case: GatherCase) -> Move | None:
    count, slices = lanes(case.input.dtype), case.read.slices
    is_last = slices.kind != "elements" or case.axis == case.input.ndim - 1
    is_whole = slices.ends_free(case.indices.ndim) and case.indices.shape[-2] % (count * case.devices) == 0
    return partial(_read_lanes, case.read) if count > 1 and is_last and is_whole else None


def _read_lanes(read: Read, indices: jax.Array, input: jax.Array) -> jax.Array:
    """Reads every lane of the words of the result by a gather of its own."""
    *outer, last, coordinates = indices.shape
    count, integers = lanes(input.dtype), as_integers(input)
    split = indices.reshape(*outer, last // count, count, coordinates)
    parts = [read(lax.index_in_dim(split, lane, -2, keepdims=False), integers) for lane in range(count)]
    return from_words(join_elements(parts, input.dtype), input.dtype)


def _fills_a_warp(case: GatherCase) -> bool:
    """Threads of a warp store together: an axis of fewer words leaves some idle."""
    least = WARP * lanes(case.input.dtype)
    return case.input.shape[case.axis] >= (least if case.read.slices.kind == "slices" or case.read.computed else 2048)


def _move(case: MoveCase) -> Move | None:
    """Rows of whole words on every device; of other rows, the words of the flat result, whose last one may be cut.

    Fills and choices between two numbers read no elements that words could be assembled from.
    """
    count, result = lanes(case.result.dtype), case.result
    has_rows = result.ndim > 0 and result.shape[-1] % (count * case.devices) == 0
    reads = not isinstance(case.move, Fill) and case.move is not select_value
    if count == 1 or not reads or not (has_rows or case.devices == 1):
        return None
    join = join_lanes if has_rows else join_all
    return lambda where, *data: join(case.move(where, *map(as_integers, data)), result.dtype)


def _is_torn(case: MoveCase) -> bool:
    """Whether XLA:GPU reads or stores less than a word at once: bytes, and 16 bits where pieces of odd sizes meet.

    Reads of every second element take longer than any store. Borders of copies have pieces for each element of a word.
    """
    is_of_copies = isinstance(case.move, Border) and case.move.copies
    has_steps = case.words is not None and case.words(1) is None
    if is_of_copies or has_steps or case.aligned % lanes(case.result.dtype) == 0:
        return False
    return case.itemsize == 1 or sum(array.ndim > 0 for array in case.data) > 1


VARIANTS = (
    Variant("assembled_words", "gather", "cuda", _read_elements, _fills_a_warp, on_several=True),
    Variant("assembled_words", "move", "cuda", _move, _is_torn, on_several=True),
)
