"""`Program`: a descriptor as pure functions on flat buffers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
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

    desc: OperatorDesc[Any]
    words: bool

    def buffer(self, port: str) -> BufferSpec:
        """What is bound to a tensor."""
        layout, in_words = self._layout(port), self._in_words(port)
        dtype = np.dtype(np.uint32) if in_words else self.ports[port].dtype
        return BufferSpec(layout.span, dtype, layout.whole_length)

    @cached_property
    def inputs(self) -> dict[str, TensorDesc]:
        """The tensors that are read, by port."""
        return self.desc.input_ports()

    @cached_property
    def outputs(self) -> dict[str, TensorDesc]:
        """The tensors that are written, by port."""
        return self.desc.output_ports()

    @cached_property
    def ports(self) -> dict[str, TensorDesc]:
        """All tensors."""
        return self.inputs | self.outputs

    @property
    def input_structs(self) -> list[jax.ShapeDtypeStruct]:
        """The shortest buffers of the inputs, for tracing."""
        specs = [self.buffer(port) for port in self.inputs]
        return [jax.ShapeDtypeStruct((spec.length,), spec.dtype) for spec in specs]

    def stored_sizes(self, port: str) -> tuple[int, ...]:
        """The shape in which an output is made: its sizes in storage order if they fill the buffer, else it is flat.

        XLA:CPU takes twice to three times as long for a flat output, over which it loops with divisions; not so for a
        scatter. Below `SMALL` bytes the calls that reshape take longer.
        """
        layout, spec = self._layout(port), self.buffer(port)
        small = spec.length * spec.dtype.itemsize < SMALL
        flat = self.desc.replaces_in is not None or not layout.is_dense or small
        return (spec.whole_length,) if flat else layout.stored_sizes

    @property
    def stored_structs(self) -> list[jax.ShapeDtypeStruct]:
        """The outputs as they are made, for tracing."""
        return [jax.ShapeDtypeStruct(self.stored_sizes(port), self.buffer(port).dtype) for port in self.outputs]

    def fresh(self, *buffers: jax.Array) -> list[jax.Array]:
        """Makes the outputs, each of its `stored_sizes`; elements that no coordinate addresses are 0."""
        computed = self._computed(self._views(buffers))
        return [self._placed(port, output) for port, output in zip(self.outputs, computed, strict=True)]

    def bound(self, *buffers: jax.Array) -> list[jax.Array]:
        """Writes the outputs into buffers; elements that no coordinate addresses keep what these hold.

        Args:
          buffers: one per output, of its `stored_sizes`, or flat ones of any sufficient length; then the inputs.
        """
        ports = list(self.outputs)
        outs, views = buffers[: len(ports)], self._views(buffers[len(ports) :])
        self._replace_in(outs[0] if outs else None, views)
        computed = self._computed(views)
        return [self._written(*each) for each in zip(ports, outs, computed, strict=True)]

    @property
    def bytes_moved(self) -> int:
        """The bytes that have to move: each element that is needed read once, each element of the outputs written.

        A gather needs no more elements of its input than its output has.
        """
        distinct = {port: _distinct(tensor) for port, tensor in self.ports.items()}
        written = sum(distinct[port] for port in self.outputs)
        for port in self.inputs:
            if self.desc.replaces_in is None and not self.desc.field_of(port).is_index:
                distinct[port] = min(distinct[port], written)
        return sum(count * self.ports[port].data_type.itemsize for port, count in distinct.items())

    def _placed(self, port: str, output: jax.Array) -> jax.Array:
        layout = self._layout(port)
        if layout.is_dense:
            return stored(output, layout).reshape(self.stored_sizes(port))
        return place(output, layout, self.buffer(port).length)

    def _written(self, port: str, out: jax.Array, output: jax.Array) -> jax.Array:
        layout = self._layout(port)
        return stored(output, layout).reshape(out.shape) if self._fills(port, out) else update(out, output, layout)

    def _fills(self, port: str, out: jax.Array) -> bool:
        layout = self._layout(port)
        return layout.is_dense and out.size == layout.span

    def _replace_in(self, out: jax.Array | None, views: dict[str, jax.Array]) -> None:
        """Moves the input that is copied into the output's memory first, where both lie alike."""
        name = self.desc.replaces_in
        if name is None or out is None:
            return
        (port,) = self.outputs
        if self._fills(port, out) and self.ports[name].is_packed and self.ports[port].is_packed:
            views[name] = _moved_into(out, views[name])

    def _in_words(self, port: str) -> bool:
        return self.words and self.ports[port].data_type.itemsize == 8

    def _layout(self, port: str) -> Layout:
        tensor = self.ports[port]
        sizes, strides = tensor.sizes, tensor.strides or packed_strides(tensor.sizes)
        if self._in_words(port):
            return Layout((*sizes, 2), (*(2 * s for s in strides), 1))
        return Layout(sizes, strides)

    def _views(self, buffers: Iterable[jax.Array]) -> dict[str, jax.Array]:
        """The inputs as the operator sees them; pairs of words are a last dimension, but indices are 32-bit ones."""
        views = {
            port: view(buffer, self._layout(port), forced_form())
            for port, buffer in zip(self.inputs, buffers, strict=True)
        }
        for port in views:
            if self.desc.field_of(port).is_index and self._in_words(port):
                views[port] = _saturated(views[port], self.ports[port].dtype)
        return views

    def _computed(self, views: dict[str, jax.Array]) -> Sequence[jax.Array]:
        """The outputs, in order."""
        has_words = any(self._in_words(port) and not self.desc.field_of(port).is_index for port in self.ports)
        compute = self.desc.compute_words if has_words else self.desc.compute_checked
        return jax.tree.leaves(compute(**self.desc.by_field(views)))


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
