"""QuantizeLinear and DequantizeLinear, ONNX's and ONNX Runtime's, beside ONNX Runtime: random calls, and bad ones."""

import jax
import ml_dtypes
import numpy as np
import pytest
from checks import sampled, together
from onnx_building import TensorProto, assert_same_values, helper, model, one_node, runtime

from dml_jax.onnx import OnnxError, run_node, to_jax

KINDS = ("QuantizeLinear", "DequantizeLinear")
# Types of quantised numbers, by the version that takes them first; ONNX Runtime has no float4.
SINCE = {
    10: "int8 uint8",
    19: "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz",
    21: "int16 uint16 int4 uint4",
    25: "int2 uint2",
}
OF_RUNTIME = "int8 uint8 int16 uint16 int4 uint4"


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def draw(rng, kind, domain):
    """A random call: the arrays, the opset and the attributes."""
    opset = 21 if domain else int(rng.choice([10, 13, 19, 21, 23, 25]))
    names = OF_RUNTIME if domain else " ".join(text for since, text in SINCE.items() if since <= opset)
    dtype = dtype_of(rng.choice(names.split()))
    is_wide = opset < 19 or rng.random() < 0.6
    real = np.dtype(np.float32 if is_wide else np.float16)
    shape = tuple(rng.integers(1, 7, int(rng.integers(1, 5))))
    axis = int(rng.integers(-len(shape), len(shape)))
    sizes, attributes = parameter_sizes(rng, opset, domain, shape, axis)
    scale = np.asarray(rng.uniform(0.01, 2, sizes)).astype(real)
    if rng.random() < 0.3:  # so that there are halves
        scale = np.exp2(np.round(np.log2(scale))).astype(real)
    is_integer = "int" in dtype.name
    limits = ml_dtypes.iinfo(dtype) if is_integer else ml_dtypes.finfo(dtype)
    low, high = (int(limits.min), int(limits.max)) if is_integer else (-440, 440)
    zero_point = np.asarray(rng.integers(low, high + 1, sizes) if is_integer else np.zeros(sizes)).astype(dtype)
    if kind == "DequantizeLinear":
        x = rng.integers(low, high + 1, shape).astype(dtype)
        if opset >= 23 and rng.random() < 0.3:
            attributes["output_dtype"] = TensorProto.FLOAT16
    else:
        x = np.round(rng.uniform(low - high, high - low, shape) * 2).clip(-60000, 60000).astype(real) / real.type(2)
        if opset >= 23 and rng.random() < 0.4:
            attributes["precision"] = int(rng.choice([TensorProto.FLOAT, TensorProto.FLOAT16]))
        if opset >= 21 and not domain and rng.random() < 0.3:
            attributes["output_dtype"] = int(helper.np_dtype_to_tensor_dtype(dtype))
            return [x, scale], opset, attributes
    return [x, scale, zero_point][: 3 if kind == "QuantizeLinear" or rng.random() < 0.7 else 2], opset, attributes


def parameter_sizes(rng, opset, domain, shape, axis):
    """The sizes of a scale: one number, with a dimension or without, one per element of an axis, or one per block."""
    form = rng.choice(["scalar", "one", "axis", "block"])
    if form in ("scalar", "one") or opset == 10:
        return () if form == "scalar" else (1,), {}
    if form == "axis" or opset < 21 or domain or shape[axis] == np.prod(shape):
        return (shape[axis],), {"axis": axis}
    block = int(rng.integers(1, 4))
    sizes = list(shape)
    sizes[axis] = -(-shape[axis] // block)
    return tuple(sizes), {"axis": axis, "block_size": block}


def built(kind, arrays, opset, domain, attributes):
    """A model of the node, and its inputs; what ONNX Runtime's Python has no name for is an initializer, or cast."""
    given = {f"x{i}": np.asarray(array) for i, array in enumerate(arrays)}
    outside = {name: array for name, array in given.items() if array.dtype.isbuiltin == 1}
    inside = {name: array for name, array in given.items() if name not in outside}
    nodes = [helper.make_node(kind, list(given), ["y"], domain=domain, **attributes)]
    if kind == "QuantizeLinear":
        nodes.append(helper.make_node("Cast", ["y"], ["wide"], to=TensorProto.FLOAT))
    return model(nodes, outside, [nodes[-1].output[0]], inside, opset=opset), outside


OPERATORS = [(kind, domain) for kind in KINDS for domain in ("", "com.microsoft")]


@pytest.mark.parametrize("seed", sampled([0, 1, 2, 3, 4, 5], [0]))
def test_random_calls(seed):
    rng = np.random.default_rng(seed)
    drawn = [(kind, *draw(rng, kind, domain), domain) for kind, domain in OPERATORS for _ in range(10)]
    models = [built(kind, arrays, opset, domain, attributes) for kind, arrays, opset, attributes, domain in drawn]
    results = together((to_jax(proto), *inputs.values()) for proto, inputs in models)
    for result, (proto, inputs) in zip(results, models, strict=True):
        assert_same_values(result, runtime(proto, inputs)[0])


def test_infinities_saturate_and_a_nan_of_a_float8_stays():
    x = np.float32([np.inf, -np.inf, 1e30, -1e30, 300, -300])
    for dtype in map(dtype_of, ("uint8", "int8", "float8_e5m2", "float8_e4m3fn")):
        proto, inputs = built("QuantizeLinear", [x, np.float32(1), np.zeros((), dtype)], 21, "", {})
        assert_same_values(jax.jit(to_jax(proto))(**inputs), runtime(proto, inputs)[0])
    proto, inputs = built("QuantizeLinear", [np.float32([np.nan]), np.float32(1), np.zeros((), dtype)], 21, "", {})
    assert np.isnan(to_jax(proto)(**inputs)).all()


def test_a_block_may_be_longer_than_its_dimension_by_far():
    """It has one scale, which is not repeated for the elements that there are not: 4 TiB."""
    q, scale = np.int8([[1, 2, 3], [4, 5, 6]]), np.float32([[2], [3]])
    proto, inputs = built("DequantizeLinear", [q, scale], 21, "", {"axis": 1, "block_size": 2**40})
    assert_same_values(to_jax(proto)(**inputs), q * scale)
    blocks = {"axis": 0, "block_size": 2**40}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale"], ["b"], **blocks),
        helper.make_node("MatMul", "ab", "y"),
    ]
    constants = {"q": q, "scale": np.float32([[2, 3, 4]])}
    proto = model(nodes, {"a": np.float32([[1, 10]])}, ["y"], constants, opset=21)
    assert_same_values(to_jax(proto)(np.float32([[1, 10]])), np.float32([[82, 156, 252]]))


def test_integers_are_quantized():
    """ONNX Runtime has none: round(x / scale) + zero_point, where x is near 2**31, in float64."""
    x = np.int32([0, 5, -7, 2**31 - 1, -(2**31), 2**30])
    scale, zero_point = np.float32(2**24), np.int8(3)
    wanted = np.clip(np.rint(x / np.float64(scale)) + zero_point, -128, 127).astype(np.int8)
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero_point"], ["y"])
    for opset in (10, 13, 23):
        assert_same_values(run_node(node, [x, scale, zero_point], opset=opset)[0], wanted)


X, ONE, PAIR = np.zeros((2, 3), np.float32), np.float32(1), np.ones(2, np.float32)
Q, BLOCKS = np.zeros((2, 3), np.uint8), np.ones((2, 2), np.float32)
BAD = [
    ("QuantizeLinear", [X, PAIR], {"axis": 1}, "scale must have 1 or 3 elements along axis 1"),
    ("QuantizeLinear", [X, PAIR, np.zeros(3, np.uint8)], {"axis": 0}, "zero point must have the sizes of the scale"),
    ("QuantizeLinear", [X, PAIR], {"axis": 2}, "axis must be in"),
    ("QuantizeLinear", [X, BLOCKS], {"axis": 1, "block_size": 1}, r"scale of blocks of 1 must be of \[2, 3\]"),
    ("QuantizeLinear", [X, BLOCKS], {"axis": 1, "block_size": -1}, "block_size must be at least 0"),
    ("QuantizeLinear", [X, ONE, np.uint8(0)], {"output_dtype": TensorProto.INT8}, "output_dtype must be that of"),
    ("QuantizeLinear", [X, ONE, np.int32(0)], {}, "y_zero_point of QuantizeLinear-21 must be one of"),
    ("QuantizeLinear", [X, ONE], {"blocks": 2}, "the attributes of QuantizeLinear-21 must be among"),
    ("DequantizeLinear", [Q, PAIR], {"axis": 1}, "scale must have 1 or 3 elements along axis 1"),
    ("DequantizeLinear", [Q, ONE, np.int8(0)], {}, "inputs that share type variable T1 must have the same type"),
    ("DequantizeLinear", [X, ONE], {}, "x of DequantizeLinear-21 must be one of"),
]


@pytest.mark.parametrize(("kind", "arrays", "attributes", "message"), BAD)
def test_bad_calls(kind, arrays, attributes, message):
    """ONNX Runtime refuses all of them, too."""
    proto, inputs = one_node(kind, arrays, opset=21, **attributes)
    with pytest.raises((OnnxError, TypeError), match=message):
        to_jax(proto)(**inputs)
    with pytest.raises(Exception, match=r"ONNXRuntimeError|Fail|invalid"):
        runtime(proto, inputs)


@pytest.mark.parametrize(("kind", "attribute"), [("QuantizeLinear", "precision"), ("DequantizeLinear", "output_dtype")])
def test_floats_that_are_asked_for(kind, attribute):
    proto, inputs = one_node(
        kind, [X if kind == "QuantizeLinear" else Q, ONE], opset=23, **{attribute: TensorProto.INT8}
    )
    with pytest.raises(OnnxError, match=f"{attribute} must be one of float32, float16, bfloat16"):
        to_jax(proto)(**inputs)
