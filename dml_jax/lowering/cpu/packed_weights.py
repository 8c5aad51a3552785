"""Products with packed weights on CPUs: LLVM unpacks bytes side by side with vectors; weights stay in the cache.

Few rows are multiplied in one pass over the bytes. Weights that are constants are transposed while a program is
lowered, so that the bytes of a step belong to neighbouring columns of the product; a step adds some of these rows of
bytes to all columns. The bytes of [1, 2] and [3, 4], 0x21 and 0x43, with the row [a, b]:

    a * [1, 3] + b * [2, 4] = [a + 2b, 3a + 4b]

Weights that are data stay as they are: a step adds some bytes of every column, each to a sum of its own. More rows are
multiplied with tiles of unpacked weights.

Constants of int8 are transposed, too: XLA:CPU's library orders a matrix anew in every call, which takes it less time if
the numbers of a column lie side by side.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from math import gcd, prod
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.custom_batching import custom_vmap

from ...operations.integer_product import IntegerProductCase
from ...operations.packed_product import FEW_ROWS, PackedProductCase, masks, multiply_packed, product, unpack
from ...operations.programs.mesh_types import varying_alike
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.xla_workarounds import int8_product
from .machine import FRESH, LINE

STEP = 16  # rows of bytes that a step adds: more make a loop that takes long to compile
SHORT = 8  # steps: a loop of so few gains less than it takes to begin
LANES = 16  # bytes side by side that one step reads of a column
TURNS = 8  # of one step: a cache line and more of every column
TILE_BYTES = 2**21  # of unpacked weights, which stay in a cache until they are multiplied
TILE_COLUMNS = 128  # or a multiple: products of other numbers of columns are slower
THIN = 32  # rows whose product takes no longer than to write the weights to memory and to read them


def _multiply(case: PackedProductCase) -> Move:
    few = _add_columns if case.known else _add_bytes
    return _batched(case, few if case.has_few_rows else _multiply_tiles)


def _batched(case: PackedProductCase, run: Callable[..., jax.Array]) -> Move:
    """A batch of rows is more rows."""

    @custom_vmap
    def multiply(packed: Any, rows: jax.Array, *parameters: jax.Array) -> jax.Array:
        return run(case, packed, rows, *parameters)

    @multiply.def_vmap
    def batched(
        _: int, are_batched: Sequence[Any], packed: Any, rows: jax.Array, *parameters: jax.Array
    ) -> tuple[jax.Array, bool]:
        operands = (packed, rows, *parameters)
        if any(jax.tree.leaves((are_batched[0], are_batched[2:]))):
            axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(are_batched))
            return jax.vmap(case.plain, axes)(*operands), True
        flat = rows.reshape(-1, rows.shape[-1])
        many = replace(case, rows=jax.ShapeDtypeStruct(flat.shape, flat.dtype))
        made = _multiply(many)(packed, flat, *parameters)
        return made.reshape(*rows.shape[:-1], case.packed.shape[0]), True

    def move(packed: Any, rows: jax.Array, *parameters: jax.Array) -> jax.Array:
        """Outside of jax.jit weights are data: a program for constants would be compiled for each call."""
        if case.known and not isinstance(rows, Tracer):
            return _jitted(rows, *case.known, bits=case.bits)
        return multiply(packed, rows, *parameters)

    return move


_jitted = jax.jit(multiply_packed, static_argnames="bits")


def _transposed(case: PackedProductCase) -> tuple[np.ndarray, ...]:
    """The known bytes, scales and zero points, with neighbouring columns of the product side by side.

    There are columns of zeros at the end: loops of an odd length LLVM does not vectorise.
    """
    assert case.known
    packed, scales, zero_points = case.known
    arrays = packed.reshape(packed.shape[0], -1), *(x.astype(np.float32) for x in (scales, zero_points))
    edge = [(0, -packed.shape[0] % LANES), (0, 0)]
    return tuple(np.pad(x, edge).T.copy() if x.ndim else x for x in arrays)


def _add_columns(case: PackedProductCase, _: Any, rows: jax.Array) -> jax.Array:
    """Adds rows of transposed bytes to all columns; the rows of a step belong to one block."""
    packed, scales, zero_points = _transposed(case)
    block = case.packed.shape[2]
    step = gcd(block, STEP)
    columns = [x.T / unit for x, (_, unit) in zip(case.columns(rows, np.float32), masks(case.bits), strict=True)]

    def body(at: jax.Array, sums: jax.Array) -> jax.Array:
        own = at // (block // step)
        zero_point = lax.dynamic_slice_in_dim(zero_points, own, 1) if zero_points.ndim else zero_points
        terms = []
        for byte in range(step):
            place = at * step + byte
            bits = lax.dynamic_slice_in_dim(packed, place, 1)
            for x, (mask, unit) in zip(columns, masks(case.bits), strict=True):
                terms.append(
                    ((bits & mask).astype(np.float32) - zero_point * unit) * lax.dynamic_slice_in_dim(x, place, 1).T
                )
        return sums + _total(terms) * lax.dynamic_slice_in_dim(scales, own, 1)

    zeros = _zeros((rows.shape[0], packed.shape[1]), rows)
    return lax.fori_loop(0, len(packed) // step, body, zeros)[:, : case.packed.shape[0]]


def _add_bytes(case: PackedProductCase, packed: jax.Array, rows: jax.Array, *parameters: jax.Array) -> jax.Array:
    """Adds LANES bytes of every column in a turn, a few turns in each step; each byte's place has a sum of its own."""
    scales, zero_points = parameters
    count, blocks, block = packed.shape
    lanes = gcd(block, LANES)
    pieces = block // lanes  # of a block
    flat = packed.reshape(count, -1)
    unroll = gcd(blocks * pieces, TURNS)
    columns = [x / unit for x, (_, unit) in zip(case.columns(rows, np.float32), masks(case.bits), strict=True)]

    def body(at: jax.Array, sums: jax.Array) -> jax.Array:
        for number in range(unroll):
            piece = at * unroll + number
            own = piece // pieces
            scale = lax.dynamic_slice_in_dim(scales, own, 1, 1)
            zero_point = lax.dynamic_slice_in_dim(zero_points, own, 1, 1) if zero_points.ndim else zero_points
            bits = lax.dynamic_slice_in_dim(flat, piece * lanes, lanes, 1)
            terms = []
            for x, (mask, unit) in zip(columns, masks(case.bits), strict=True):
                numbers = (bits & mask).astype(np.float32) - zero_point * unit
                terms.append(numbers[None] * lax.dynamic_slice_in_dim(x, piece * lanes, lanes, 1)[:, None])
            sums = sums + reduce(add, terms) * scale[None]
        return sums

    zeros = _zeros((rows.shape[0], count, lanes), packed, rows, *parameters)
    return lax.fori_loop(0, blocks * pieces // unroll, body, zeros).sum(-1)


def _zeros(shape: Sequence[int], *operands: Any) -> jax.Array:
    """The zeros with which a loop over operands begins; in jax.shard_map they vary as the operands do."""
    _, zeros = varying_alike([x for x in operands if isinstance(x, jax.Array)], jnp.zeros(shape, np.float32))
    return zeros


def _total(terms: Sequence[jax.Array]) -> jax.Array:
    """Four sums side by side: an addition need not wait for the one before it."""
    return reduce(add, (reduce(add, terms[first::4]) for first in range(min(4, len(terms)))))


def _multiply_tiles(case: PackedProductCase, packed: Any, rows: jax.Array, *parameters: jax.Array) -> jax.Array:
    """Multiplies with the weights of some columns at a time; the last tile may have columns of the one before it."""
    axis, (_, blocks, block) = 1 if case.known else 0, case.packed.shape
    packed, scales, zero_points = _transposed(case) if case.known else (packed, *parameters)
    count = packed.shape[axis]
    fitting = TILE_BYTES // (4 * case.rows.shape[1] * TILE_COLUMNS)
    size = min(max(1, fitting) * TILE_COLUMNS, count)
    columns = case.columns(rows, np.float32)

    def cut(array: Any, first: jax.Array) -> jax.Array:
        return lax.dynamic_slice_in_dim(array, first, size, axis) if array.ndim else array

    def body(at: jax.Array, result: jax.Array) -> jax.Array:
        first = jnp.minimum(at * size, count - size)
        bits = cut(packed, first).reshape((blocks, block, size) if axis else (size, blocks, block))
        scale, zero_point = (
            jnp.expand_dims(x, 2 - axis) if x.ndim else x for x in (cut(scales, first), cut(zero_points, first))
        )
        numbers = (w.reshape((-1, size) if axis else (size, -1)) for w in unpack(bits, scale, zero_point, case.bits))
        products = (product(x, w, 1 - axis) for x, w in zip(columns, numbers, strict=True))
        return lax.dynamic_update_slice_in_dim(result, reduce(add, products), first, 1)

    zeros = _zeros((rows.shape[0], count), packed, rows, scales, zero_points)
    result = lax.fori_loop(0, -(-count // size), body, zeros)
    return result[:, : case.packed.shape[0]]


def _pays(case: PackedProductCase) -> bool:
    """Few rows by constants, as XLA may compute a row again for each column; else if unpacked weights fill a cache.

    More than the C library keeps are written to new pages. Fewer take less time to write than many rows to multiply.
    """
    if case.known and case.has_few_rows and prod(case.packed.shape[1:]) > SHORT * STEP:
        return True
    is_large = case.weight_bytes > 2 * TILE_BYTES
    return case.weight_bytes > FRESH or (is_large and case.rows.shape[0] <= THIN)


# Products of int8.


def _multiply_int8(case: IntegerProductCase) -> Move | None:
    known = case.known
    if known is None or prod(known.shape[:-2]) != 1:
        return None

    def multiply(_: None, a: jax.Array, *p: jax.Array) -> jax.Array:
        columns = np.ascontiguousarray(known.reshape(known.shape[-2:]).T)
        product = _multiply_transposed(a, columns)
        return product - p[0] * known.sum(-2, dtype=np.int32, keepdims=True) if p else product

    return multiply


def _is_thin(case: IntegerProductCase) -> bool:
    """The products of more rows take longer than to order the matrix, and short columns are ordered as fast as rows."""
    return FEW_ROWS < prod(case.a.shape[:-1]) <= THIN and case.a.shape[-1] >= 4 * LINE


@jax.jit  # outside of which constants would be compiled into a program for each call
def _multiply_transposed(a: jax.Array, columns: jax.Array) -> jax.Array:
    return int8_product(a, columns, is_transposed=True)


VARIANTS = (
    Variant("packed_weights", "packed_product", "cpu", _multiply, _pays),
    Variant("packed_weights", "integer_product", "cpu", _multiply_int8, _is_thin),
)
