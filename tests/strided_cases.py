"""Random descriptors with random strides, their buffers, and the results expected by NumPy.

A case is its number: the same number gives the same descriptor of a struct and the same bytes, whatever other structs
there are.
"""

from dataclasses import dataclass, field
from math import prod
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
from checks import assert_agrees, assert_same_bits, assert_scattered
from numpy.lib.stride_tricks import as_strided

import dml_jax
from dml_jax import DataType, TensorDesc

INPUT_CLASSES = ("null", "packed", "permuted", "padded", "stepped", "broadcast", "overlapping", "interleaved")
OUTPUT_CLASSES = ("null", "packed", "permuted", "padded", "stepped", "interleaved")


@dataclass(eq=False)
class Case:
    """A descriptor, a buffer per port, the class of every layout, and whether the outputs are bound."""

    number: int
    desc: dml_jax.OperatorDesc
    classes: dict[str, str]
    bound: bool
    x64: bool
    buffers: dict[str, np.ndarray] = field(repr=False)


def make(struct, number):
    """The case of that number."""
    rng = np.random.default_rng([2026, crc32(struct.name.encode()), number])
    cls, drawn, classes = type(struct.desc), struct.draw(rng), {}
    data_types = _data_types(rng, struct) | drawn.pop("data_types", {})

    def tensor(port, kind, sizes, data_type):
        sizes = tuple(map(int, sizes))
        classes[port] = str(rng.choice(OUTPUT_CLASSES if kind.is_output else INPUT_CLASSES))
        strides = STRIDES[classes[port]](rng, sizes)
        if strides is None:
            classes[port] = "null"
        return TensorDesc(data_type, sizes, strides)

    for name, kind in cls.fields().items():
        if kind.is_tensor and drawn.get(name) is not None:
            sizes, of = drawn[name], data_types[name]
            ports = [f"{name}[{i}]" for i in range(len(sizes))] if kind.is_array else ()
            several = [tensor(p, kind, one, data_types.get(p, of)) for p, one in zip(ports, sizes, strict=False)]
            drawn[name] = several or tensor(name, kind, sizes, of)
    first = next(iter(data_types.values()))
    drawn |= {name: first for name, value in struct.desc.operands().items() if isinstance(value, DataType)}
    desc = cls(**{name: drawn.get(name) for name in cls.field_names()})
    extra = rng.integers(0, 4) if rng.random() < 0.3 else 0
    bound, x64 = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    buffers = {port: _filled(rng, struct, desc, port, one, extra) for port, one in desc.ports().items()}
    return Case(number, desc, classes, bound, x64, buffers)


def _data_types(rng, struct):
    """A random type, of those that the newest level takes, per tensor of the table; the others have the first one's."""
    types = {name: str(rng.choice(sorted(accepted))) for name, accepted in struct.levels[0].types.items()}
    others = {name: types.get(name, next(iter(types.values()))) for name in struct.desc.tensor_names()}
    return others | struct.typed(types)


def _filled(rng, struct, desc, port, tensor, extra):
    """What the struct wants there; random bits, NaNs and all; small and far numbers for indices."""
    count = tensor.element_span + extra
    if struct.fill and (found := struct.fill(rng, port, tensor, count)) is not None:
        return found
    if tensor.data_type.bits < 8:
        return rng.choice(tensor.data_type.integers, count).astype(tensor.dtype)
    if not desc.is_index(port):
        return np.frombuffer(rng.bytes(count * tensor.dtype.itemsize), tensor.dtype).copy()
    limits = np.iinfo(tensor.dtype)
    near = rng.integers(-4 if limits.min else 0, 6, count).astype(tensor.dtype)
    far = rng.choice(np.array([limits.min, limits.max, limits.max // 2 + 1, 2**31 - 1], tensor.dtype), count)
    return np.where(rng.random(count) < 0.9, near, far)


def expected(struct, case):
    """The oracle's result on NumPy's views: an array, several, or for scatters the candidates of every element."""
    views = {port: seen(case.buffers[port], tensor) for port, tensor in case.desc.input_ports().items()}
    return struct.expected(case.desc, *case.desc.by_field(views).values())


def seen(buffer, tensor):
    """NumPy's view of a buffer through a tensor's sizes and strides."""
    packed = [prod(tensor.sizes[d + 1 :]) for d in range(len(tensor.sizes))]
    strides = [s * buffer.itemsize for s in tensor.strides or packed]
    return as_strided(buffer, tensor.sizes, strides)


# Calls, and what came of them; of graphs too.


def arrays(case):
    """The buffers of the inputs, and what is bound to the outputs; 64-bit ones as words while x64 is off."""
    ports = [*_inputs(case), *(case.desc.output_ports() if case.bound else ())]
    return [_stored(case, port) for port in ports]


def call(case, *buffers):
    """Calls what is compiled."""
    owned = {port: _stored(case, port) for port, tensor in case.desc.input_ports().items() if tensor.flags}
    run, count = dml_jax.compile_operator(case.desc, **owned), len(_inputs(case))
    if not case.bound:
        return run(*buffers)
    out = tuple(jnp.array(buffer) for buffer in buffers[count:])
    return run(*buffers[:count], out=out if run.desc.has_several_outputs() else out[0])


def _inputs(case):
    """The inputs that are bound at every call."""
    return [port for port, tensor in case.desc.input_ports().items() if not tensor.flags]


def _stored(case, port):
    buffer = case.buffers[port]
    return buffer.view(np.uint32) if buffer.dtype.itemsize == 8 and not case.x64 else buffer


def check(case, made, wanted, units=None):
    """Outputs are the oracle's, within so many units where they are rounded; what lies between is what it was."""
    outputs = zip(case.desc.output_ports().items(), jax.tree.leaves(made), strict=True)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for ((port, tensor), output), of_one in zip(outputs, wanted, strict=True):
        before = case.buffers[port]
        if not case.bound:
            before = np.zeros(tensor.element_span, before.dtype)
        assert output.dtype == (np.uint32 if before.dtype.itemsize == 8 and not case.x64 else before.dtype)
        after = np.array(output).view(before.dtype)
        assert after.shape == before.shape
        if isinstance(of_one, dict):
            assert_scattered(seen(after, tensor), seen(case.buffers["input"], case.desc.input), of_one)
        else:
            of_port = units.get(port) if isinstance(units, dict) else units
            assert_agrees(seen(after, tensor), of_one.reshape(tensor.sizes), of_port)
        # What no coordinate addresses is as it was.
        seen(after, tensor)[...] = seen(before, tensor)
        assert_same_bits(after, before)


# Strides, by class.


def permuted(rng, sizes, gap=lambda: 0, step=1):
    """Nested strides in a random order of dimensions; `gap` elements are left out after each."""
    strides, reach = [0] * len(sizes), step
    for d in rng.permutation(len(sizes)):
        strides[d] = reach
        reach = reach * sizes[d] + gap()
    return tuple(map(int, strides))


def in_order(sizes):
    return tuple(prod(sizes[d + 1 :]) for d in range(len(sizes)))


def padded(rng, sizes):
    strides, reach = [], 1
    for n in reversed(sizes):
        strides.append(int(reach))
        reach = reach * n + rng.integers(0, 3)
    return tuple(reversed(strides))


def broadcast(rng, sizes):
    strides = permuted(rng, sizes)
    return tuple(0 if rng.random() < 0.5 else s for s in strides)


def overlapping(rng, sizes):
    return tuple(int(s) for s in rng.integers(0, 5, len(sizes)))


def interleaved(rng, sizes):
    """Strides in no order that address every element once; none if few tries find none."""
    for _ in range(20):
        strides = tuple(int(s) for s in rng.integers(1, 8 + 2 * prod(sizes), len(sizes)))
        offsets = sum(
            np.arange(n).reshape(-1, *(1,) * d) * s for d, (n, s) in enumerate(zip(sizes, strides, strict=True))
        )
        if np.unique(offsets).size == prod(sizes):
            return strides
    return None


STRIDES = {
    "null": lambda rng, sizes: None,
    "packed": lambda rng, sizes: in_order(sizes),
    "permuted": permuted,
    "padded": padded,
    "stepped": lambda rng, sizes: permuted(rng, sizes, lambda: rng.integers(0, 3), int(rng.integers(2, 4))),
    "broadcast": broadcast,
    "overlapping": overlapping,
    "interleaved": interleaved,
}
