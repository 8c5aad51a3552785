"""Dimension numbers of gathers and scatters: which slices of a table the indices address."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jax import lax


@dataclass(frozen=True)
class Slices:
    """One slice of a table per tuple of indices, and where it lies in the result, or in the updates of a write.

    With a table of (2, 5, 3) and 4 indices along its dimension 1, `indexed` is (1,); dimensions 0 and 2 are whole, and
    are `placed` as dimensions 0 and 2 of a result of (2, 4, 3), whose dimension 1 has the indices.

    Args:
      rank: of the table.
      indexed: its dimensions that the coordinates of a tuple address, one each.
      along: its batching dimensions, each paired with one of the indices: a tuple addresses its own position there.
      indices_along: the batching dimensions of the indices, in the same order.
      placed: where the other dimensions of the table, which are whole, lie in the result, in order.
    """

    rank: int
    indexed: tuple[int, ...]
    along: tuple[int, ...] = ()
    indices_along: tuple[int, ...] = ()
    placed: tuple[int, ...] = ()

    @property
    def whole(self) -> tuple[int, ...]:
        """The dimensions of the table that a slice has whole."""
        return tuple(d for d in range(self.rank) if d not in self.indexed and d not in self.along)

    @property
    def kind(self) -> str:
        """The targets of tuples: "slices" with whole dimensions, "elements" by one axis, "tuples" by several."""
        return "slices" if self.whole else "elements" if len(self.indexed) == 1 else "tuples"

    @property
    def reads(self) -> lax.GatherDimensionNumbers:
        """Dimension numbers for lax.gather."""
        return lax.GatherDimensionNumbers(
            offset_dims=self.placed,
            collapsed_slice_dims=self.indexed,
            start_index_map=self.indexed,
            operand_batching_dims=self.along,
            start_indices_batching_dims=self.indices_along,
        )

    @property
    def writes(self) -> lax.ScatterDimensionNumbers:
        """Dimension numbers for lax.scatter."""
        return lax.ScatterDimensionNumbers(
            update_window_dims=self.placed,
            inserted_window_dims=self.indexed,
            scatter_dims_to_operand_dims=self.indexed,
            operand_batching_dims=self.along,
            scatter_indices_batching_dims=self.indices_along,
        )

    def sizes(self, table: Sequence[Any]) -> tuple[Any, ...]:
        """The sizes of one slice of a table of that shape."""
        return tuple(n if d in self.whole else 1 for d, n in enumerate(table))

    def shape(self, table: Sequence[Any], indices: Sequence[Any]) -> tuple[Any, ...]:
        """The shape of the result."""
        whole, free = iter([table[d] for d in self.whole]), iter(indices[:-1])
        # The last dimension of indices holds coordinates. The others keep their order in the result, around `placed`:
        # a table of (2, 5, 3) with placed (0, 2), and indices of (4, 1), make (2, 4, 3).
        rank = len(indices) - 1 + len(self.placed)
        return tuple(next(whole) if d in self.placed else next(free) for d in range(rank))

    def row(self, indices_rank: int) -> int:
        """How many dimensions are whole, and last in the table and in the result."""
        rank, count = indices_rank - 1 + len(self.placed), 0
        # From the last dimension on, while both sides have it whole: only those lie together in table and result.
        while rank - 1 - count in self.placed and self.rank - 1 - count in self.whole:
            count += 1
        return count

    def merged(self, row: int) -> "Slices":
        """These slices with the last `row` dimensions of table and result as one."""
        return replace(self, rank=self.rank - row + 1, placed=self.placed[: len(self.placed) - row + 1])

    def ends_free(self, indices_rank: int) -> bool:
        """Whether the last dimension of the result is one of the indices alone."""
        last = indices_rank - 2
        return last >= 0 and last + len(self.placed) not in self.placed and last not in self.indices_along
