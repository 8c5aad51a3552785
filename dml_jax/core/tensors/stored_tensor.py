"""`StoredTensor`: reads a tensor from a flat buffer, and writes it there, through sizes and strides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...operations.strided_views import view
from ...operations.strided_writes import in_storage_order, place, update_in_place
from ...operations.values.accumulation_types import computed_type, widen_apart
from ...strides.layout import Layout
from .tensor_desc import TensorDesc, packed_strides


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a buffer.

    Args:
      tensor: its description.
      words: whether 64-bit elements are pairs of 32-bit words, because x64 is off. A buffer is then uint32 and twice as
        long, with the low word first, and an array has a last dimension of size 2.
    """

    tensor: TensorDesc
    words: bool

    @property
    def in_words(self) -> bool:
        """Whether its elements are pairs of words."""
        return self.words and self.tensor.data_type.itemsize == 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the buffer's elements."""
        return np.dtype(np.uint32) if self.in_words else self.tensor.dtype

    @cached_property
    def layout(self) -> Layout:
        """Returns the sizes and strides by which coordinates address the buffer."""
        sizes, strides = self.tensor.sizes, self.tensor.strides or packed_strides(self.tensor.sizes)
        if self.in_words:
            return Layout((*sizes, 2), (*(2 * s for s in strides), 1))
        return Layout(sizes, strides)

    def view(self, buffer: jax.Array) -> jax.Array:
        """Returns the tensor as an array; the buffer has at least its span."""
        return self._move_as_bytes(lambda buffer: view(buffer, self.layout, is_operand=True), buffer)

    def place(self, array: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Returns a buffer, in this shape, that holds the tensor; elements that no coordinate addresses are 0."""
        if self.layout.is_dense:
            return in_storage_order(array, self.layout).reshape(shape)
        return self._move_as_bytes(lambda array: place(array, self.layout, self.layout.span), array)

    def update(self, buffer: jax.Array, array: jax.Array) -> jax.Array:
        """Returns a buffer with the tensor in it; elements that no coordinate addresses are kept."""
        return self._move_as_bytes(lambda buffer, array: update_in_place(buffer, array, self.layout), buffer, array)

    def _move_as_bytes(self, move: Callable[..., jax.Array], *arrays: jax.Array) -> jax.Array:
        """`move(*arrays)`, of bytes instead of integers of 4 bits.

        XLA:GPU of jaxlib 0.11 ends the process at pads of these, and where it writes one the other half of a byte may
        get lost.
        """
        dtype = self.tensor.dtype
        if self.tensor.data_type.bits >= 8:
            return move(*arrays)
        return move(*(widen_apart(array, computed_type(dtype)) for array in arrays)).astype(dtype)


def saturate(words: jax.Array, dtype: np.dtype[Any]) -> jax.Array:
    """Converts words of 64-bit indices to 32-bit indices; too large ones stay out of range, with their sign."""
    low, high = words[..., 0], words[..., 1]
    if dtype == np.uint64:
        return jnp.where(high == 0, low, jnp.uint32(2**32 - 1))
    low, high = lax.bitcast_convert_type(low, jnp.int32), lax.bitcast_convert_type(high, jnp.int32)
    furthest = jnp.where(high < 0, jnp.int32(-(2**31)), jnp.int32(2**31 - 1))
    return jnp.where(high == low >> 31, low, furthest)


def as_words(indices: jax.Array) -> jax.Array:
    """Converts 32-bit indices to the words of 64-bit ones, the low word first."""
    high = indices >> 31 if indices.dtype == jnp.int32 else jnp.zeros_like(indices)
    return lax.bitcast_convert_type(jnp.stack([indices, high], axis=-1), jnp.uint32)
