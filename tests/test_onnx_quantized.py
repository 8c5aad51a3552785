"""Quantised operators of ONNX and ONNX Runtime, beside ONNX Runtime."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import sampled
from onnx_building import one_node, onnxruntime, runtime
from onnx_quantized_draws import DRAWS, MICROSOFT, MICROSOFTS, Draw, drawn, model_of, qlinear_conv_of_microsoft

from dml_jax import DataTypeError
from dml_jax.onnx import OnnxError, to_jax
from dml_jax.onnx.operator_table import find_schema

EXACT = {"ConvInteger", "MatMulInteger"}  # sums


def assert_agree(name, actual, wanted):
    actual = np.asarray(actual)
    assert actual.dtype == wanted.dtype
    assert actual.shape == wanted.shape
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5 * max(1, abs(wanted).max(initial=0)))
    elif name in EXACT:
        np.testing.assert_array_equal(actual, wanted)
    else:
        assert abs(actual.astype(int) - wanted.astype(int)).max(initial=0) <= 1


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", sampled(range(30), [0]))
@pytest.mark.parametrize("name", [*DRAWS, *MICROSOFTS])
def test_agrees_with_onnx_runtime(name, seed):
    proto, inputs = drawn(name, seed)
    results = jax.jit(lambda x: to_jax(proto)(**x))(inputs)
    results = results if isinstance(results, tuple) else (results,)
    for actual, wanted in zip(results, runtime(proto, inputs), strict=True):
        assert_agree(name, actual, wanted)


@pytest.mark.parametrize("seed", sampled(range(30), [0, 1]))
def test_convolutions_with_channels_last_agree_with_onnx_runtime(seed):
    """The domain of ONNX Runtime has a QLinearConv of its own."""
    proto, inputs = model_of("QLinearConv", qlinear_conv_of_microsoft(Draw(seed)), MICROSOFT)
    assert_agree("QLinearConv", jax.jit(to_jax(proto))(**inputs), runtime(proto, inputs)[0])


def of_ours(name, inputs, **attributes):
    domain = MICROSOFT if name in MICROSOFTS else ""
    proto, named = one_node(name, inputs, domain=domain, **attributes)
    return np.asarray(jax.jit(to_jax(proto))(**named))


# Programs.

PRODUCTS = [
    *("ConvInteger", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat"),
    *("QAttention", "QGemm", "QLinearConv", "QLinearMatMul"),
]


@pytest.mark.parametrize("name", PRODUCTS)
def test_bytes_are_multiplied_as_int8_on_a_gpu(name):
    """Convolutions too, as XLA:GPU has none of integers in 32 bits: as products of what lies under the filters."""
    proto, inputs = drawn(name, 1)
    text = jax.jit(to_jax(proto)).trace(*inputs.values()).lower(lowering_platforms=("cuda",)).as_text()
    products = re.findall(r"stablehlo\.dot_general.* : (.*)", text)
    if name == "QAttention":  # whose other products are of floats
        products = products[:1]
    assert products
    assert all(re.fullmatch(r"\(tensor<(\d+x)*i8>, tensor<(\d+x)*i8>\) -> tensor<(\d+x)*i32>", one) for one in products)
    assert "stablehlo.convolution" not in text


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["ConvInteger", "MatMulInteger", "QLinearAdd", "QLinearAveragePool", "QLinearConv"])
def test_batches_of_traced_bytes(name):
    proto, inputs = drawn(name, 2)
    first, *others = inputs.values()
    function, data = jax.jit(to_jax(proto)), np.stack([first, first[::-1], first])
    mapped = jax.jit(jax.vmap(lambda x: function(x, *others)))(data)
    np.testing.assert_array_equal(mapped, np.stack([function(x, *others) for x in data]))


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_of_no_examples(groups):
    x, w = np.zeros((0, 2, 5, 4), np.uint8), np.ones((4, 2 // groups, 3, 2), np.uint8)
    assert of_ours("ConvInteger", [x, w], group=groups).shape == (0, 4, 3, 3)


def test_no_derivative_goes_through_a_range():
    proto, inputs = drawn("DynamicQuantizeMatMul", 0)
    first, *others = inputs.values()
    gradient = jax.jit(jax.grad(lambda x: to_jax(proto)(x, *others).sum()))(first)
    np.testing.assert_array_equal(gradient, np.zeros_like(first))


# Forms that ONNX Runtime's CPU provider does not compute.


def real(q, scale, zero_point):
    return (q.astype(np.float64) - zero_point) * scale


def test_scales_of_rows():
    """As 1-D and at the rank of the matrices, of a and of the product."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (2, 3, 4)).astype(np.uint8), rng.integers(-128, 128, (4, 5)).astype(np.int8)
    scale, zero = rng.uniform(0.01, 0.1, (2, 3, 1)).astype(np.float32), rng.integers(0, 256, (2, 3, 1)).astype(np.uint8)
    of_y, of_b = rng.uniform(1, 2, 3).astype(np.float32), np.float32(0.05)
    zero_of_y = np.uint8([100, 120, 140])
    product = real(a, scale, zero) @ real(b, of_b, 3)
    wanted = np.clip(np.round(product / of_y[:, None]) + zero_of_y[:, None], 0, 255)
    actual = of_ours("QLinearMatMul", [a, scale, zero, b, of_b, np.int8(3), of_y, zero_of_y])
    assert actual.dtype == np.uint8
    assert abs(actual - wanted).max() <= 1
    whole = of_ours("MatMulInteger", [a, b, zero[0, :, 0], np.int8(3)])
    np.testing.assert_array_equal(whole, real(a, 1, zero[0]) @ real(b, 1, 3))


def test_products_of_vectors():
    a, b = np.uint8([1, 2, 3]), np.int8([[1, -1], [2, 0], [3, 9]])
    np.testing.assert_array_equal(of_ours("MatMulInteger", [a, b]), [14, 26])
    np.testing.assert_array_equal(of_ours("MatMulInteger", [a, b[:, 0]]), 14)


def test_products_as_float16():
    a, b, scale = np.uint8([[10, 20, 30]]), np.int8([[1], [2], [3]]), np.float16(0.5)
    actual = of_ours("MatMulIntegerToFloat", [a, b, scale, scale, np.uint8(10), None, np.float16([0.25])])
    assert actual.dtype == np.float16
    assert actual.item() == 20.25


@pytest.mark.parametrize("name", ["QLinearAdd", "QLinearMul", "QLinearAveragePool"])
def test_zero_points_that_are_left_out(name):
    """They are 0; ONNX Runtime does not find the types of these operators then."""
    proto, inputs = drawn(name, 3)
    kept = {key: x for key, x in inputs.items() if x.dtype == np.float32 or x.ndim}
    nulls = {key: np.zeros_like(x) for key, x in inputs.items() if key not in kept}
    wanted = jax.jit(to_jax(proto))(**kept, **nulls)
    node = proto.graph.node[0]
    node.input[:] = ["" if one in nulls else one for one in node.input]
    for info in [one for one in proto.graph.input if one.name in nulls]:
        proto.graph.input.remove(info)
    np.testing.assert_array_equal(jax.jit(to_jax(proto))(**kept), wanted)


# Errors.

BYTE, ONE, ZERO = np.ones((2, 3), np.uint8), np.float32(1), np.uint8(0)
PICTURE = np.ones((1, 2, 4), np.uint8)
ONES = np.ones(3, np.float32)
TERM = [BYTE, ONE, ZERO]
BAD = [
    ("MatMulInteger", [BYTE, BYTE], {}, r"the last of a must be the last but one of b, but they are of \(2, 3\)"),
    ("MatMulInteger", [BYTE, BYTE.T, np.zeros(3, np.uint8)], {}, r"a_zero_point must have .*, or be of \(2,\)"),
    ("MatMulInteger", [ZERO, BYTE], {}, "a and b must have a dimension"),
    ("MatMulInteger", [ONE, BYTE], {}, "A of MatMulInteger-10 must be one of"),
    ("QLinearAdd", [*TERM, *TERM, np.ones(2, np.float32)], {}, "c_scale must have one element"),
    (
        "QLinearAdd",
        [*TERM, BYTE.astype(np.int8), ONE, ZERO, ONE],
        {},
        "inputs that share type variable T must have",
    ),
    ("QLinearConcat", [ONE, ZERO, *TERM, BYTE], {"axis": 0}, "inputs must be three for each part"),
    ("QLinearConcat", [ONE, ZERO, BYTE.view(np.int8), ONE, ZERO], {"axis": 0}, "part 0 must be uint8, as y_zero_point"),
    ("QLinearConcat", [ONE, ZERO, *TERM], {"axis": 2}, r"axis must be in \[-2, 1\]"),
    ("QLinearConv", [PICTURE, ONE, ZERO, PICTURE, ONES, ZERO, ONE, ZERO], {}, r"w_scale must .* \(1,\)"),
    ("QLinearConv", [PICTURE, ONE, ZERO, PICTURE, ONE, ZERO, ONE, ZERO], {"group": 3}, "channels must fit group"),
    ("ConvInteger", [PICTURE, PICTURE], {"dilations": [2]}, "the dilated w must fit into the padded x"),
    ("QLinearAveragePool", [PICTURE, ONE, ZERO, ONE, ZERO], {"kernel_shape": [5]}, "every window must fit"),
    ("QLinearSigmoid", [BYTE, ONE, ZERO, ONE, ZERO], {"beta": 1.0}, "beta"),
    ("QGemm", [BYTE, ONE, ZERO, BYTE.T, ONE, ZERO, None, ONE], {}, "y_scale and y_zero_point must be given together"),
    ("QGemm", [PICTURE, ONE, ZERO, BYTE.T, ONE, ZERO], {}, "a and b must have 2 dimensions"),
    ("QGemm", [*TERM, BYTE.T, ONE, ZERO, np.zeros(3, np.int32)], {}, r"c must broadcast to \(2, 2\)"),
    ("DynamicQuantizeMatMul", [BYTE.astype(np.float32), BYTE.T, ONE, None, ONES], {}, "bias must have"),
]


@pytest.mark.parametrize(("name", "inputs", "attributes", "message"), BAD)
def test_bad_inputs(name, inputs, attributes, message):
    with pytest.raises((OnnxError, DataTypeError), match=message):
        of_ours(name, inputs, **attributes)


def test_float8_is_not_multiplied():
    a, one, zero = np.ones((2, 2), jnp.float8_e4m3fn), np.float32(1), np.zeros((), jnp.float8_e4m3fn)
    with pytest.raises(DataTypeError, match="a and b must be int8 or uint8"):
        of_ours("QLinearMatMul", [a, one, zero, a, one, zero, one, zero], opset=21)


# Schemas.

OF_RUNTIME = {
    one.name: one
    for one in onnxruntime.capi.onnxruntime_pybind11_state.get_all_operator_schema()
    if one.domain == MICROSOFT
}


@pytest.mark.parametrize("name", [*MICROSOFTS, "QLinearConv"])
def test_schemas_are_those_of_onnx_runtime(name):
    ours, theirs = find_schema(MICROSOFT, name), OF_RUNTIME[name]
    for own, other in ((ours.inputs, theirs.inputs), (ours.outputs, theirs.outputs)):
        assert [(p.name.lower(), p.type_str, p.option.name) for p in own] == [
            (p.name.lower(), p.typeStr, p.option.name) for p in other
        ]
    assert {name: one.required for name, one in ours.attributes.items()} == {
        name: one.required for name, one in theirs.attributes.items()
    }
    assert {one.type_param_str: set(one.allowed_type_strs) for one in ours.type_constraints} == {
        one.type_param_str: set(one.allowed_type_strs) for one in theirs.type_constraints
    }
