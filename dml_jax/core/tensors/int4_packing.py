"""Packing of 4-bit elements: two in a byte, the first one in the low bits. Other types are viewed as bytes.

The bytes 0x21 0xF8 are the UINT4 1, 2, 8, 15, and the INT4 1, 2, -8, -1.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .data_type import DataType


def as_elements(data: np.ndarray, data_type: DataType, count: int) -> np.ndarray:
    """The first `count` elements in bytes: a view of them, or a new array of 4-bit ones."""
    data = data[: data_type.byte_count(count)]
    return data.view(data_type.dtype) if data_type.bits >= 8 else split_nibbles(data, data_type.dtype)[:count]


def as_bytes(elements: np.ndarray) -> np.ndarray:
    """The bytes of flat elements: a view of them, or a new array of 4-bit ones."""
    is_small = DataType.of(elements.dtype).bits < 8
    return join_nibbles(elements) if is_small else elements.view(np.uint8)


def split_nibbles(data: Any, dtype: np.dtype[Any]) -> Any:
    """Two elements of 4 bits for each of flat bytes, of NumPy or of JAX."""
    nibbles = split_bytes(data, 4)
    if dtype == jnp.uint4:
        return nibbles.astype(dtype)
    return ((nibbles.astype(np.int8) ^ np.int8(8)) - np.int8(8)).astype(dtype)


def split_bytes(data: Any, bits: int) -> Any:
    """Unpacks integers of 2, 4 or 8 bits to one per byte, along the last dimension; of NumPy or of JAX.

    The byte 0b11_10_01_00 holds 0, 1, 2 and 3 in 2 bits each.
    """
    xp = jnp if isinstance(data, jax.Array) else np
    fields = [data >> np.uint8(shift) & np.uint8(2**bits - 1) for shift in range(0, 8, bits)]
    return xp.stack(fields, -1).reshape(*data.shape[:-1], data.shape[-1] * len(fields))


def join_nibbles(elements: Any) -> Any:
    """A byte for each two flat elements of 4 bits, of NumPy or of JAX; the rest of the last byte is 0."""
    xp = jnp if isinstance(elements, jax.Array) else np
    nibbles = elements.astype(np.int8).astype(np.uint8) & np.uint8(15)
    pairs = xp.pad(nibbles, (0, nibbles.shape[0] % 2)).reshape(-1, 2)
    return pairs[:, 0] | pairs[:, 1] << np.uint8(4)
