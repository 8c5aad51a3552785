"""Padding on CPUs: every row of the result is selected from windows of the flattened array, in one loop.

Rows of 5 with two elements before them become rows of 7. The window of row r begins at 5 r - 2: its first
two elements belong to the row before, and the border is chosen in their place. LLVM vectorises such a loop. One that
has to ask whether there is an element at all it vectorises for 4 and 8 bytes only.
"""

from collections.abc import Sequence
from functools import partial
from math import ceil, prod
from typing import NamedTuple

import jax
import numpy as np
from jax import lax

from ...operations.data_movement import MoveCase
from ...operations.pad import Border
from ...operations.pad_source_indices import PERIODS, cut_runs, source_of
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import is_narrow

SHORTEST = {"constant": 56}  # elements of a row of the result; shorter rows gain nothing
SHORTEST_COPIES = 16
MOST = 4  # windows to choose from
FARTHEST = 2**30  # elements, in int32 with windows around them
PLANES = 16  # as many as one that is padded in another way


class _Piece(NamedTuple):
    """A part of the rows of the result, from a column on: a window of the row, one of its elements, or the value."""

    column: int
    first: int  # where in the row column 0 comes from
    step: int | None  # to the next column: 1, -1, or 0 for one element; None for the value


def _windows(case: MoveCase) -> Move | None:
    """Pays for few windows, if nearly all of them lie inside the array."""
    border = case.move
    # LLVM chooses among images of narrow floats as floats.
    if not isinstance(border, Border) or case.bytes == 0 or is_narrow(case.result.dtype):
        return None
    return partial(_pad, border) if _fits_windows(case.data[0].shape, border) else None


def _fits_windows(shape: Sequence[int], border: Border) -> bool:
    """Whether rows get a border from few windows, nearly all inside an array of that shape."""
    if len(shape) - 1 not in border.axes:
        return False
    start, end = border.start[-1], border.end[-1]
    length, shortest = start + shape[-1] + end, SHORTEST.get(border.mode, SHORTEST_COPIES)
    if length < shortest or prod(shape) + length > FARTHEST:
        return False
    if border.mode in PERIODS and length > (MOST + 2) * shape[-1]:  # without a list of them, which could be long
        return False
    pieces = _pieces(shape[-1], start, end, border.mode)
    if len(pieces) > MOST:
        return False
    first = border.axes[0]
    outside = _outside(shape[first:], start + end, pieces)
    return first > 0 and max(outside) <= shape[first - 1] and prod(shape[:first]) >= PLANES * sum(outside)


def _pays(case: MoveCase) -> bool:
    """For copies XLA stores a temporary. For one number it computes a condition per element, which is slow for bytes.

    Windows are faster for elements of 2 bytes too, but take three times as long to trace and lower as a pad.
    """
    return isinstance(case.move, Border) and case.itemsize <= (8 if case.move.copies else 1)


def _pad(border: Border, _: None, array: jax.Array, *value: jax.Array) -> jax.Array:
    """Pads by windows; the first and the last planes, whose windows reach outside, by `border`."""
    first, width = border.axes[0], array.shape[-1]
    planes = prod(array.shape[:first])
    pieces = _pieces(width, border.start[-1], border.end[-1], border.mode)
    before, after = _outside(array.shape[first:], border.start[-1] + border.end[-1], pieces)
    whole = lax.reshape(array, (planes, *array.shape[first:]))
    padded = _pad_rows(whole, Border(border.start[first:], border.end[first:], border.mode), pieces, *value)
    padded = lax.reshape(padded, (*array.shape[:first], *padded.shape[1:]))
    for low, high in ((0, before), (planes - after, planes)):
        if low < high:
            part = lax.slice_in_dim(whole, low, high)
            edge = border(None, lax.reshape(part, (*[1] * (first - 1), *part.shape)), *value)
            lead = [n - k if low else 0 for n, k in zip(padded.shape[:first], edge.shape[:first], strict=True)]
            padded = lax.dynamic_update_slice(padded, edge, [np.int32(n) for n in (*lead, *[0] * (edge.ndim - first))])
    return padded


def _pieces(size: int, start: int, end: int, mode: str) -> list[_Piece]:
    """The pieces of a row, from left to right."""
    if mode == "constant":
        pieces = [_Piece(0, 0, None), _Piece(start, -start, 1), _Piece(start + size, 0, None)]
    elif mode == "edge":
        pieces = [_Piece(0, 0, 0), _Piece(start, -start, 1), _Piece(start + size, size - 1, 0)]
    else:
        pieces, column = [], 0
        period = PERIODS[mode](size)
        before = -start % sum(high - low for low, high, _ in period)
        for low, high, is_reversed in cut_runs(period, before, before + start + size + end):
            pieces.append(_Piece(column, high - 1 + column, -1) if is_reversed else _Piece(column, low - column, 1))
            column += high - low
    ends = [*(piece.column for piece in pieces[1:]), start + size + end]
    return [piece for piece, end in zip(pieces, ends, strict=True) if end > piece.column]


def _outside(plane: Sequence[int], border: int, pieces: Sequence[_Piece]) -> tuple[int, int]:
    """How many planes at the beginning and at the end have windows that reach outside of the array."""
    width, length = plane[-1], plane[-1] + border
    low = min(_start(piece, length) for piece in pieces if piece.step)
    high = max(_start(piece, length) + length for piece in pieces if piece.step) - width
    return max(0, ceil(-low / prod(plane))), max(0, ceil(high / prod(plane)))


def _start(piece: _Piece, length: int) -> int:
    """Where in the row its window begins."""
    return piece.first if piece.step == 1 else piece.first - length + 1


def _pad_rows(x: jax.Array, border: Border, pieces: Sequence[_Piece], *value: jax.Array) -> jax.Array:
    """Pads all dimensions of (planes, ...) but the first; wrong where a window reaches outside of the array."""
    (*starts, before), (*inner, width) = border.start, x.shape[1:]
    rows = (x.shape[0], *(a + n + b for a, n, b in zip(starts, inner, border.end, strict=False)))
    shape = (*rows, before + width + border.end[-1])
    row, are_inside = lax.broadcasted_iota(np.int32, rows, 0), []  # see FARTHEST
    for d, (start, n) in enumerate(zip(starts, inner, strict=True), 1):
        at = lax.broadcasted_iota(np.int32, rows, d)
        source = source_of(border.mode if border.copies else "edge", at, start, n)
        row = lax.add(lax.mul(row, np.int32(n)), source)
        are_inside += [] if border.copies else [lax.eq(lax.sub(at, np.int32(start)), source)]
    row, column = lax.mul(row, np.int32(width)), lax.broadcasted_iota(np.int32, shape, len(rows))
    flat, outside = lax.reshape(x, (x.size,)), [lax.broadcast(number, shape) for number in value]
    contents = [outside[0] if piece.step is None else _window(flat, row, shape, piece) for piece in pieces]
    result = contents[0]
    for piece, content in zip(pieces[1:], contents[1:], strict=True):
        result = lax.select(lax.ge(column, np.int32(piece.column)), content, result)
    for is_inside in are_inside:
        result = lax.select(lax.broadcast_in_dim(is_inside, shape, range(len(rows))), result, *outside)
    return result


def _window(flat: jax.Array, row: jax.Array, shape: Sequence[int], piece: _Piece) -> jax.Array:
    """The elements that each row reads for a piece."""
    rank, length = row.ndim, shape[-1]
    if piece.step == 0:  # an index for every column: XLA would compute a broadcast row in a loop of its own
        at = lax.broadcast_in_dim(lax.add(row, np.int32(piece.first)), (*shape, 1), range(rank))
        numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
        return lax.gather(flat, at, numbers, (1,), mode="promise_in_bounds")
    at = lax.expand_dims(lax.add(row, np.int32(_start(piece, length))), (rank,))
    numbers = lax.GatherDimensionNumbers(offset_dims=(rank,), collapsed_slice_dims=(), start_index_map=(0,))
    window = lax.gather(flat, at, numbers, (length,), mode="promise_in_bounds")
    return window if piece.step == 1 else lax.rev(window, (rank,))


VARIANTS = (Variant("windowed", "move", "cpu", _windows, _pays),)
