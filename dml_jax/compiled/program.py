"""`Program`: an operator, or a graph, as pure functions on flat buffers."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import jax
import numpy as np

from ..core.structs.computation import Computation
from ..core.tensors.stored_tensor import StoredTensor
from ..core.tensors.tensor_desc import TensorDesc, packed_strides
from ..operations.scatter import copy_table
from ..operations.strided_writes import in_storage_order

SMALL = 2**16


@dataclass(frozen=True)
class BufferSpec:
    """The buffer of a tensor: a 1-D array of at least `length` elements of `dtype`.

    `whole_length` differs from `length` where strides leave gaps between rows: then it counts the gap after the last
    row too. XLA writes into an output of that length at once; for a shorter one it may first build the packed output.
    """

    length: int
    dtype: np.dtype[Any]
    whole_length: int

    def __str__(self) -> str:
        return f"{self.dtype}[{self.length}]"


@dataclass(frozen=True)
class Program:
    """An operator, or a graph, on flat buffers. Programs that are equal compile to the same executable.

    Args:
      desc: the operator or graph.
      words: whether buffers of 64-bit types are uint32 arrays of twice the length, little-endian words.
      flat: whether outputs are flat arrays even if they fill their buffers: see `stored_sizes`.
    """

    desc: Computation[Any]
    words: bool
    flat: bool

    # Computed once: every call asks for them.

    @cached_property
    def buffers(self) -> dict[str, BufferSpec]:
        """The buffer of each tensor, by port."""
        layouts = {port: (stored.layout, stored.dtype) for port, stored in self._stored.items()}
        return {port: BufferSpec(of.span, dtype, of.whole_length) for port, (of, dtype) in layouts.items()}

    @cached_property
    def inputs(self) -> dict[str, TensorDesc]:
        """The tensors that the program reads, by port."""
        return self.desc.input_ports()

    @cached_property
    def outputs(self) -> dict[str, TensorDesc]:
        """The tensors that the program writes, by port."""
        return self.desc.output_ports()

    @cached_property
    def ports(self) -> dict[str, TensorDesc]:
        """All tensors, by port."""
        return self.inputs | self.outputs

    @cached_property
    def has_several_outputs(self) -> bool:
        """Whether results are a tuple."""
        return self.desc.has_several_outputs()

    @property
    def input_structs(self) -> list[jax.ShapeDtypeStruct]:
        """The shortest buffers of the inputs, for tracing."""
        specs = [self.buffers[port] for port in self.inputs]
        return [jax.ShapeDtypeStruct((spec.length,), spec.dtype) for spec in specs]

    @cached_property
    def stored_sizes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each output in the program: its sizes in storage order if they fill the buffer, else flat.

        XLA:CPU takes two to three times as long for a flat output, because it loops with divisions; not so for a
        scatter. Below `SMALL` bytes, and on other platforms, the calls that reshape take longer.
        """
        return {port: self._stored_sizes(port) for port in self.outputs}

    def _stored_sizes(self, port: str) -> tuple[int, ...]:
        layout, spec = self._stored[port].layout, self.buffers[port]
        small = spec.length * spec.dtype.itemsize < SMALL
        flat = self.flat or self.desc.replaces_in is not None or not layout.is_dense or small
        return (spec.whole_length,) if flat else layout.stored_sizes

    @property
    def stored_structs(self) -> list[jax.ShapeDtypeStruct]:
        """The outputs in their `stored_sizes`, for tracing."""
        return [jax.ShapeDtypeStruct(self.stored_sizes[port], self.buffers[port].dtype) for port in self.outputs]

    def fresh(self, *buffers: jax.Array) -> list[jax.Array]:
        """Computes the outputs, each in its `stored_sizes`; elements that no coordinate addresses are 0."""
        computed = self.desc.compute_buffers(dict(zip(self.inputs, buffers, strict=True)), self.words)
        outputs = zip(self.outputs, computed, strict=True)
        return [self._stored[port].place(output, self.stored_sizes[port]) for port, output in outputs]

    def bound(self, *buffers: jax.Array) -> list[jax.Array]:
        """Computes the outputs and writes them into buffers; elements that no coordinate addresses keep their values.

        Args:
          buffers: one per output, of its `stored_sizes`, or flat ones of any sufficient length; then the inputs.
        """
        ports = list(self.outputs)
        outs, inputs = buffers[: len(ports)], dict(zip(self.inputs, buffers[len(ports) :], strict=True))
        self._replace_in(outs[0], inputs)
        computed = self.desc.compute_buffers(inputs, self.words)
        return [self._write(*each) for each in zip(ports, outs, computed, strict=True)]

    @property
    def bytes_moved(self) -> int:
        """The bytes that must move: each element that is needed is read once, and each element of the outputs written.

        A gather needs no more elements of its input than its output has.
        """
        distinct = {port: _distinct(tensor) for port, tensor in self.ports.items()}
        written = sum(distinct[port] for port in self.outputs)
        for port in self.inputs:
            if self.desc.replaces_in is None and not self.desc.is_index(port):
                distinct[port] = min(distinct[port], written)
        return sum(self.ports[port].data_type.byte_count(count) for port, count in distinct.items())

    def _write(self, port: str, out: jax.Array, output: jax.Array) -> jax.Array:
        stored = self._stored[port]
        if self._fills(port, out):
            return in_storage_order(output, stored.layout).reshape(out.shape)
        return stored.update(out, output)

    def _fills(self, port: str, out: jax.Array) -> bool:
        layout = self._stored[port].layout
        return layout.is_dense and out.size == layout.span

    def _replace_in(self, out: jax.Array, inputs: dict[str, jax.Array]) -> None:
        """Copies the input of a scatter into the memory of the output first, if layouts agree."""
        name = self.desc.replaces_in
        if name is None:
            return
        (port,) = self.outputs
        if self._fills(port, out) and self.ports[name].is_packed and self.ports[port].is_packed:
            (updates,) = (inputs[other] for other in self.inputs if other != name and not self.desc.is_index(other))
            view = self._stored[name].view(inputs[name])
            inputs[name] = copy_table(out, view, updates).ravel()

    @cached_property
    def _stored(self) -> dict[str, StoredTensor]:
        return {port: StoredTensor(tensor, self.words) for port, tensor in self.ports.items()}


def _distinct(tensor: TensorDesc) -> int:
    """Returns at most how many elements of the buffer the coordinates address; a stride of 0 addresses one."""
    strides = tensor.strides or packed_strides(tensor.sizes)
    return min(tensor.element_span, prod(n for n, s in zip(tensor.sizes, strides, strict=True) if s))
