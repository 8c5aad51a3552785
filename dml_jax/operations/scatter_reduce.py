"""Scatters that add, multiply, or take minima or maxima of updates; the gradient of a gather is such a sum."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .fill import fill_with
from .programs.partition import on_each_device, shape_of_shard
from .programs.primitive import Move, by_target
from .programs.variant_selection import choose, known_bytes, shapes_of
from .scatter_combiners import ADD, Reduction
from .scatter_rows import Rows, Write
from .sorted_segments import FEW, reduce_segments
from .values.accumulation_types import wide_type
from .values.bit_exact import as_bits


@dataclass(frozen=True)
class ScatterReduceCase:
    """One scatter that reduces, for the choice between implementations.

    Args:
      rows: of the table, and how they are written.
      reduction: how numbers of one element are combined.
      indices: shape and type.
      updates: shape and type.
      has_table: whether updates are combined with a table; else with the identity of the reduction.
      devices: among which XLA may divide an array.
    """

    rows: Rows
    reduction: Reduction
    indices: Any
    updates: Any
    has_table: bool
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of updates, indices and table; 0 if row indices exceed 31 bits, or devices share the rows."""
        is_numbered = self.devices == 1 and self.rows.are_numbered(self.indices) and self.number > 0
        return known_bytes(self.updates, self.indices, self.result) if is_numbered else 0

    @property
    def plain(self) -> Move:
        """All updates at once, by the scatter of lax."""
        return partial(_reduce, self.rows, self.reduction)

    @property
    def result(self) -> Any:
        """Shape and type of the table."""
        return jax.ShapeDtypeStruct(self.rows.shape, self.updates.dtype)

    @cached_property
    def number(self) -> int:
        """How many updates there are."""
        return prod(self.indices.shape[:-1])

    @property
    def is_float(self) -> bool:
        """Whether numbers are floats or complex."""
        return bool(jnp.issubdtype(self.updates.dtype, jnp.inexact))

    @property
    def may_meet(self) -> bool:
        """Whether several updates may write one element."""
        return not self.rows.write.unique_indices

    @property
    def segments(self) -> Move | None:
        """Sums in a fixed order; None if none is needed: for integers, and for updates that never meet."""
        return partial(reduce_segments, self.rows, self.reduction) if self.is_float and self.may_meet else None

    @property
    def adds_to_zeros(self) -> bool:
        """Whether floats with duplicate indices are added up, as in the gradient of a gather."""
        return self.reduction is ADD and self.is_float and self.may_meet and not self.has_table

    @property
    def is_permutation(self) -> bool:
        """Whether each row is written exactly once: as many updates as rows, and none is dropped."""
        is_whole = self.rows.write.mode != "fill" and self.number == self.rows.count
        return is_whole and not self.may_meet and not self.has_table

    @property
    def takes_elements(self) -> bool:
        """Whether an update is one element, along an axis."""
        return not self.rows.slices.whole and len(self.rows.slices.along) > 0

    @property
    def takes_rows(self) -> bool:
        """Whether an update is a row whose elements lie together."""
        return self.rows.are_stored and not self.takes_elements

    @property
    def has_few_updates(self) -> bool:
        """Whether most rows of the table have no update."""
        return self.number * FEW <= self.rows.count

    @property
    def is_few(self) -> bool:
        """Whether updates of narrow numbers are so few that to widen the table takes longer than to add them."""
        is_few = self.has_table and self.has_few_updates
        return is_few and self.itemsize < 4 and self.reduction.encodes(self.updates.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.updates.dtype.itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.rows.width * self.itemsize

    @property
    def wide(self) -> Any:
        """The type in which numbers are added."""
        return wide_type(self.updates.dtype)

    @property
    def is_narrow(self) -> bool:
        """Whether they are added in a wider type than their own."""
        return self.itemsize < self.wide.itemsize

    @property
    def wide_table_bytes(self) -> int:
        """Bytes of the table in the type in which numbers are added."""
        return prod(self.rows.shape) * self.wide.itemsize

    @property
    def wide_bytes(self) -> int:
        """Bytes of the table and the updates in that type."""
        return self.wide_table_bytes + self.number * self.rows.width * self.wide.itemsize


def scatter_reduce(
    indices: jax.Array, data: Sequence[jax.Array], shape: tuple[int, ...], write: Write, reduction: Reduction
) -> jax.Array:
    """Combines updates with the elements of a table where `indices` say.

    8- and 16-bit floats are combined as float32 and rounded once.

    Args:
      indices: in the rank that lax.scatter wants.
      data: the table, unless it holds the identity of the reduction; the updates, of its dtype.
      shape: of the table.
      write: how.
      reduction: how numbers of one element are combined.
    """
    batch = prod(shape[d] for d in write.slices.along)
    if prod(indices.shape[:-1]) == batch:
        write = replace(write, unique_indices=True)  # one index has none to meet, such as the label of a row of logits
    if not (shards := write.shards):
        return _choose(shape, write, reduction, indices, *data)

    def of_shard(indices: jax.Array, *data: jax.Array) -> jax.Array:
        return _choose(shape_of_shard(shape, shards.table), write, reduction, indices, *data)

    operands = (shards.indices, *[shards.table] * (len(data) - 1), shards.slices)
    return on_each_device(of_shard, operands, shards.table)(indices, *data)


def _choose(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, *data: jax.Array
) -> jax.Array:
    rows = Rows(shape, write)
    case_of = partial(ScatterReduceCase, rows, reduction, *shapes_of(indices, data[-1]), len(data) > 1)
    case = case_of(1)
    if write.deterministic and reduction.rounds and (segments := case.segments):
        # A promise, and not about speed: XLA:CPU scatters one update after the other, in order.
        in_order = by_target(lambda target: case.plain if target.platform == "cpu" else segments, segments)
        return in_order(indices, *data)
    return choose("scatter_reduce", case_of)(indices, *data)


def _reduce(rows: Rows, reduction: Reduction, indices: jax.Array, *data: jax.Array) -> jax.Array:
    """Stores updates that never meet in a table of the identity; else combines encoded numbers."""
    *table, updates = data
    write, dtype = rows.write, updates.dtype
    # One update to an element is the result: nothing is added, and it moves bit for bit.
    if write.unique_indices and not table and reduction.rounds:
        return _store(write, indices, fill_with(reduction.identity(dtype), rows.shape), updates)
    encoded = reduction.encode(updates)
    into = reduction.encode(table[0]) if table else jnp.broadcast_to(reduction.identity(encoded.dtype), rows.shape)
    return reduction.decode(reduction.scatter(into, indices, encoded, write.numbers, **write.promises), dtype)


def _store(write: Write, indices: jax.Array, table: jax.Array, updates: jax.Array) -> jax.Array:
    def store(indices: jax.Array, *data: jax.Array) -> jax.Array:
        return lax.scatter(data[0], indices, data[1], write.numbers, **write.promises)

    return as_bits(store)(indices, table, updates)
