"""Values along edges: 64-bit types, and reinterpreted bytes where the tensors at both ends differ."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits, refused_without_x64
from graph_cases import X, alone, chain, copied
from operator_cases import f16, f32, i32, i64, u8
from strided_cases import seen

import dml_jax
from dml_jax import (
    CastDesc,
    CumulativeSummationDesc,
    DepthToSpaceDesc,
    GatherDesc,
    GraphDesc,
    TensorDesc,
    compile_operator,
)

pytestmark = pytest.mark.device


# 64 bits.

WIDE = np.array([2**63 - 1, -(2**63), -1, 2**32, 2**32 - 1, 5], np.int64)


@pytest.mark.parametrize("data_type", ["INT64", "UINT64", "FLOAT64"])
def test_64_bit_data_moves_between_nodes(data_type, x64):
    """As words while x64 is off, through strides, and as other data types."""
    tensor, columns = TensorDesc(data_type, (2, 3)), TensorDesc(data_type, (3, 2), (1, 3))
    graph = chain(copied(tensor), copied(columns, TensorDesc(data_type, (3, 2))), copied(TensorDesc("INT16", (24,))))
    data = WIDE.view(tensor.dtype)
    wanted = np.ascontiguousarray(WIDE.reshape(2, 3).T).view(np.int16).ravel()
    assert_same_bits(compile_operator(graph)(data), wanted)
    with refused_without_x64(r"x of type .*64"):
        assert_same_bits(graph.compute(data.reshape(2, 3)), wanted)


def test_64_bit_numbers_are_computed_between_nodes(x64):
    """Inside of a graph there may be some while x64 is off, for its arrays too."""
    narrow, wide = i32(3), i64(3)
    running = CumulativeSummationDesc(wide, wide, 0, "INCREASING", False)
    graph = chain(CastDesc(narrow, wide), running, CastDesc(wide, narrow))
    x = np.int32([2**31 - 1, 2**31 - 1, 3 - 2**31])
    assert_same_bits(graph.compute(x), np.cumsum(x, dtype=np.int64).astype(np.int32))
    assert_same_bits(compile_operator(graph)(x), np.cumsum(x, dtype=np.int64).astype(np.int32))


@pytest.mark.parametrize("data_type", ["INT64", "UINT64"])
def test_64_bit_indices(data_type, x64):
    tensor = TensorDesc(data_type, (6,))
    graph, indices = alone(GatherDesc(f32(4), tensor, f32(6), 0, 1)), WIDE.view(tensor.dtype)
    wanted = X[[3, 0, 3, 3, 3, 3]] if data_type == "INT64" else X[[3] * 6]
    for made in (graph.compute(X, indices), compile_operator(graph)(X, indices)):
        assert_same_bits(made, wanted)


def test_64_bit_inputs_that_are_read_as_other_indices_are_bytes(x64):
    """They cannot be clamped: these are two indices each."""
    graph = GraphDesc(
        {"op": GatherDesc(f32(4), i32(2), f32(2), 0, 1)},
        {("op", "input"): "x", ("op", "indices"): "i", "y": ("op", "output")},
        inputs={"i": i64(1)},
    )
    indices = np.int64([3 * 2**32 + 2])
    assert [*graph.inputs] == ["i", "x"]
    assert_same_bits(compile_operator(graph)(indices, X), X[[2, 3]])
    with refused_without_x64("i of type int64"):
        assert_same_bits(graph.compute(indices, X), X[[2, 3]])


# Bytes along an edge.

EDGES_BETWEEN = {
    "wider": (("UINT8", (2, 12)), ("FLOAT32", (3, 2))),
    "narrower": (("FLOAT32", (2, 3)), ("UINT8", (24,))),
    "much wider": (("UINT8", (16,)), ("INT64", (2,))),
    "much narrower": (("UINT64", (3,)), ("INT8", (4, 6))),
    "as wide": (("FLOAT16", (2, 4)), ("INT16", (8,))),
    "other sizes": (("FLOAT16", (2, 4)), ("FLOAT16", (4, 1, 2))),
    "transposed": (("FLOAT32", (2, 3)), ("FLOAT32", (3, 2), (1, 3))),
    "written transposed": (("FLOAT32", (2, 3), (1, 2)), ("FLOAT32", (6,))),
    "both transposed": (("FLOAT32", (2, 3), (1, 2)), ("FLOAT32", (2, 3), (1, 2))),
    "transposed bytes": (("FLOAT32", (2, 3), (1, 2)), ("UINT8", (4, 6), (1, 4))),
    "padded rows": (("UINT16", (2, 3), (5, 1)), ("UINT32", (4,))),
    "of padded rows": (("UINT8", (2, 10)), ("UINT8", (4, 4), (5, 1), 20)),
    "broadcast": (("INT32", (3,)), ("INT32", (2, 3), (0, 1))),
    "broadcast bytes": (("INT64", (2,)), ("UINT16", (2, 8), (0, 1))),
    "overlapping": (("INT16", (6,)), ("INT16", (4, 3), (1, 1))),
    "interleaved": (("UINT8", (2, 3), (4, 3)), ("UINT8", (11,))),
    "three halves in eight bytes": (("FLOAT16", (3,)), ("UINT32", (2,))),
    "eight bytes as three halves": (("UINT32", (2,)), ("FLOAT16", (3,))),
    "five bytes in eight": (("UINT8", (5,)), ("INT64", (1,))),
    "one byte of four": (("INT8", (1,)), ("FLOAT32", (1,))),
    "more bytes than are written": (("INT32", (2,), None, 32), ("FLOAT64", (4,))),
    "fewer than are written": (("FLOAT64", (4,)), ("INT32", (2,), None, 32)),
}


def edge_tensor(data_type, sizes, strides=None, total=None):
    return TensorDesc(data_type, sizes, strides, total_tensor_size_in_bytes=total)


def spanned(data, tensor):
    """The elements of a buffer of bytes that a tensor spans."""
    return data[: tensor.element_span * tensor.dtype.itemsize].view(tensor.dtype)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("ends", EDGES_BETWEEN.values(), ids=EDGES_BETWEEN)
def test_an_edge_is_the_bytes_that_are_written(ends, x64):
    """NumPy's view of them; between and behind the elements that are written there is 0."""
    written, read = (edge_tensor(*end) for end in ends)
    plain = TensorDesc(written.data_type, written.sizes)
    data = np.random.default_rng(5).bytes(plain.element_span * plain.dtype.itemsize)
    source = np.frombuffer(data, plain.dtype)
    buffer = np.zeros(written.total_tensor_size_in_bytes, np.uint8)
    seen(spanned(buffer, written), written)[...] = source.reshape(written.sizes)
    wanted = seen(spanned(buffer, read), read)
    graph = chain(copied(plain, written), copied(read, TensorDesc(read.data_type, read.sizes)))
    made = np.asarray(compile_operator(graph)(source)).view(read.dtype)
    assert_same_bits(made.reshape(read.sizes), wanted)
    as_output = chain(copied(plain, written), outputs={"y": TensorDesc("UINT8", buffer.shape)})
    assert_same_bits(compile_operator(as_output)(source), buffer)


def test_every_half_keeps_its_bits():
    """NaNs that signal and subnormals too, through transposes, bytes and other operators."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    columns = f16(256, 256, strides=(1, 256))
    rows, four = f16(256, 256), f16(1, 4, 128, 128)
    to_space = DepthToSpaceDesc(four, f16(1, 1, 256, 256), 2)
    last = copied(u8(2**17))
    made = compile_operator(chain(copied(rows, columns), to_space, last))(halves)
    pixels = halves.reshape(256, 256).T.reshape(2, 2, 128, 128).transpose(2, 0, 3, 1)
    assert_same_bits(made, np.ascontiguousarray(pixels).view(np.uint8).ravel())


def test_casts_between_nodes_round():
    """XLA may leave out a cast there and back."""
    x = np.float32([1 + 2**-12, 2049, 65519, 65520, 1e-7, -3e-8, np.inf, 1 / 3])
    single, half, whole = (TensorDesc(t, x.shape) for t in ("FLOAT32", "FLOAT16", "INT32"))
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16).astype(np.float32)
    assert_same_bits(chain(CastDesc(single, half), CastDesc(half, single)).compute(x), wanted)
    i = np.int32([2**24 + 1, 2**31 - 65, 16777219, -(2**24) - 3, 5, -1, 0, 2**30 + 1])
    made = chain(CastDesc(whole, single), CastDesc(single, whole)).compute(i)
    assert_same_bits(made, i.astype(np.float32).astype(np.int32))
    with jax.enable_x64(True):
        double, wide = TensorDesc("FLOAT64", x.shape), x.astype(np.float64) + 2**-40
        made = chain(CastDesc(double, single), CastDesc(single, double)).compute(wide)
    assert_same_bits(made, wide.astype(np.float32).astype(np.float64))


def test_casts_of_several_widths_follow_each_other(x64):
    """XLA merges such casts, and failed on some of their shapes."""
    data_types = ["UINT8", "INT64", "INT16", "FLOAT64", "UINT32", "FLOAT16", "UINT64", "INT8"]
    graph = chain(*(copied(TensorDesc(t, (16 // dml_jax.DataType.of(t).itemsize,))) for t in data_types))
    data = np.arange(16, dtype=np.uint8)
    assert np.asarray(compile_operator(graph)(data)).tobytes() == data.tobytes()
