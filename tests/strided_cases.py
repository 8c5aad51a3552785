"""Random descriptors with random strides, their buffers, and what NumPy says of them. Imports no JAX of its own.

A case is its number: the same number gives the same descriptor and the same bytes.
"""

from dataclasses import dataclass, field
from math import prod

import numpy as np
import oracles
from numpy.lib.stride_tricks import as_strided

import dml_jax
from dml_jax import DataType, TensorDesc

INDEX_TYPES = ("INT32", "INT64", "UINT32", "UINT64")
INPUT_CLASSES = ("null", "packed", "permuted", "padded", "stepped", "broadcast", "overlapping", "interleaved")
OUTPUT_CLASSES = ("null", "packed", "permuted", "padded", "stepped", "interleaved")


@dataclass(eq=False)
class Case:
    """A descriptor, a buffer per tensor, the class of every layout, and whether the output is bound."""

    number: int
    desc: dml_jax.OperatorDesc
    classes: dict[str, str]
    bound: bool
    x64: bool
    buffers: dict[str, np.ndarray] = field(repr=False)


def make(number):
    """The case of that number."""
    rng = np.random.default_rng([2026, number])
    operator = OPERATORS[number % len(OPERATORS)]
    sizes, attributes = operator.draw(rng)
    data_type, index_type = rng.choice([t.name for t in DataType]), rng.choice(INDEX_TYPES)
    tensors, classes = {}, {}
    for name, n in sizes.items():
        n = tuple(map(int, n))
        classes[name] = str(rng.choice(OUTPUT_CLASSES if name == "output" else INPUT_CLASSES))
        strides = STRIDES[classes[name]](rng, n)
        if strides is None:
            classes[name] = "null"
        tensors[name] = TensorDesc(index_type if name == "indices" else data_type, n, strides)
    desc = operator.cls(**tensors, **attributes)
    extra = rng.integers(0, 4) if rng.random() < 0.3 else 0
    buffers = {name: fill(rng, tensor, desc, extra) for name, tensor in tensors.items()}
    return Case(number, desc, classes, bool(rng.random() < 0.5), bool(rng.random() < 0.5), buffers)


def fill(rng, tensor, desc, extra):
    """Random bits, NaNs and all; small and far numbers for indices."""
    count = tensor.element_span + extra
    if tensor is not getattr(desc, "indices", None):
        return np.frombuffer(rng.bytes(count * tensor.dtype.itemsize), tensor.dtype).copy()
    limits = np.iinfo(tensor.dtype)
    near = rng.integers(-4 if limits.min else 0, 6, count).astype(tensor.dtype)
    far = rng.choice(np.array([limits.min, limits.max, limits.max // 2 + 1, 2**31 - 1], tensor.dtype), count)
    return np.where(rng.random(count) < 0.9, near, far)


def seen(buffer, tensor):
    """NumPy's view of a buffer through a tensor's sizes and strides."""
    packed = [prod(tensor.sizes[d + 1 :]) for d in range(len(tensor.sizes))]
    strides = [s * buffer.itemsize for s in tensor.strides or packed]
    return as_strided(buffer, tensor.sizes, strides)


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


# Operators: what sizes and attributes they may have.


def dims(rng, count, most=120):
    """Sizes of at most `most` elements."""
    sizes = []
    for _ in range(count):
        sizes.append(int(rng.integers(1, max(1, min(4, most // prod(sizes))) + 1)))
    return [sizes[i] for i in rng.permutation(count)]


def pad(sizes, rank):
    return (1,) * (rank - len(sizes)) + tuple(sizes)


def draw_gather(rng):
    rank = int(rng.integers(1, 9))
    q = int(rng.integers(0, rank + 1))
    leading = max(0, q - 1)
    axis = int(rng.integers(leading, rank))
    input, real = pad(dims(rng, rank - leading), rank), dims(rng, q, 8)
    output = [*input[:axis], *real, *input[axis + 1 :]]
    output = pad(output[max(0, len(output) - rank) :], rank)
    sizes = {"input": input, "indices": pad(real, rank), "output": output}
    return sizes, {"axis": axis, "index_dimensions": q}


def draw_elements(rng):
    rank = int(rng.integers(1, 9))
    axis = int(rng.integers(0, rank))
    input = dims(rng, rank)
    indices = [*input[:axis], int(rng.integers(1, 5)), *input[axis + 1 :]]
    return {"input": input, "indices": indices}, {"axis": axis}


def draw_gather_elements(rng):
    sizes, attributes = draw_elements(rng)
    return {**sizes, "output": sizes["indices"]}, attributes


def draw_scatter_elements(rng):
    sizes, attributes = draw_elements(rng)
    return {**sizes, "updates": sizes["indices"], "output": sizes["input"]}, attributes


def draw_tuples(rng, batched):
    """Sizes of input, indices and the slices between them; how many dimensions count; the batch."""
    rank = int(rng.integers(1, 9))
    while True:
        p, q = (int(n) for n in rng.integers(1, rank + 1, 2))
        b = int(rng.integers(0, min(p, q))) if batched else 0
        t = int(rng.integers(1, p - b + 1))
        if q - 1 + p - b - t <= rank:
            break
    input = dims(rng, p)
    rows = [*input[:b], *dims(rng, q - 1 - b, 8)]
    sizes = {"input": pad(input, rank), "indices": pad([*rows, t], rank)}
    counts = {"input_dimension_count": p, "indices_dimension_count": q}
    return sizes, pad([*rows, *input[b + t :]], rank), counts, b


def draw_gather_nd(rng):
    sizes, slices, counts, _ = draw_tuples(rng, False)
    return {**sizes, "output": slices}, counts


def draw_gather_nd1(rng):
    sizes, slices, counts, batch = draw_tuples(rng, True)
    return {**sizes, "output": slices}, {**counts, "batch_dimension_count": batch}


def draw_scatter_nd(rng):
    sizes, slices, counts, _ = draw_tuples(rng, False)
    return {**sizes, "updates": slices, "output": sizes["input"]}, counts


def draw_blocks(rng):
    block = int(rng.integers(1, 4))
    n, c, h, w = dims(rng, 4, 24)
    return (n, c * block * block, h, w), (n, c, h * block, w * block), {"block_size": block}


def draw_depth_to_space(rng):
    depth, space, attributes = draw_blocks(rng)
    return {"input": depth, "output": space}, attributes


def draw_space_to_depth(rng):
    depth, space, attributes = draw_blocks(rng)
    return {"input": space, "output": depth}, attributes


def ordered(draw):
    def drawn(rng):
        sizes, attributes = draw(rng)
        return sizes, {**attributes, "order": int(rng.integers(0, 2))}

    return drawn


@dataclass(frozen=True)
class Operator:
    cls: type
    draw: object
    oracle: object


def _real(array, count):
    return array.reshape(array.shape[array.ndim - count :])


def _block(oracle):
    return lambda d, x: oracle(x, d.block_size, "CRD" if getattr(d, "order", 0) else "DCR")


def _scatter_nd(d, x, i, u):
    t, q, p = i.shape[-1], d.indices_dimension_count, d.input_dimension_count
    slices = u.reshape(i.shape[i.ndim - q : -1] + x.shape[x.ndim - p + t :])
    candidates = oracles.scatter_nd(_real(x, p), _real(i, q), slices)
    return {(0,) * (x.ndim - p) + at: found for at, found in candidates.items()}


OPERATORS = (
    Operator(dml_jax.GatherDesc, draw_gather, lambda d, x, i: oracles.gather(x, _real(i, d.index_dimensions), d.axis)),
    Operator(dml_jax.GatherElementsDesc, draw_gather_elements, lambda d, x, i: oracles.gather_elements(x, i, d.axis)),
    Operator(
        dml_jax.GatherNDDesc,
        draw_gather_nd,
        lambda d, x, i: oracles.gather_nd(_real(x, d.input_dimension_count), _real(i, d.indices_dimension_count)),
    ),
    Operator(
        dml_jax.GatherND1Desc,
        draw_gather_nd1,
        lambda d, x, i: oracles.gather_nd(
            _real(x, d.input_dimension_count), _real(i, d.indices_dimension_count), d.batch_dimension_count
        ),
    ),
    Operator(
        dml_jax.ScatterElementsDesc,
        draw_scatter_elements,
        lambda d, x, i, u: oracles.scatter_elements(x, i, u, d.axis),
    ),
    Operator(dml_jax.ScatterNDDesc, draw_scatter_nd, _scatter_nd),
    Operator(dml_jax.DepthToSpaceDesc, draw_depth_to_space, _block(oracles.depth_to_space)),
    Operator(dml_jax.DepthToSpace1Desc, ordered(draw_depth_to_space), _block(oracles.depth_to_space)),
    Operator(dml_jax.SpaceToDepthDesc, draw_space_to_depth, _block(oracles.space_to_depth)),
    Operator(dml_jax.SpaceToDepth1Desc, ordered(draw_space_to_depth), _block(oracles.space_to_depth)),
)


def expected(case):
    """What the oracle makes of NumPy's views: an array, or for scatters the candidates of every element."""
    desc = case.desc
    views = [seen(case.buffers[name], getattr(desc, name)) for name in desc.input_names()]
    result = OPERATORS[case.number % len(OPERATORS)].oracle(desc, *views)
    return result if isinstance(result, dict) else result.reshape(desc.output.sizes)
