"""A scatter as updates of whole rows: a table of rows, the index of a row for each update, and the updates."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import ConstraintError
from .gather_scatter_dimension_numbers import Slices
from .programs.partition import TableShards


@dataclass(frozen=True)
class Write:
    """How lax.scatter writes: its attributes, under its names, and other facts.

    Args:
      slices: which slices of the table are written.
      mode: "clip", "fill" (which drops) or "promise_in_bounds".
      unique_indices: whether no two indices in range address one element.
      indices_are_sorted: a promise to XLA about all indices in row-major order.
      deterministic: whether sums of floats have the same bits in every run.
      shards: where every device writes on its own.
    """

    slices: Slices
    mode: str
    unique_indices: bool = False
    indices_are_sorted: bool = False
    deterministic: bool = False
    shards: TableShards | None = None

    @property
    def numbers(self) -> lax.ScatterDimensionNumbers:
        """The dimension numbers of lax.scatter."""
        return self.slices.writes

    @property
    def promises(self) -> dict[str, Any]:
        """The keyword arguments of lax.scatter."""
        return {
            "mode": self.mode,
            "unique_indices": self.unique_indices,
            "indices_are_sorted": self.indices_are_sorted,
        }


@dataclass(frozen=True)
class Rows:
    """A table of `shape` as rows: some of its dimensions number the rows, the others are the elements of a row.

    With shape (2, 5, 3), whose first dimension is a batch as in the indices, and whose second is indexed, there are
    10 rows of 3 elements, and index [1, 4] addresses row 1 * 5 + 4.
    """

    shape: tuple[int, ...]
    write: Write

    @property
    def slices(self) -> Slices:
        """The dimension numbers of the write."""
        return self.write.slices

    @property
    def row_dims(self) -> tuple[int, ...]:
        """The dimensions that number the rows: batches of table and indices first, then the indexed ones."""
        return (*self.slices.along, *self.slices.indexed)

    @property
    def order(self) -> tuple[int, ...]:
        """All dimensions, `row_dims` first."""
        return (*self.row_dims, *(d for d in range(len(self.shape)) if d not in self.row_dims))

    @property
    def count(self) -> int:
        """How many rows."""
        return prod(self.shape[d] for d in self.row_dims)

    @property
    def width(self) -> int:
        """How many elements a row has."""
        return prod(self.shape) // max(1, self.count)

    @property
    def are_stored(self) -> bool:
        """Whether the elements of a row lie together, one row after the other."""
        return self.order == tuple(range(len(self.shape)))

    def are_numbered(self, indices: Any) -> bool:
        """Whether every row, and every update, has a number of 31 bits that is known while tracing."""
        sizes = (*self.shape, *indices.shape)
        is_known = all(isinstance(n, int) for n in sizes)
        return is_known and max(prod(self.shape), prod(indices.shape[:-1])) < 2**31

    def fold(self, table: jax.Array) -> jax.Array:
        """The table as (rows, width)."""
        return table.transpose(self.order).reshape(self.count, self.width)

    def unfold(self, rows: jax.Array) -> jax.Array:
        """Undoes `fold`."""
        sizes = [self.shape[d] for d in self.order]
        return rows.reshape(sizes).transpose([self.order.index(d) for d in range(len(self.shape))])

    def fold_updates(self, updates: jax.Array) -> jax.Array:
        """The updates as (number, width)."""
        window = self.slices.placed
        others = [d for d in range(updates.ndim) if d not in window]
        return updates.transpose(*others, *window).reshape(prod(updates.shape[d] for d in others), self.width)

    def row_of_each(self, indices: jax.Array) -> jax.Array:
        """The number of the row that each update writes; `count` for one that is dropped."""
        return self._numbers(indices, _strides([self.shape[d] for d in self.row_dims]))

    def source_of_each(self, indices: jax.Array) -> jax.Array:
        """For each row the number of its update, if every row has exactly one."""
        numbers = jnp.arange(self.count, dtype=jnp.int32)
        at = self.row_of_each(indices)
        return jnp.zeros_like(numbers).at[at].set(numbers, mode="promise_in_bounds", unique_indices=True)

    def element_of_each(self, indices: jax.Array) -> jax.Array:
        """As `source_of_each`, for rows of one element, in the order in which the table stores them."""
        strides = _strides(self.shape)
        return self._numbers(indices, [strides[d] for d in self.row_dims])

    def _numbers(self, indices: jax.Array, strides: Sequence[int]) -> jax.Array:
        grid = indices.shape[:-1]
        batch, along = len(self.slices.along), self.slices.indices_along
        at = [lax.broadcasted_iota(jnp.int32, grid, d) * np.int32(s) for d, s in zip(along, strides, strict=False)]
        inside = jnp.ones(grid, bool)
        for t, dim in enumerate(self.slices.indexed):
            coordinate, most = indices[..., t], np.asarray(self.shape[dim] - 1, indices.dtype)
            # Clamped before the cast to int32, which would bring an index beyond 31 bits back into range.
            clamped = jnp.clip(coordinate, np.zeros((), indices.dtype), most)
            inside &= clamped == coordinate
            at.append(clamped.astype(jnp.int32) * np.int32(strides[batch + t]))
        # A row that is dropped gets the number after the last one, which lax.scatter drops, and a sort puts last.
        row = sum(at[1:], at[0])
        return (jnp.where(inside, row, np.int32(self.count)) if self.write.mode == "fill" else row).reshape(-1)


def check_sortable(what: str, indices: Any, shape: tuple[Any, ...], write: Write) -> None:
    """Refuses updates that cannot be sorted by row: rows without a number of 31 bits.

    Raises:
      ConstraintError: a size is symbolic, or there are 2**31 elements or updates.
    """
    if not Rows(shape, write).are_numbered(indices):
        raise ConstraintError(
            f"{what} needs sizes that are known while tracing, and fewer than 2**31 elements and updates,"
            f" but the sizes are {shape}, and {indices.shape[:-1]} of the updates"
        )


def _strides(sizes: Sequence[int]) -> list[int]:
    return [prod(sizes[i + 1 :]) for i in range(len(sizes))]
