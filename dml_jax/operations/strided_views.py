"""Reads of strided layouts: a permutation of a buffer, or a view that leaves out, repeats or overlaps elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..strides.layout import Layout
from .permute import Permutation, permute
from .programs.primitive import Back, Move, transpose_of
from .programs.variant_selection import choose, known_bytes, shapes_of
from .strided_reads import read_view
from .values.accumulation_types import narrow_apart, wide_type
from .values.bit_exact import as_bits, carry_bits, fence, index_dtype, is_float, is_key, is_narrow, never_one


@dataclass(frozen=True)
class ViewCase:
    """One view, for the choice between implementations.

    Args:
      layout: of the view, in elements.
      buffer: shape and type.
      devices: among which XLA may divide an array.
    """

    layout: Layout
    buffer: Any
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of the view, read and written; 0 if it is empty, or if the size of the buffer is symbolic."""
        known = not is_key(self.buffer) and known_bytes(self.buffer)
        return 2 * prod(self.layout.sizes) * self.buffer.dtype.itemsize if known else 0

    @property
    def plain(self) -> Move:
        """The read; of integers where floats would lose bits, as where devices add up the gathers of each."""
        # XLA:CPU flushes subnormal bfloat16 where it fuses the bitcast back with a gather (0.11) or a broadcast.
        is_bfloat16 = self.buffer.dtype == jnp.bfloat16

        def read(_: None, buffer: jax.Array) -> jax.Array:
            array = read_view(buffer, self.layout)
            if is_bfloat16 and self.layout.repeats and buffer.dtype == jnp.uint16:
                array |= _hidden_zeros(self.layout).astype(array.dtype)
            return lax.optimization_barrier(array) if is_bfloat16 and not self.layout.is_nested else array

        return as_bits(read, is_narrow if self.layout.is_nested else is_float)

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type of the view."""
        return jax.ShapeDtypeStruct(self.layout.sizes, self.buffer.dtype)


def view(buffer: Any, layout: Layout, deterministic: bool = False, *, is_operand: bool = False) -> jax.Array:
    """Reads a view that lies inside `buffer`.

    Args:
      buffer: of one dimension.
      layout: of the view, in elements.
      deterministic: whether the gradient adds up in one order.
      is_operand: whether an operator reads the view, so that XLA should fuse the two.

    Raises:
      ConstraintError: elements that overlap have offsets that need 64 bits, and JAX has none.
    """
    if layout.is_dense and 0 not in layout.sizes:
        return permute(_slice_addressed(buffer, layout), _permutation(layout), is_operand=is_operand)
    for group in layout.merged_groups:
        if not group.is_run:
            index_dtype([group.rows])  # refuses offsets that are too wide now, not when a program is lowered
    # Cotangents of elements that are read more than once are added up in a wide type, and rounded once.
    adds_up = not layout.is_nested or (layout.repeats and wide_type(buffer.dtype) != buffer.dtype)
    case_of = partial(ViewCase, layout, *shapes_of(buffer))
    is_opaque = adds_up or is_narrow(buffer.dtype)
    return choose("view", case_of, _adding(layout, deterministic), is_opaque=is_opaque)(None, buffer)


def _adding(layout: Layout, deterministic: bool) -> Back:
    """The transpose of a view."""
    read = transpose_of(lambda _, buffer: read_view(buffer, layout, deterministic))

    def back(_: None, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        wide = wide_type(cotangent.dtype)
        (added,) = read(None, cotangent.astype(wide), [like[0].astype(wide)])
        return [narrow_apart(added, cotangent.dtype)]

    return back


def _slice_addressed(buffer: Any, layout: Layout) -> jax.Array:
    """The elements of a dense view as a buffer stores them."""
    if (layout.offset, layout.span) == (0, buffer.shape[0]):
        return buffer
    cut: Move = lambda _, x: lax.slice_in_dim(x, layout.offset, layout.offset + layout.span)  # noqa: E731
    return carry_bits(fence(cut) if is_narrow(buffer.dtype) else cut, None, buffer)


def _permutation(layout: Layout) -> Permutation:
    """The permutation of a dense view; dimensions of size 1 merge no part, the others one."""
    order = tuple(layout.dims.index(d) for d in sorted(layout.dims))
    target = tuple(int(d in layout.dims) for d in range(len(layout.sizes)))
    return Permutation((layout.stored_sizes,), order, target)


def _hidden_zeros(layout: Layout) -> jax.Array:
    """0 for every coordinate, but computed from those along which elements repeat, so that they differ to XLA."""
    along = [d for d, (n, s) in enumerate(zip(layout.sizes, layout.strides, strict=True)) if n > 1 and s == 0]
    indices = (lax.broadcasted_iota(jnp.uint32, layout.sizes, d) for d in along)
    return never_one(sum(indices, jnp.zeros(layout.sizes, jnp.uint32)))
