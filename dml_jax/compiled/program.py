"""`Program`: a descriptor as pure functions on flat buffers."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.desc import OperatorDesc
from ..core.tensor import TensorDesc, packed_strides
from ..lowering.forms import forced_form
from ..lowering.strided import place, stored, update, view
from ..strides.layout import Layout

__all__ = ["BufferSpec", "Program"]

SMALL = 2**16


@dataclass(frozen=True)
class BufferSpec:
    """What a tensor's buffer is: a 1-D array of at least `length` elements of `dtype`.

    `whole_length` is that with the last row whole, where strides leave gaps between rows: into an output of that length
    XLA writes at once, while for one that ends with the last element it may build the packed output first.
    """

    length: int
    dtype: np.dtype[Any]
    whole_length: int


@dataclass(frozen=True)
class Program:
    """An operator on flat buffers; equal ones are the same program.

    Args:
      desc: the operator.
      words: whether buffers of 64-bit types are uint32 arrays of twice the length, little-endian words.
    """

    desc: OperatorDesc
    words: bool

    def buffer(self, name: str) -> BufferSpec:
        """What is bound to a tensor."""
        layout, in_words = self._layout(name), self._in_words(name)
        dtype = np.dtype(np.uint32) if in_words else self._tensor(name).dtype
        return BufferSpec(layout.span, dtype, layout.whole_length)

    @property
    def input_structs(self) -> list[jax.ShapeDtypeStruct]:
        """The shortest buffers of the inputs, for tracing."""
        specs = [self.buffer(name) for name in self.desc.input_names()]
        return [jax.ShapeDtypeStruct((spec.length,), spec.dtype) for spec in specs]

    @property
    def stored_sizes(self) -> tuple[int, ...]:
        """The shape in which the output is made: its sizes in storage order if they fill the buffer, else it is flat.

        XLA:CPU takes twice to three times as long for a flat output, over which it loops with divisions; not so for a
        scatter. Below `SMALL` bytes the calls that reshape take longer.
        """
        layout, spec = self._layout("output"), self.buffer("output")
        flat = self.desc.starts_as_input or not layout.is_dense or spec.length * spec.dtype.itemsize < SMALL
        return (spec.whole_length,) if flat else layout.stored_sizes

    @property
    def stored_struct(self) -> jax.ShapeDtypeStruct:
        """The output as it is made, for tracing."""
        return jax.ShapeDtypeStruct(self.stored_sizes, self.buffer("output").dtype)

    def fresh(self, *buffers: jax.Array) -> jax.Array:
        """Makes the output, of `stored_sizes`; elements that no coordinate addresses are 0."""
        computed, layout = self._computed(self._views(buffers)), self._layout("output")
        if layout.is_dense:
            return stored(computed, layout).reshape(self.stored_sizes)
        return place(computed, layout, self.buffer("output").length)

    def bound(self, out: jax.Array, *buffers: jax.Array) -> jax.Array:
        """Writes the output into `out`; elements that no coordinate addresses keep what it holds.

        Args:
          out: of `stored_sizes`, or a flat buffer of any sufficient length.
          buffers: the inputs.
        """
        views, layout = self._views(buffers), self._layout("output")
        filled = layout.is_dense and out.size == layout.span
        if (
            filled
            and self.desc.starts_as_input
            and self._tensor("input").is_packed
            and self._tensor("output").is_packed
        ):
            views["input"] = _moved_into(out, views["input"])
        computed = self._computed(views)
        return stored(computed, layout).reshape(out.shape) if filled else update(out, computed, layout)

    @property
    def bytes_moved(self) -> int:
        """The bytes that have to move: each element that is needed read once, each element of the output written.

        A gather needs no more elements of its input than its output has.
        """
        distinct = {name: _distinct(self._tensor(name)) for name in self.desc.tensor_names()}
        if not self.desc.starts_as_input:
            distinct["input"] = min(distinct["input"], distinct["output"])
        return sum(count * self._tensor(name).data_type.itemsize for name, count in distinct.items())

    def _tensor(self, name: str) -> TensorDesc:
        return getattr(self.desc, name)

    def _in_words(self, name: str) -> bool:
        return self.words and self._tensor(name).data_type.itemsize == 8

    def _layout(self, name: str) -> Layout:
        tensor = self._tensor(name)
        sizes, strides = tensor.sizes, tensor.strides or packed_strides(tensor.sizes)
        if self._in_words(name):
            return Layout((*sizes, 2), (*(2 * s for s in strides), 1))
        return Layout(sizes, strides)

    def _views(self, buffers: Iterable[jax.Array]) -> dict[str, jax.Array]:
        """The inputs as the operator sees them; pairs of words are a last dimension, but indices are 32-bit ones."""
        names = self.desc.input_names()
        views = {
            name: view(buffer, self._layout(name), forced_form()) for name, buffer in zip(names, buffers, strict=True)
        }
        if "indices" in views and self._in_words("indices"):
            views["indices"] = _saturated(views["indices"], self._tensor("indices").dtype)
        return views

    def _computed(self, views: dict[str, jax.Array]) -> jax.Array:
        if not self._in_words("output"):
            return self.desc.compute_checked(**views)
        return self.desc.compute_words(**views)


def _distinct(tensor: TensorDesc) -> int:
    """Elements of the buffer that coordinates address, at most: a stride of 0 addresses one."""
    strides = tensor.strides or packed_strides(tensor.sizes)
    return min(tensor.element_span, prod(n for n, s in zip(tensor.sizes, strides, strict=True) if s))


def _moved_into(out: jax.Array, input: jax.Array) -> jax.Array:
    """Copies `input` into the buffer of `out`, so that a scatter goes on there.

    In two pieces: XLA replaces an update of a whole array by its value, and then copies that to a buffer of its own.
    """
    flat, half = input.ravel(), input.size // 2
    out = lax.dynamic_update_slice(out, flat[:half], (0,))
    return lax.dynamic_update_slice(out, flat[half:], (half,)).reshape(input.shape)


def _saturated(words: jax.Array, dtype: np.dtype[Any]) -> jax.Array:
    """64-bit indices as 32-bit ones: what does not fit stays out of range, on its own side."""
    low, high = words[..., 0], words[..., 1]
    if dtype == np.uint64:
        return jnp.where(high == 0, low, jnp.uint32(2**32 - 1))
    low, high = lax.bitcast_convert_type(low, jnp.int32), lax.bitcast_convert_type(high, jnp.int32)
    furthest = jnp.where(high < 0, jnp.int32(-(2**31)), jnp.int32(2**31 - 1))
    return jnp.where(high == low >> 31, low, furthest)
