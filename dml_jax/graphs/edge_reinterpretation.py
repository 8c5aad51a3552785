"""Reinterprets values on edges: a node may read the bytes of a tensor with another type, sizes or strides."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.tensors.data_type import DataType
from ..core.tensors.int4_packing import as_elements, join_nibbles, split_nibbles
from ..core.tensors.stored_tensor import StoredTensor
from ..core.tensors.tensor_desc import TensorDesc, packed_strides
from ..operations.values.bit_exact import hide_constant
from .nodes_and_edges import Constant

# Reads a port's value as a tensor; the flag says whether 64-bit elements are pairs of words.
See = Callable[[TensorDesc, bool], jax.Array]


def reinterpret(array: jax.Array, source: TensorDesc, reader: TensorDesc, words: bool) -> jax.Array:
    """Returns the bytes of one tensor read as another; nothing moves if layouts agree, and packed ones are reshaped.

    (2, 3) FLOAT32 with strides (1, 2) read as UINT16 of sizes (12,): the buffer holds the columns, (3, 2), and each
    float becomes two integers. Bytes between or behind the elements of the source are 0.
    """
    stored, seen = StoredTensor(source, words), StoredTensor(reader, words)
    if source.data_type == reader.data_type:
        if source.sizes == reader.sizes and _strides(source) == _strides(reader):
            return array
        if source.is_packed and reader.is_packed and stored.layout.span == seen.layout.span:
            return array.reshape(-1).reshape(seen.layout.sizes)  # Explicit meshes do not merge and split at once
    once, stored = _without_repeats(array, source, words)
    return view_as(stored.place(once, (stored.layout.span,)), source, reader, words)


def view_as(buffer: jax.Array, source: TensorDesc, reader: TensorDesc, words: bool) -> jax.Array:
    """Reads a flat buffer of one tensor as another tensor; bytes behind the span of the first one are 0."""
    stored, seen = StoredTensor(source, words), StoredTensor(reader, words)
    if stored.dtype != seen.dtype or stored.layout.span < seen.layout.span:
        buffer = as_type(buffer[: stored.layout.span], seen.dtype)
        if buffer.shape[0] < seen.layout.span:
            buffer = jnp.pad(buffer, (0, seen.layout.span - buffer.shape[0]))
    return seen.view(buffer)


def constant_value(constant: Constant, reader: TensorDesc, words: bool) -> jax.Array:
    """Returns a constant as the tensor that reads it; NumPy lays it out before tracing, unless it repeats elements."""
    seen = StoredTensor(reader, words)
    data = np.frombuffer(constant.data, np.uint8)
    buffer = data[: seen.layout.span * seen.dtype.itemsize].view(seen.dtype)
    if reader.data_type.bits < 8:
        buffer = as_elements(data, reader.data_type, seen.layout.span)
    if prod(seen.layout.sizes) > seen.layout.span:
        return seen.view(hide_constant(buffer))
    strides = [s * seen.dtype.itemsize for s in seen.layout.strides]
    view = np.lib.stride_tricks.as_strided(buffer, seen.layout.sizes, strides, writeable=False)
    # Else XLA evaluates a gather of it in another order of dimensions, which a cast of its bits takes for this one.
    return hide_constant(view.copy())


def _without_repeats(array: jax.Array, tensor: TensorDesc, words: bool) -> tuple[jax.Array, StoredTensor]:
    """Drops repeated elements along dimensions of stride 0, which an input of a graph may have."""
    strides = tensor.strides or packed_strides(tensor.sizes)
    sizes = [1 if s == 0 else n for n, s in zip(tensor.sizes, strides, strict=True)]
    return array[tuple(map(slice, sizes))], StoredTensor(TensorDesc(tensor.data_type, sizes, strides), words)


def _strides(tensor: TensorDesc) -> list[int]:
    """Returns the strides of the dimensions that have more than one element."""
    strides = tensor.strides or packed_strides(tensor.sizes)
    return [s for n, s in zip(tensor.sizes, strides, strict=True) if n > 1]


def as_type(buffer: jax.Array, dtype: np.dtype[Any]) -> jax.Array:
    """Returns the bytes of a flat buffer as elements of another type; zeros fill up the last element.

    Between widths by shifts: XLA:GPU ends the process over casts of several widths in one kernel, and any XLA fails
    where it merges two of them. By shifts that it does not know, as XLA:GPU takes the lowest byte of a float's bits for
    the number that the float is.
    """
    if buffer.dtype == dtype:  # which has derivatives
        return buffer
    if _is_small(buffer.dtype):
        return as_type(join_nibbles(buffer), dtype)
    if _is_small(dtype):
        return split_nibbles(as_type(buffer, np.dtype(np.uint8)), dtype)
    image = lax.bitcast_convert_type(buffer, np.dtype(f"uint{8 * buffer.dtype.itemsize}"))
    target = np.dtype(f"uint{8 * dtype.itemsize}")
    if image.dtype.itemsize > target.itemsize:
        image = _apart(image, target)
    elif image.dtype.itemsize < target.itemsize:
        image = _together(image, target)
    return lax.bitcast_convert_type(image, dtype)


def _is_small(dtype: np.dtype[Any]) -> bool:
    return DataType.of(dtype).bits < 8


def _apart(wide: jax.Array, narrow: np.dtype[Any]) -> jax.Array:
    """Splits each integer into several narrower ones, the least significant first."""
    shifts = hide_constant(np.arange(0, 8 * wide.dtype.itemsize, 8 * narrow.itemsize).astype(wide.dtype))
    return (wide[:, None] >> shifts[None]).astype(narrow).reshape(-1)


def _together(narrow: jax.Array, wide: np.dtype[Any]) -> jax.Array:
    """Joins several integers to a wider one, the least significant first; zeros fill up the last one."""
    count, bits = wide.itemsize // narrow.dtype.itemsize, 8 * narrow.dtype.itemsize
    shifts = hide_constant(np.arange(0, 8 * wide.itemsize, bits).astype(wide))
    parts = jnp.pad(narrow, (0, -narrow.shape[0] % count)).reshape(-1, count).astype(wide) << shifts[None]
    return reduce(jnp.bitwise_or, [parts[:, i] for i in range(count)])
