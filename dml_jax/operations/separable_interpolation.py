"""Interpolation along dimensions, one after the other: sparse matrices of indices and weights, known while tracing.

Linear interpolation of [10, 20] at -0.5, 0, 0.5 and 1 has the indices [[0, 0, 0, 1], [0, 1, 1, 1]] and the weights
[[1, 1, 0.5, 1], [0, 0, 0.5, 0]], and makes [10, 10, 15, 20].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .data_movement import move_elements
from .gather import Read
from .gather_scatter_dimension_numbers import Slices
from .programs.primitive import Move, linear, transpose_of
from .reread_input import interpolation_input
from .values.accumulation_types import narrow_apart
from .values.bit_exact import as_bits, hide_indices, index_dtype, is_float

FEW = 8  # elements that are added up to one, each read on its own; of more, one after the other in a loop


@dataclass(frozen=True, eq=False)
class Interpolation:
    """Interpolation along one dimension: output[o] is the sum over k of weights[k, o] * input[indices[k, o]].

    Args:
      size: of the input.
      indices: integers in [0, size), a column per element of the output.
      weights: float32, of the same shape; None for a copy, which has one row.
    """

    size: int
    indices: np.ndarray
    weights: np.ndarray | None = None

    @property
    def is_long(self) -> bool:
        return len(self.indices) > FEW

    @property
    def repeats(self) -> int:
        """The count if the output is every element in turn, repeated so often; else 0."""
        count = self.indices.shape[1] // max(1, self.size)
        is_so = self.weights is None and np.array_equal(self.indices[0], np.arange(self.size).repeat(count))
        return count if is_so else 0

    def arrays(self) -> list[tuple[jax.Array | None, jax.Array | None]]:
        """Per row indices (None: a slice will do) and weights (None: all 1); one pair for all rows if they are many."""
        indices, weights = self.indices[..., None].astype(index_dtype([self.size])), self._all_weights()
        if self.is_long:
            return [(jnp.asarray(indices), jnp.asarray(weights))]
        return [
            (None if _step(at) else jnp.asarray(index), None if (of_one == 1).all() else jnp.asarray(of_one))
            for at, index, of_one in zip(self.indices, indices, weights, strict=True)
        ]

    def __call__(self, arrays: Sequence[Any], x: jax.Array, axis: int) -> jax.Array:
        if self.is_long:
            return self._in_turn(arrays[0], x, axis)
        parts = []
        for (indices, weights), at in zip(arrays, self.indices, strict=True):
            taken = _take(indices, x, axis, at)
            parts.append(taken if weights is None else _weigh(taken, axis, weights, is_first=not parts))
        return reduce(jnp.add, parts)

    def _in_turn(self, arrays: tuple[jax.Array, jax.Array], x: jax.Array, axis: int) -> jax.Array:
        """Adds row by row in a loop, so that neither the program nor an array grows with the number of rows."""
        indices, weights = arrays
        is_sorted = bool((np.diff(self.indices) >= 0).all())

        def row(at: jax.Array, of_one: jax.Array) -> jax.Array:
            return _weigh(_read(at, x, axis, is_sorted), axis, of_one, is_first=True)

        first = row(indices[0], weights[0])
        return lax.scan(lambda total, more: (total + row(*more), None), first, (indices[1:], weights[1:]))[0]

    def _all_weights(self) -> np.ndarray:
        return np.ones(self.indices.shape, np.float32) if self.weights is None else self.weights

    def transposed(self) -> Interpolation | None:
        """The transposed matrix; None where an element counts more than a few times, or none does."""
        weights = self._all_weights()
        row, output = np.nonzero(weights)
        input = self.indices[row, output]
        order = np.lexsort((output, input))
        row, output, input = row[order], output[order], input[order]
        # Inputs that are read as [0, 0, 1, 1, 1] have the numbers 0, 1, 0, 1, 2: the rows of the transposed matrix that
        # get their weights.
        number = np.arange(input.size) - np.searchsorted(input, input)
        count = number.max(initial=0) + 1
        if count > FEW or not input.size:
            return None
        indices, back = np.zeros((count, self.size), np.int64), np.zeros((count, self.size), np.float32)
        indices[number, input], back[number, input] = output, weights[row, output]
        return Interpolation(self.indices.shape[1], indices, back)


# Interpolating.


def interpolate(input: Any, by_axis: Mapping[int, Interpolation]) -> jax.Array:
    """Interpolates `input` along some dimensions: copies are exact, weighted sums are rounded once.

    Sums are made in float32, or in the type of wider floats; so are the sums of the transpose.

    Args:
      input: any dtype to copy; floats, or integers that float32 holds, to weigh.
      by_axis: by dimension.
    """
    backs = {axis: matrix.transposed() for axis, matrix in by_axis.items()}
    few = {axis: back for axis, back in backs.items() if back is not None}

    def copy(where: Any, x: jax.Array) -> jax.Array:
        return _through(by_axis, where[0], x)

    def weigh(where: Any, x: jax.Array) -> jax.Array:
        return _narrow(copy(where, x), x.dtype)

    def back(where: Any, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        # Where each element counts a few times, the transpose is an interpolation as well; else JAX finds it.
        if len(few) == len(by_axis):
            return [_narrow(_through(few, where[1], cotangent), cotangent.dtype)]
        return _transpose(copy, where, cotangent, like)

    is_copy = all(matrix.weights is None for matrix in by_axis.values())
    where = [{axis: matrix.arrays() for axis, matrix in both.items()} for both in (by_axis, few)]
    return linear(as_bits(copy, is_float) if is_copy else weigh, back)(where, jnp.asarray(input))


def repeat(input: Any, counts: Mapping[int, int]) -> jax.Array:
    """Repeats every element in turn, along some dimensions; sizes may be symbolic."""

    def move(_: Any, x: jax.Array) -> jax.Array:
        return _repeat(x, counts)

    def back(_: Any, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return _transpose(move, None, cotangent, like)

    return move_elements(move, None, jnp.asarray(input), back=back)


def _transpose(move: Move, where: Any, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """The transpose of `move` that JAX finds, computed in float32 at least."""
    (gradient,) = transpose_of(move)(where, _widen(cotangent), [_widen(x) for x in like])
    return [_narrow(gradient, cotangent.dtype)]


def _through(by_axis: Mapping[int, Interpolation], arrays: Mapping[int, Any], x: jax.Array) -> jax.Array:
    """Interpolates the axes that shrink first, and those that only repeat last, so that arrays stay small.

    Weighed sums stay in the type in which they are summed.
    """
    repeats = {axis: matrix.repeats for axis, matrix in by_axis.items() if matrix.repeats}
    others = [axis for axis in by_axis if axis not in repeats]
    is_copy = all(matrix.weights is None for matrix in by_axis.values())
    for axis in sorted(others, key=lambda axis: by_axis[axis].indices.shape[1] / max(1, by_axis[axis].size)):
        matrix = by_axis[axis]
        # Of one dimension alone, most inputs are computed in each read in as much time as they are stored.
        if len(others) > 1 and matrix.weights is not None and not matrix.is_long:
            x = interpolation_input(x, axis, *matrix.indices.shape)
        x = matrix(arrays[axis], x if is_copy else _widen(x), axis)
    return _repeat(x, repeats)


def _repeat(x: jax.Array, counts: Mapping[int, int]) -> jax.Array:
    """Repeats along all axes at once, which XLA does in one pass."""
    if not counts:
        return x
    shown = [n for axis, size in enumerate(x.shape) for n in (size, counts.get(axis, 1))]
    # [a, b] twice each: broadcast to [[a, a], [b, b]], and flat.
    copies = lax.broadcast_in_dim(x, shown, range(0, 2 * x.ndim, 2))
    return copies.reshape([size * counts.get(axis, 1) for axis, size in enumerate(x.shape)])


def _step(at: np.ndarray) -> int:
    """The step between static indices that ascend evenly; else 0."""
    steps = np.diff(at)
    step = int(steps[0]) if steps.size else 1
    return step if step > 0 and (steps == step).all() else 0


def _take(indices: jax.Array | None, x: jax.Array, axis: int, at: np.ndarray) -> jax.Array:
    """Elements at static indices."""
    if indices is None:
        start, stop = (int(at[0]), int(at[-1]) + 1) if at.size else (0, 0)
        return lax.slice_in_dim(x, start, stop, _step(at), axis)
    return _read(indices, x, axis, bool((np.diff(at) >= 0).all()))


def _read(indices: jax.Array, x: jax.Array, axis: int, is_sorted: bool) -> jax.Array:
    placed = tuple(d for d in range(x.ndim) if d != axis)
    read = Read(Slices(x.ndim, (axis,), placed=placed), "promise_in_bounds", indices_are_sorted=is_sorted)
    return read(hide_indices(indices, x), x)


def _weigh(x: jax.Array, axis: int, weights: jax.Array, *, is_first: bool) -> jax.Array:
    """Multiplies by weights; elements of weight 0 give 0.0 in the first row, else -0.0, which changes no sum."""
    shown = weights.astype(x.dtype).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    # No product, as 0 * inf is NaN. x + -0.0 is x for every x, and so for -0.0.
    nothing = np.asarray(0.0 if is_first else -0.0, x.dtype)
    return jnp.where(shown == 0, nothing, x * shown)


def _widen(x: jax.Array) -> jax.Array:
    """Numbers in the type in which they are summed."""
    return x if jnp.issubdtype(x.dtype, jnp.inexact) and x.dtype.itemsize >= 4 else x.astype(jnp.float32)


def _narrow(x: jax.Array, dtype: Any) -> jax.Array:
    """Sums rounded to a dtype; to integers with halves to even, and clamped: cubic weights may exceed their range."""
    if not jnp.issubdtype(dtype, jnp.integer):
        return narrow_apart(x, dtype)
    limits = jnp.iinfo(dtype)
    return narrow_apart(jnp.clip(jnp.round(x), limits.min, limits.max), dtype)
