"""Products of rows with a matrix of packed integers of 2, 4 or 8 bits, blocks of which share a scale and a zero point.

The bytes 0x21 0x43 hold the 4-bit integers 1, 2, 3 and 4. Their product with [a, b, c, d] is the product of [a, c]
with the low bits, [1, 3], plus the product of [b, d] with the high bits, [2, 4]: no integers are put in order, so a
device unpacks a byte where it reads it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .programs.primitive import Move
from .programs.variant_selection import choose, known_bytes, shapes_of
from .values.bit_exact import hide_constant
from .values.wide_products import wide_product

# Up to so many rows, unpacking a byte once for each row takes no longer than reading it from memory.
FEW_ROWS = 2


@dataclass(frozen=True)
class PackedProductCase:
    """One product with a packed matrix, for the choice between implementations.

    Args:
      bits: of an integer.
      rows: shape and type of the rows, [M, K].
      packed: of the bytes, [N, blocks, bytes of a block].
      known: the bytes, the scales and the zero points that are constants, [N, blocks, ...]; None if they are data.
      devices: among which XLA may divide an array.
    """

    bits: int
    rows: Any
    packed: Any
    known: tuple[np.ndarray, ...] | None = field(compare=False)
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes read and written; 0 if there are none, or if a size is symbolic."""
        return known_bytes(self.rows, self.packed, self.result) if known_bytes(self.packed) else 0

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type."""
        return jax.ShapeDtypeStruct((self.rows.shape[0], self.packed.shape[0]), np.float32)

    @property
    def has_few_rows(self) -> bool:
        """Whether to unpack a byte for each row, in one pass over the bytes, is no slower than to unpack all once."""
        return isinstance(self.rows.shape[0], int) and self.rows.shape[0] <= FEW_ROWS

    @property
    def weight_bytes(self) -> int:
        """The bytes of the unpacked weights in float32."""
        return 4 * self.rows.shape[1] * self.packed.shape[0]

    @property
    def plain(self) -> Move:
        """The product with the unpacked matrix; of few rows as one sum that XLA fuses with the unpacking."""
        return self._multiply

    def _multiply(self, packed: Any, rows: jax.Array, *parameters: jax.Array) -> jax.Array:
        # Hidden, as XLA would unpack constants while it compiles, and keep float32 in place of a few bits.
        arrays = [hide_constant(array, rows) for array in self.known] if self.known else [packed, *parameters]
        packed, scales, zero_points = (x[..., None] if x.ndim == 2 else x for x in arrays)
        numbers = [w.reshape(w.shape[0], -1) for w in unpack(packed, scales, zero_points, self.bits)]
        if self.has_few_rows:
            terms = (x[:, None] * w[None] for x, w in zip(self.columns(rows, np.float32), numbers, strict=True))
            return reduce(add, terms).sum(-1)
        products = (product(x, w.astype(x.dtype)) for x, w in zip(self.columns(rows), numbers, strict=True))
        return reduce(add, products)

    def columns(self, rows: jax.Array, dtype: Any = None) -> Sequence[jax.Array]:
        """The columns that meet the first, second, ... integers of all bytes, with zeros after the last one."""
        count, (_, blocks, block_bytes) = 8 // self.bits, self.packed.shape
        rows = rows.astype(dtype or rows.dtype)
        padded = jnp.pad(rows, [(0, 0), (0, blocks * block_bytes * count - rows.shape[1])])
        by_byte = padded.reshape(rows.shape[0], blocks * block_bytes, count)
        return [by_byte[..., at] for at in range(count)]


def product(rows: jax.Array, weights: jax.Array, axis: int = 1) -> jax.Array:
    """Multiplies rows with weights of one type along an axis of these, in float32."""
    contracted = (((1,), (axis,)), ((), ()))
    multiply = partial(lax.dot_general, dimension_numbers=contracted, precision=lax.Precision.HIGHEST)
    return wide_product(multiply)(rows, weights)


def multiply_packed(rows: jax.Array, packed: Any, scales: Any, zero_points: Any, *, bits: int) -> jax.Array:
    """rows @ ((q - zero_points) * scales).T, in float32.

    Args:
      rows: floats, [M, K].
      packed: uint8 [N, blocks, bytes of a block]: neighbours along K in a byte, the first in the low bits.
      scales: [N, blocks].
      zero_points: numbers, [N, blocks].
      bits: 2, 4 or 8.
    """
    arrays = (packed, scales, zero_points)
    known = arrays if all(isinstance(array, np.ndarray) for array in arrays) else None
    where, data = None, []
    if not known:
        where, *data = (hide_constant(x, rows) if isinstance(x, np.ndarray) else x for x in arrays)
        data = [x.astype(np.float32) for x in data]
    of_rows, of_packed = shapes_of(rows, packed)
    case_of = lambda devices: PackedProductCase(bits, of_rows, of_packed, known, devices)  # noqa: E731
    multiply = choose("packed_product", case_of, is_opaque=False)
    return multiply(where, rows, *data)


def unpack(packed: jax.Array, scales: jax.Array, zero_points: jax.Array, bits: int) -> Iterator[jax.Array]:
    """(q - zero_points) * scales of the first, second, ... integers of all bytes, in float32.

    Nothing is shifted: 7 in the high bits is read as 7 * 16, with 16 * zero_points and scales / 16.
    """
    scales, zero_points = scales.astype(np.float32), zero_points.astype(np.float32)
    for mask, unit in masks(bits):
        yield ((packed & mask).astype(np.float32) - zero_points * unit) * (scales / unit)


def masks(bits: int) -> Iterator[tuple[np.uint8, np.float32]]:
    """The bits of the first, second, ... integer of a byte, and the unit in which they count."""
    for shift in range(0, 8, bits):
        yield np.uint8((2**bits - 1) << shift), np.float32(2**shift)
