"""Borders of rows on CPUs: every row of the result is chosen from windows of the flattened array, in one loop.

Of rows of 5 with two elements before them, the result has rows of 7. The window of row r begins at 5 r - 2: its first
two elements belong to the row before, and the border is chosen in their place. LLVM vectorises such a loop. One that
has to ask whether there is an element at all it vectorises for 4 and 8 bytes only.
"""

from collections.abc import Sequence
from functools import partial
from math import ceil, prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..plain.borders import PERIODS, cut_runs, source_of
from ..plain.moves import MoveCase
from ..plain.pad import Border
from ..primitive import Move
from ..select import Variant
from ..values.bits import is_narrow

__all__ = ["VARIANTS", "fits_windows"]

SHORTEST = {"constant": 56}  # elements of a row of the result; what is shorter gains nothing
SHORTEST_COPIES = 16
MOST = 4  # windows to choose from
FARTHEST = 2**30  # elements, in int32 with windows around them
PLANES = 16  # as many as one that is padded in another way


class _Piece(NamedTuple):
    """What rows of the result have from a column on: a window of the row, one of its elements, or the value."""

    column: int
    first: int  # where in the row column 0 comes from
    step: int | None  # to the next column: 1, -1, or 0 for one element; None for the value


def _windows(case: MoveCase) -> Move | None:
    """Few windows, of which all but few lie inside the array."""
    border = case.move
    # LLVM chooses among images of narrow floats as floats.
    if not isinstance(border, Border) or case.devices > 1 or case.bytes == 0 or is_narrow(case.result.dtype):
        return None
    return partial(_pad, border) if fits_windows(case.data[0].shape, border) else None


def fits_windows(shape: Sequence[int], border: Border) -> bool:
    """Whether rows get a border from few windows, of which all but few lie inside an array of that shape."""
    if len(shape) - 1 not in border.axes:
        return False
    start, end = border.start[-1], border.end[-1]
    pieces, length = _pieces(shape[-1], start, end, border.mode), start + shape[-1] + end
    shortest = SHORTEST.get(border.mode, SHORTEST_COPIES)
    if length < shortest or len(pieces) > MOST or prod(shape) + length > FARTHEST:
        return False
    first = border.axes[0]
    outside = _outside(shape[first:], start + end, pieces)
    return first > 0 and max(outside) <= shape[first - 1] and prod(shape[:first]) >= PLANES * sum(outside)


def _pays(case: MoveCase) -> bool:
    """Of copies XLA stores a temporary. Of a constant it asks for each element, in vectors of 4 bytes and more only."""
    return isinstance(case.move, Border) and case.itemsize <= (2 if case.move.mode == "constant" else 8)


def _pad(border: Border, _: None, array: jax.Array, *value: jax.Array) -> jax.Array:
    """As `border`, which pads the first and the last planes, whose windows reach outside."""
    first, start, end = border.axes[0], border.start, border.end
    planes = prod(array.shape[:first])
    pieces = _pieces(array.shape[-1], start[-1], end[-1], border.mode)
    before, behind = _outside(array.shape[first:], start[-1] + end[-1], pieces)
    leading = [1] * (first - 1)
    whole = array.reshape(planes, *array.shape[first:])
    padded = _pad_rows(whole, start[first:], end[first:], pieces, border.mode, *value)
    padded = padded.reshape(*array.shape[:first], *padded.shape[1:])
    if before:
        edge = border(None, whole[:before].reshape(*leading, before, *whole.shape[1:]), *value)
        padded = lax.dynamic_update_slice(padded, edge, (0,) * array.ndim)
    if behind:
        edge = border(None, whole[planes - behind :].reshape(*leading, behind, *whole.shape[1:]), *value)
        at = [n - k if d < first else 0 for d, (n, k) in enumerate(zip(padded.shape, edge.shape, strict=True))]
        padded = lax.dynamic_update_slice(padded, edge, at)
    return padded


def _pieces(size: int, start: int, end: int, mode: str) -> list[_Piece]:
    """Those of a row, from left to right."""
    if mode == "constant":
        found = [_Piece(0, 0, None), _Piece(start, -start, 1), _Piece(start + size, 0, None)]
    elif mode == "edge":
        found = [_Piece(0, 0, 0), _Piece(start, -start, 1), _Piece(start + size, size - 1, 0)]
    else:
        found, column = [], 0
        period = PERIODS[mode](size)
        before = -start % sum(high - low for low, high, _ in period)
        for low, high, is_reversed in cut_runs(period, before, before + start + size + end):
            found.append(_Piece(column, high - 1 + column, -1) if is_reversed else _Piece(column, low - column, 1))
            column += high - low
    ends = [*(piece.column for piece in found[1:]), start + size + end]
    return [piece for piece, behind in zip(found, ends, strict=True) if behind > piece.column]


def _outside(plane: Sequence[int], border: int, pieces: Sequence[_Piece]) -> tuple[int, int]:
    """How many planes at the beginning and at the end have windows that reach outside of the array."""
    width, length = plane[-1], plane[-1] + border
    low = min(_start(piece, length) for piece in pieces if piece.step)
    high = max(_start(piece, length) + length for piece in pieces if piece.step) - width
    return max(0, ceil(-low / prod(plane))), max(0, ceil(high / prod(plane)))


def _start(piece: _Piece, length: int) -> int:
    """Where in the row its window begins."""
    return piece.first if piece.step == 1 else piece.first - length + 1


def _pad_rows(
    x: jax.Array,
    start: Sequence[int],
    end: Sequence[int],
    pieces: Sequence[_Piece],
    mode: str,
    value: jax.Array | None = None,
) -> jax.Array:
    """Of (planes, ...): all dimensions but the first get borders; wrong where a window reaches outside of the array."""
    *rows, length = (x.shape[0], *(a + n + b for a, n, b in zip(start, x.shape[1:], end, strict=True)))
    dtype = jnp.int32  # see FARTHEST
    row, is_inside = lax.broadcasted_iota(dtype, rows, 0), jnp.ones(rows, bool)
    for d, (before, n) in enumerate(zip(start[:-1], x.shape[1:-1], strict=True), 1):
        at = lax.broadcasted_iota(dtype, rows, d)
        row = row * n + source_of("edge" if mode == "constant" else mode, at, before, n)
        is_inside &= (at >= before) & (at < before + n)
    row *= x.shape[-1]
    column = lax.broadcasted_iota(jnp.int32, (*rows, length), len(rows))
    flat, result = x.reshape(-1), None
    for piece in pieces:
        content = (
            _window(flat, row, length, piece)
            if value is None or piece.step is not None
            else jnp.broadcast_to(value, column.shape)
        )
        result = content if result is None else jnp.where(column >= piece.column, content, result)
    assert result is not None
    return result if value is None else jnp.where(is_inside[..., None], result, value)


def _window(flat: jax.Array, row: jax.Array, length: int, piece: _Piece) -> jax.Array:
    """What each row finds in its window."""
    if piece.step == 0:  # an index for every column: XLA would compute what it broadcasts in a loop of its own
        at = jnp.broadcast_to((row + piece.first)[..., None, None], (*row.shape, length, 1))
        numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
        return lax.gather(flat, at, numbers, (1,), mode="promise_in_bounds")
    numbers = lax.GatherDimensionNumbers(offset_dims=(row.ndim,), collapsed_slice_dims=(), start_index_map=(0,))
    window = lax.gather(flat, (row + _start(piece, length))[..., None], numbers, (length,), mode="promise_in_bounds")
    return window if piece.step == 1 else lax.rev(window, (row.ndim,))


VARIANTS = (Variant("windowed", "move", "cpu", _windows, _pays),)
