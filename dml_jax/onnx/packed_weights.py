"""Weights of a DequantizeLinear with blocks: constants that stay integers where they are multiplied with floats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from ..operations.packed_product import multiply_packed
from .dequantized import Dequantized
from .quantize_linear import aligned, floats_of
from .values import Array, on_device


@dataclass(frozen=True, eq=False)
class BlockQuantized(Dequantized):
    """A dequantised matrix, with a scale for each block.

    Args:
      axis: along which blocks lie, 0 or 1.
      block_size: elements that share a scale.
    """

    axis: int
    block_size: int

    def compute(self) -> Array:
        return floats_of(self.q, *aligned(self.q, self.scale, self.zero_point, self.axis, self.block_size), self.kind)

    @property
    def transposed(self) -> BlockQuantized:
        return replace(super().transposed, axis=1 - self.axis)


def multiply_block_quantized(a: Array, b: BlockQuantized) -> jax.Array | None:
    """a @ b, in float32, for constant integers of 2, 4 or 8 bits whose blocks run down the columns; else None."""
    dtype, per_byte = b.q.dtype, 0
    if jnp.issubdtype(dtype, jnp.integer):
        per_byte = 8 // jnp.iinfo(dtype).bits
    fits = a.ndim >= 1 and a.shape[-1] == b.shape[0] and a.dtype == b.kind
    if not isinstance(b.q, np.ndarray) or not fits or b.axis or not per_byte or b.block_size % per_byte or not b.q.size:
        return None
    bits = 8 // per_byte
    half = 2 ** (bits - 1) if jnp.issubdtype(dtype, jnp.signedinteger) else 0
    shift = np.array(half, np.float32)
    zero_point = shift if b.zero_point is None else b.zero_point.astype(np.float32).T + shift
    rows = on_device(a).reshape(prod(a.shape[:-1]), a.shape[-1])
    product = multiply_packed(rows, _packed(b, bits, half), b.scale.T, zero_point, bits=bits)
    return product.reshape(*a.shape[:-1], b.shape[1])


def _packed(b: BlockQuantized, bits: int, half: int) -> np.ndarray:
    """The integers as bytes of [columns, blocks, bytes of a block]; `half` is added to them."""
    assert isinstance(b.q, np.ndarray)
    numbers = (b.q.astype(np.int8).view(np.uint8) + np.uint8(half) & np.uint8(2**bits - 1)).T
    numbers = np.pad(numbers, [(0, 0), (0, -numbers.shape[1] % b.block_size)])
    fields = numbers.reshape(len(numbers), -1, b.block_size // (8 // bits), 8 // bits)
    packed = fields[..., 0].copy()
    for at in range(1, 8 // bits):
        packed |= fields[..., at] << np.uint8(bits * at)
    return packed
