"""Gathers through lax.gather: gather, gather_elements, gather_nd, and views that repeat elements."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax

from .gather_scatter_dimension_numbers import Slices
from .programs.partition import TableShards, on_each_device
from .programs.primitive import Back, Move, by_target, linear
from .programs.variant_selection import choose, known_bytes, shapes_of
from .scatter_combiners import ADD
from .scatter_reduce import scatter_reduce
from .scatter_rows import Write
from .values.bit_exact import as_bits, hide_constant, is_float, is_float8, is_narrow


@dataclass(frozen=True)
class Read:
    """How lax.gather reads: its attributes, under its names, and other facts.

    Args:
      slices: which slices of the input are read.
      mode: "clip", "promise_in_bounds", or "fill" for zeros.
      indices_are_sorted: a promise to XLA about all indices in row-major order.
      sorted_along_axis: whether they ascend along the one axis that is indexed.
      unique_indices: whether no two that are in range address one element.
      drops: whether an index out of range has no gradient, although it reads the nearest element.
      deterministic: whether gradients have the same bits in every run.
      computed: whether the program computes the indices, so that none are loaded.
      shards: where every device reads on its own.
    """

    slices: Slices
    mode: str
    indices_are_sorted: bool = False
    sorted_along_axis: bool = False
    unique_indices: bool = False
    drops: bool = False
    deterministic: bool = False
    computed: bool = False
    shards: TableShards | None = None

    def __call__(self, indices: jax.Array, input: jax.Array) -> jax.Array:
        return lax.gather(
            input,
            indices,
            self.slices.reads,
            self.slices.sizes(input.shape),
            mode=self.mode,
            indices_are_sorted=self.indices_are_sorted,
            fill_value=0 if self.mode == "fill" else None,
        )

    def of_rows(self, input: jax.Array, dims: int) -> tuple[jax.Array, "Read"]:
        """The table with its last `dims` dimensions merged, and the read of the same slices of it."""
        outer, row = input.shape[: input.ndim - dims], prod(input.shape[input.ndim - dims :])
        return input.reshape(*outer, row), replace(self, slices=self.slices.merged(dims))

    @property
    def transpose(self) -> Write:
        """The scatter-add that is the transpose of the read."""
        # A scatter in the mode "fill" drops updates out of range, where "clip" would add them to the nearest element.
        mode = "fill" if self.drops else self.mode
        return Write(self.slices, mode, self.unique_indices, self.indices_are_sorted, self.deterministic, self.shards)


def read_of(write: Write) -> Read:
    """The read of the elements that `write` writes; zeros where it drops updates."""
    return Read(write.slices, write.mode, write.indices_are_sorted, shards=write.shards)


@dataclass(frozen=True)
class GatherCase:
    """One read, for the choice between implementations.

    Args:
      read: how lax.gather reads.
      indices: shape and type.
      input: shape and type of the table.
      devices: among which XLA may divide an array.
    """

    read: Read
    indices: Any
    input: Any
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of all three arrays; 0 if the table is empty, or if a size is symbolic."""
        known = known_bytes(self.input, self.indices)
        return known + known_bytes(self.result) if known and 0 not in self.input.shape else 0

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type of the slices."""
        shape = self.read.slices.shape(self.input.shape, self.indices.shape)
        return jax.ShapeDtypeStruct(shape, self.input.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.input.dtype.itemsize

    @cached_property
    def row_dims(self) -> int:
        """How many dimensions a slice has whole, last in the table and in the result."""
        return self.read.slices.row(self.indices.ndim)

    @cached_property
    def width(self) -> int:
        """Elements that lie side by side in a slice, and in the result; 0 if single elements are read."""
        return prod(self.input.shape[self.input.ndim - self.row_dims :]) if self.row_dims else 0

    @property
    def row_bytes(self) -> int:
        """`width` in bytes."""
        return self.width * self.itemsize

    @property
    def axis(self) -> int:
        """The first dimension that is indexed."""
        return self.read.slices.indexed[0]

    @cached_property
    def slab_bytes(self) -> int:
        """Bytes from the first to the last element that one index may reach."""
        return prod(self.input.shape[self.axis :]) * self.itemsize

    @property
    def is_sorted(self) -> bool:
        """Whether a promise says so, so that reads are near each other."""
        return self.read.sorted_along_axis or self.read.indices_are_sorted

    @property
    def plain(self) -> Move:
        """The gather; of integers where floats would lose bits: on several devices, and of narrow floats on CPUs.

        XLA:CPU quiets NaNs of a constant table of narrow floats. If it knows table and indices, it evaluates a gather
        of integers in another order of dimensions, which the cast back mistakes for the usual one: so indices are
        hidden.
        """
        # XLA adds up the reads of several devices, zeros where a device has no part: of floats, -0.0 + 0.0 is 0.0.
        usual = as_bits(self.read, is_float8 if self.devices == 1 else is_float)
        if not is_narrow(self.input.dtype):
            return usual
        on_cpu = _with_hidden_indices(as_bits(self.read, is_narrow))
        return by_target(lambda target: on_cpu if target.platform == "cpu" else usual, usual)


def _with_hidden_indices(read: Move) -> Move:
    def hidden(indices: jax.Array, input: jax.Array) -> jax.Array:
        return read(indices + hide_constant(np.zeros((), indices.dtype), indices), input)

    return hidden


def gather_slices(indices: jax.Array, input: jax.Array, read: Read) -> jax.Array:
    """Reads `input` where `indices` say; its transpose adds up the cotangents of elements that are read several times.

    Args:
      indices: in the rank that lax.gather wants.
      input: any dtype.
      read: how.
    """

    def back(indices: jax.Array, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [scatter_reduce(indices, (cotangent,), like[0].shape, read.transpose, ADD)]

    return _read(read, back, indices, input)


def reading(read: Read) -> Move:
    """The read of an array, without a derivative."""
    return partial(_read, read, None)


def _read(read: Read, back: Back | None, indices: jax.Array, input: jax.Array) -> jax.Array:
    if shards := read.shards:
        # The parts have no derivative: a program is divided when it is lowered, after JAX has differentiated it.
        alone = partial(_read, replace(read, shards=None), None)
        each = on_each_device(alone, (shards.indices, shards.table), shards.slices)
        return (linear(each, back) if back else each)(indices, input)
    return choose("gather", partial(GatherCase, read, *shapes_of(indices, input)), back)(indices, input)
