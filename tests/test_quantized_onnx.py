"""The structs of quantised numbers beside ONNX's own cases of the same operators, and beside ONNX Runtime."""

import numpy as np
import pytest
from checks import assert_same_bits
from onnx_building import declared, helper, numpy_helper, one_node, onnx, runtime
from onnx_cases import all_cases, as_array

from dml_jax import TensorDesc
from dml_jax.descs import (
    ConvolutionIntegerDesc,
    DequantizeDesc,
    DynamicQuantizeLinearDesc,
    ElementWiseQuantizedLinearAddDesc,
    MatrixMultiplyIntegerDesc,
    MatrixMultiplyIntegerToFloatDesc,
    QuantizeDesc,
    QuantizedLinearAveragePoolingDesc,
    QuantizedLinearConvolutionDesc,
    QuantizedLinearMatrixMultiplyDesc,
)


def tensor(array):
    return None if array is None else TensorDesc(array.dtype, array.shape)


def computed(struct, inputs, output, *attributes):
    """What a struct makes of arrays, None among them for what is left out, as an array like another."""
    desc = struct(*map(tensor, inputs), tensor(output), *attributes)
    return np.asarray(desc.compute(*(one for one in inputs if one is not None)))


def assert_near(actual, expected):
    """Integers that differ by 1 at most, at halves: both round in float32, in another order."""
    assert actual.dtype == expected.dtype
    assert abs(actual.astype(int) - expected.astype(int)).max() <= 1
    assert (actual == expected).mean() > 0.9


def of_runtime(kind, inputs, domain="", opset=20, **attributes):
    """The output of a node by ONNX Runtime."""
    proto, named = one_node(kind, inputs, domain=domain, opset=opset, **attributes)
    return runtime(proto, named)[0]


def one(value, dtype=np.float32):
    return np.array([value], dtype)


# ONNX's own cases.


def case(name):
    """The attributes, the inputs and the outputs of a node case."""
    found = all_cases()[name]
    (node,) = found.model.graph.node
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    inputs, outputs = ([as_array(array) for array in arrays] for arrays in found.data_sets[0])
    return attributes, inputs, outputs


def ranked(parameter, rank, axis, sizes):
    """A scale or a zero point at the rank of what it is of: of one number, one per element of an axis, or by blocks."""
    if parameter.ndim == rank:
        return parameter
    shape = [1] * rank
    if parameter.size > 1:
        shape[axis] = sizes[axis]
    return parameter.reshape(shape)


CASES = {
    "test_quantizelinear": QuantizeDesc,
    "test_quantizelinear_axis": QuantizeDesc,
    "test_quantizelinear_blocked_asymmetric": QuantizeDesc,
    "test_quantizelinear_int4": QuantizeDesc,
    "test_quantizelinear_uint4": QuantizeDesc,
    "test_dequantizelinear": DequantizeDesc,
    "test_dequantizelinear_axis": DequantizeDesc,
    "test_dequantizelinear_blocked": DequantizeDesc,
    "test_dequantizelinear_int4": DequantizeDesc,
    "test_dequantizelinear_uint4": DequantizeDesc,
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_onnx_cases_of_scales(name):
    attributes, (x, *parameters), (wanted,) = case(name)
    given = [ranked(one, x.ndim, attributes.get("axis", 1), x.shape) for one in parameters]
    desc = CASES[name](tensor(x), len(given), list(map(tensor, given)), tensor(wanted))
    assert_same_bits(np.asarray(desc.compute(x, *given)), wanted)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["", "_max_adjusted", "_min_adjusted"])
def test_onnx_cases_of_ranges(name):
    _, (x,), (wanted, scale, zero_point) = case(f"test_dynamicquantizelinear{name}")
    rank = (1,) * x.ndim
    real, byte = TensorDesc("FLOAT32", rank), TensorDesc("UINT8", rank)
    made = DynamicQuantizeLinearDesc(tensor(x), tensor(wanted), real, byte).compute(x)
    for actual, of_onnx in zip(made, (wanted, scale.reshape(rank), zero_point.reshape(rank)), strict=True):
        np.testing.assert_allclose(np.asarray(actual, np.float64), of_onnx, rtol=1e-6)


# ONNX Runtime.


@pytest.mark.parametrize("bits", [4, 8])
def test_blocks(bits):
    """Of UINT4 and UINT8, along the last dimension."""
    rng = np.random.default_rng(bits)
    kind = onnx.TensorProto.UINT4 if bits == 4 else onnx.TensorProto.UINT8
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    q, zero_point = (rng.integers(0, 2**bits, sizes).astype(dtype) for sizes in ((3, 8), (3, 2)))
    scale = rng.random((3, 2)).astype(np.float32)
    node = helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], axis=1, block_size=4)
    graph = helper.make_graph(
        [node],
        "graph",
        [declared("scale", scale)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(array, name) for name, array in (("q", q), ("zero", zero_point))],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (wanted,) = runtime(proto, {"scale": scale})
    desc = DequantizeDesc(tensor(q), "SCALE_ZERO_POINT", [tensor(scale), tensor(zero_point)], tensor(wanted))
    assert_same_bits(np.asarray(desc.compute(q, scale, zero_point)), wanted)


def test_sums():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 256, (2, 6, 50)).astype(np.uint8)
    inputs = (a, one(0.05), one(128, np.uint8), b, one(0.11), one(77, np.uint8), one(0.13), one(99, np.uint8))
    wanted = of_runtime("QLinearAdd", [x[0] if x.size == 1 else x for x in inputs], "com.microsoft")
    assert_near(computed(ElementWiseQuantizedLinearAddDesc, inputs, wanted), wanted)


@pytest.mark.parametrize("of_b", [np.uint8, np.int8])
def test_products(of_b):
    rng = np.random.default_rng(2)
    a = rng.integers(0, 256, (7, 40)).astype(np.uint8)
    b = rng.integers(np.iinfo(of_b).min, np.iinfo(of_b).max + 1, (40, 5)).astype(of_b)
    a_zero, b_zero = one(120, np.uint8), one(3, of_b)
    whole = (a.astype(np.int32) - 120) @ (b.astype(np.int32) - 3)
    assert_same_bits(computed(MatrixMultiplyIntegerDesc, (a, a_zero, b, b_zero), whole), whole)
    if of_b == np.int8:
        b //= 2  # 7 bits: of more, ONNX Runtime saturates sums of two products on CPUs without VNNI
    scales = one(0.02), (rng.random((1, 5)) / 9).astype(np.float32), one(1.7)
    inputs = (a, scales[0], a_zero, b, scales[1], np.full((1, 5), 3, of_b), scales[2], one(90, np.uint8))
    wanted = of_runtime("QLinearMatMul", [x[0] if x.size == 1 else x.ravel() if x.shape[0] == 1 else x for x in inputs])
    assert_near(computed(QuantizedLinearMatrixMultiplyDesc, inputs, wanted), wanted)


def test_products_as_floats():
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 256, sizes).astype(np.uint8) for sizes in ((7, 40), (40, 5)))
    scale, bias = (rng.random((1, 5)) / 9).astype(np.float32), rng.random(5).astype(np.float32)
    zeros = one(120, np.uint8), one(3, np.uint8)
    given = [a, b, np.float32(0.02), scale.ravel(), zeros[0][0], np.full(5, 3, np.uint8), bias]
    wanted = of_runtime("MatMulIntegerToFloat", given, "com.microsoft")
    inputs = (a, one(0.02), zeros[0], b, scale, zeros[1], np.broadcast_to(bias, wanted.shape))
    actual = computed(MatrixMultiplyIntegerToFloatDesc, inputs, wanted)
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-4)


def test_convolutions():
    rng = np.random.default_rng(4)
    x, w = (rng.integers(0, 256, sizes).astype(np.uint8) for sizes in ((2, 4, 9, 8), (6, 2, 3, 2)))
    attributes = {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 2, 3], "group": 2}
    windows = ((2, 1), (1, 2), (1, 0), (2, 3), 2)
    x_zero, w_zero = one(120, np.uint8), one(130, np.uint8)
    whole = of_runtime("ConvInteger", [x, w, x_zero[0], w_zero[0]], **attributes)
    assert_same_bits(computed(ConvolutionIntegerDesc, (x, x_zero, w, w_zero), whole, *windows), whole)
    of_filters = (rng.random(6) / 9 + 0.01).astype(np.float32)
    bias, scales = rng.integers(-9999, 9999, 6).astype(np.int32), (one(0.02), one(3.3))
    given = [x, scales[0][0], x_zero[0], w, of_filters, np.full(6, 130, np.uint8), scales[1][0], np.uint8(90), bias]
    wanted = of_runtime("QLinearConv", given, **attributes)
    inputs = (
        *(x, scales[0], x_zero, w, of_filters.reshape(1, 6, 1, 1), w_zero, bias.reshape(1, 6, 1, 1)),
        *(scales[1], one(90, np.uint8)),
    )
    assert_near(computed(QuantizedLinearConvolutionDesc, inputs, wanted, *windows), wanted)


@pytest.mark.parametrize("include", [False, True])
def test_means(include):
    x = np.random.default_rng(5).integers(0, 256, (2, 3, 9, 8)).astype(np.uint8)
    inputs = (x, one(0.02), one(120, np.uint8), one(0.015), one(90, np.uint8))
    attributes = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "count_include_pad": int(include)}
    given = [array if array.size > 1 else array[0] for array in inputs]
    wanted = of_runtime("QLinearAveragePool", given, "com.microsoft", **attributes)
    windows = ((2, 1), (3, 2), (1, 0), (1, 1), (1, 1), include)
    assert_near(computed(QuantizedLinearAveragePoolingDesc, inputs, wanted, *windows), wanted)
