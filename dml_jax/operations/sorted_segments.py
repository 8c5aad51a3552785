"""Sums of many updates per row, without contention: once they are sorted by row, the updates of a row are a segment.

Segments may be long, and the work of a thread must not be. So updates are summed in blocks, and these sums in blocks
again, as far as they lie after the first block of a segment. A row then adds up the rest of its first block, and the
total of all later blocks. In blocks of 4:

    row      7 7 7|7 7 7 7|7 7 7 7|7 9 9 9      sorted; | where a block begins
    sums           b1      b2      b3           of row 7; b3 is of one update, as its segment ends there
    row 7 = 3 updates + total(b1, b2, b3); row 9 = 3 updates

The order of all additions follows from the indices alone: the result has the same bits in every run of the program.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .scatter_combiners import Reduction
from .scatter_rows import Rows
from .values.bit_exact import as_bits
from .values.packed_words import element, from_words, join_elements, lanes, to_words

# An array of rows as one encoded array per lane of a word.
Lanes = Sequence[jax.Array]

# Most segments are short, and as many updates are read for each row as a first block has. Only a kernel that reads many
# rows is unrolled: it is up to a third faster then, but the whole takes three times as long to compile.
FIRST_BLOCK, SECOND_BLOCK, LATER_BLOCK = 4, 8, 16
UNROLLED = SECOND_BLOCK
LAST_BLOCK = 64  # so few blocks are one
FEW = 8  # rows of the table for each update: where there are more, only rows that have updates are computed


def reduce_segments(rows: Rows, reduction: Reduction, indices: jax.Array, *data: jax.Array) -> jax.Array:
    """A scatter that reduces: the updates of each row, then their total with the row of a table.

    Args:
      rows: of the table.
      reduction: combines two.
      indices: in the rank that lax.scatter wants, at least one.
      data: the table, unless it holds the identity of the reduction; the updates.
    """
    *table, updates = data
    held = rows.fold(table[0]) if table else None
    unsorted, packed = rows.row_of_each(indices), _Packed(rows.fold_updates(updates), reduction)
    # Stable, so that updates of a row are added in the order in which they come.
    numbers, order = lax.sort((unsorted, lax.iota(jnp.int32, unsorted.shape[0])), num_keys=1, is_stable=True)
    segments = _Segments(numbers, rows.count, reduction)
    later = segments.totals(packed, order)
    if held is None and numbers.shape[0] * FEW > rows.count:  # a row without an update is the identity
        total = segments.total(packed, order, segments.first, segments.end, FIRST_BLOCK, later)
        return rows.unfold(packed.rounded(total))
    begins = numbers != jnp.concatenate([jnp.full(1, -1, jnp.int32), numbers[:-1]])
    row = jnp.where(begins, numbers, 0)  # of one that goes on, nothing is read or written
    first, end = (jnp.where(begins, bound[row], 0) for bound in (segments.first, segments.end))
    total = segments.total(packed, order, first, end, FIRST_BLOCK, later)
    # As integers, which every platform reads and writes where they are, and no more of the table than that.
    store = as_bits(lambda row, table, rows: table.at[row].set(rows, mode="drop", unique_indices=True))
    at = jnp.where(begins, numbers, np.int32(rows.count))
    if held is None:
        return rows.unfold(packed.unpacked(store(at, packed.identity(rows.count), packed.joined(total))))
    before = as_bits(lambda row, table: table.at[row].get(mode="clip"))(row, held)
    lanes_held = packed.split(to_words(before) if packed.lanes > 1 else before)
    written = packed.rounded([reduction.combine(a, b) for a, b in zip(lanes_held, total, strict=True)])
    return rows.unfold(store(at, held, written))


@dataclass(frozen=True)
class _Packed:
    """Rows of an array, read and written by words where elements are narrow.

    Args:
      array: (rows, width).
      reduction: encodes elements.
    """

    array: jax.Array
    reduction: Any

    @property
    def lanes(self) -> int:
        """Elements of a word; 1 where rows are no whole words."""
        return lanes(self.array.dtype) if self.array.shape[1] % lanes(self.array.dtype) == 0 else 1

    def rows(self, at: jax.Array) -> Lanes:
        """Some of the rows."""
        return self.split((to_words(self.array) if self.lanes > 1 else self.array).at[at].get(mode="clip"))

    def split(self, rows: jax.Array) -> Lanes:
        """The lanes of rows, which are words if there are several lanes."""
        dtype = self.array.dtype
        if self.lanes == 1:
            return [self.reduction.encode(rows)]
        narrow = jnp.dtype(f"uint{8 * dtype.itemsize}")
        each = (element(rows, lane, dtype).astype(narrow) for lane in range(self.lanes))
        return [self.reduction.encode(lax.bitcast_convert_type(x, dtype)) for x in each]

    def joined(self, parts: Lanes) -> jax.Array:
        """Rows of words, or of elements where rows are no whole words; rounded to the type of this array."""
        narrow = [self.reduction.decode(part, self.array.dtype) for part in parts]
        return join_elements(narrow, self.array.dtype) if self.lanes > 1 else narrow[0]

    def unpacked(self, joined: jax.Array) -> jax.Array:
        """An array of the type of this one."""
        return from_words(joined, self.array.dtype) if self.lanes > 1 else joined

    def rounded(self, parts: Lanes) -> jax.Array:
        """Both."""
        return self.unpacked(self.joined(parts))

    def identity(self, count: int) -> jax.Array:
        """So many rows of the identity, as `joined` gives them."""
        parts = jax.eval_shape(self.rows, jax.ShapeDtypeStruct((1,), jnp.int32))
        one = self.joined([jnp.asarray(self.reduction.identity(part.dtype)) for part in parts])
        return jnp.broadcast_to(one, (count, *parts[0].shape[1:]))


@dataclass(frozen=True)
class _Stored:
    """Sums of blocks, as `_Packed` gives rows."""

    parts: Lanes

    def rows(self, at: jax.Array) -> Lanes:
        return [part.at[at].get(mode="clip") for part in self.parts]


class _Segments:
    """The segments of sorted numbers, and the blocks in which they are combined.

    A segment is the range from `first` to `end`, per row of the table; both are 0 for a row that is not there. On the
    next level it is the range of the blocks that begin in it, but for the one in which it begins.
    """

    def __init__(self, numbers: jax.Array, count: int, reduction: Any):
        self.numbers, self.reduction = numbers, reduction
        position = lax.iota(jnp.int32, numbers.shape[0])
        differs = numbers[1:] != numbers[:-1]
        whole = jnp.ones(1, bool)

        def per_row(at_bound: jax.Array, values: jax.Array) -> jax.Array:
            at = jnp.where(at_bound, numbers, np.int32(count))
            return jnp.zeros(count, jnp.int32).at[at].set(values, mode="drop", unique_indices=True)

        self.first = per_row(jnp.concatenate([whole, differs]), position)
        self.end = per_row(jnp.concatenate([differs, whole]), position + 1)

    def totals(self, source: Any, order: jax.Array) -> "_Stored | None":
        """The total of a segment after its first block, stored at the block after that; None if there is one block."""
        return self._later_blocks(source, order, self.numbers.shape[0], FIRST_BLOCK, [])

    def _later_blocks(
        self, source: Any, order: jax.Array | None, length: int, block: int, blocks: list[int]
    ) -> "_Stored | None":
        """`totals` of the level above `length` rows of `source`; `blocks` are the sizes of those below."""
        if length <= block:
            return None
        blocks = [*blocks, block]
        number = lax.iota(jnp.int32, -(-length // block))
        size = np.prod(blocks, dtype=np.int32)
        row = self.numbers.at[number * size].get(mode="clip")
        first, end = (bound.at[row].get(mode="fill", fill_value=0) for bound in (self.first, self.end))
        # Bounds of rows, as bounds of blocks, level by level.
        for each in blocks[:-1]:
            first, end = _above(first, end, each)
        below_end, (first, end) = end, _above(first, end, block)
        goes_on = (first <= number) & (number < end)
        most = jnp.where(goes_on, jnp.minimum(below_end - number * block, block), 0)
        sums = _Stored(lax.optimization_barrier(self._window(source, order, number * block, most, block)))
        is_first = goes_on & (number == first)
        end = jnp.where(is_first, end, number)
        count = number.shape[0]
        above = count if count <= LAST_BLOCK else SECOND_BLOCK if blocks == [FIRST_BLOCK] else LATER_BLOCK
        later = self._later_blocks(sums, None, count, above, blocks)
        total = self.total(sums, None, number, end, above, later)
        return _Stored(lax.optimization_barrier(total))

    def total(
        self, source: Any, order: jax.Array | None, first: jax.Array, end: jax.Array, block: int, later: Any
    ) -> Lanes:
        """Combines the rest of the first block of each segment [first, end), and `later`, the blocks after it."""
        next_block = first // block + 1
        total = self._window(source, order, first, jnp.minimum(end, next_block * block) - first, block)
        if later is None:
            return total
        crosses = end > next_block * block
        rest = later.rows(jnp.where(crosses, next_block, 0))
        return self._combine(total, [self._if(crosses, part) for part in rest])

    def _window(self, source: Any, order: jax.Array | None, first: jax.Array, most: jax.Array, block: int) -> Lanes:
        """Combines the rows [first, first + most) of `source`, or of those that `order` lists; at most `block`."""
        step = lax.broadcasted_iota(jnp.int32, (block, first.shape[0]), 0)
        # In place of rows that are not needed, the first one is read again, from a cache.
        at = first[None] + jnp.where(step < most[None], step, 0)
        if order is not None:
            at = lax.optimization_barrier(order.at[at].get(mode="clip"))
        if block <= UNROLLED:
            return reduce(
                self._combine, ([self._if(j < most, part) for part in source.rows(at[j])] for j in range(block))
            )
        terms = [self._if(step < most[None], part) for part in source.rows(at)]
        return lax.reduce(terms, [self.reduction.identity(part.dtype) for part in terms], self._combine, (0,))

    def _combine(self, a: Lanes, b: Lanes) -> Lanes:
        return [self.reduction.combine(x, y) for x, y in zip(a, b, strict=True)]

    def _if(self, condition: jax.Array, rows: jax.Array) -> jax.Array:
        return jnp.where(condition[..., None], rows, self.reduction.identity(rows.dtype))


def _above(first: jax.Array, end: jax.Array, block: int) -> tuple[jax.Array, jax.Array]:
    """A range of rows, as one of the blocks that begin after its first row and inside of it."""
    return first // block + 1, (end - 1) // block + 1
