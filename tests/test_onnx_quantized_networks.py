"""Networks that ONNX Runtime's quantiser makes, and those of a package: they equal its answers within a step."""

from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

import jax
import numpy as np
import pytest
from checks import sampled
from onnx_building import helper, numpy_helper, onnx, runtime

from dml_jax.bench.onnx_image_networks import NETWORKS, random_network
from dml_jax.onnx import to_jax

quantization = pytest.importorskip("onnxruntime.quantization")
INT8, UINT8 = quantization.QuantType.QInt8, quantization.QuantType.QUInt8


class Samples(quantization.CalibrationDataReader):
    """The inputs by which the quantiser finds ranges."""

    def __init__(self, inputs):
        self.left = list(inputs)

    def get_next(self):
        return self.left.pop() if self.left else None


def small_network():
    """Every operator that the quantiser has one of integers for, in two branches."""
    rng = np.random.default_rng(0)
    weights = {
        "w0": (8, 3, 3, 3),
        "w1": (8, 1, 3, 3),  # a filter for each channel
        "w2": (6, 8, 1, 1),
        "w3": (12, 10),
        "w4": (10, 7),
        "b0": (8,),
        "b3": (10,),
    }
    arrays = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in weights.items()}
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 1]),
        node("LeakyRelu", ["c0"], ["r0"], alpha=0.1),
        node("MaxPool", ["r0"], ["p0"], kernel_shape=[2, 2], strides=[1, 2]),
        node("Conv", ["p0", "w1"], ["c1"], group=8, pads=[1, 1, 1, 1]),
        node("Sigmoid", ["c1"], ["s1"]),
        node("Mul", ["c1", "s1"], ["m1"]),
        node("Add", ["m1", "p0"], ["a1"]),
        node("AveragePool", ["a1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]),
        node("Conv", ["p1", "w2"], ["c2"]),
        node("Relu", ["c2"], ["r2"]),
        node("Concat", ["r2", "c2"], ["k"], axis=1),
        node("GlobalAveragePool", ["k"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["h"]),
        node("MatMul", ["h", "w4"], ["o"]),
        node("Softmax", ["o"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "small",
        [info("x", onnx.TensorProto.FLOAT, ["n", 3, 16, 20])],
        [info("y", onnx.TensorProto.FLOAT, ["n", 7])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def quantised(proto, folder, inputs, *, dynamic=False, weight=INT8, data=UINT8, **options):
    before, after = (str(folder / name) for name in ("before.onnx", "after.onnx"))
    # Weights of 7 bits: of 8, ONNX Runtime saturates sums of two products on CPUs without VNNI.
    options["reduce_range"] = weight == INT8
    onnx.save(onnx.shape_inference.infer_shapes(proto), before)
    if dynamic:
        quantization.quantize_dynamic(before, after, weight_type=weight, **options)
    else:
        quantization.quantize_static(
            before,
            after,
            Samples(inputs),
            quant_format=quantization.QuantFormat.QOperator,
            weight_type=weight,
            activation_type=data,
            **options,
        )
    return onnx.load(after)


def assert_within_a_step(proto, inputs, of=np.max):
    """The greatest difference, or the mean one, is within a step of the integers that the outputs are made of; of
    floats, of 255 in their range."""
    scales = {one.name: numpy_helper.to_array(one) for one in proto.graph.initializer}
    made = {name: node for node in proto.graph.node for name in node.output}
    results = jax.jit(lambda x: to_jax(proto)(**x))(inputs)
    for name, result, wanted in zip(
        [one.name for one in proto.graph.output],
        results if isinstance(results, tuple) else (results,),
        runtime(proto, inputs),
        strict=True,
    ):
        node = made[name]
        is_integer = node.op_type == "DequantizeLinear"
        step = float(scales[node.input[1]]) if is_integer else np.ptp(wanted) / 255
        assert step > 0
        assert result.shape == wanted.shape
        assert of(np.abs(result - wanted)) <= 1.001 * step


WAYS = {
    "dynamic": {"dynamic": True},
    "dynamic uint8": {"dynamic": True, "weight": UINT8},
    "dynamic channels": {"dynamic": True, "per_channel": True},
    "static": {},
    "static uint8": {"weight": UINT8},
    "static channels": {"per_channel": True},
    "static int8": {"data": INT8, "per_channel": True},
}


@pytest.mark.parametrize("way", sampled(WAYS, ["static channels"]))
def test_a_small_network(way, tmp_path):
    rng = np.random.default_rng(1)
    samples = [{"x": rng.normal(0, 1, (2, 3, 16, 20)).astype(np.float32)} for _ in range(4)]
    proto = quantised(small_network(), tmp_path, samples, **WAYS[way])
    assert_within_a_step(proto, {"x": rng.normal(0, 1, (3, 3, 16, 20)).astype(np.float32)})


# Each network in one way, and one of them in every way.
PAIRS = {*zip(NETWORKS, cycle(WAYS), strict=False), *(("squeezenet", way) for way in WAYS)}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "way"), sorted(PAIRS))
def test_networks_with_random_weights(name, way, tmp_path):
    proto = random_network(name)
    proto.ir_version = 10  # the converter of opsets does not find initializers of older ones
    last = proto.graph.node[-1]
    if last.op_type == "Softmax":  # which makes more of a step than one
        proto.graph.output[0].name = last.input[0]
        del proto.graph.node[-1]
    (x,) = to_jax(proto).inputs
    picture = {x.name: np.random.default_rng(3).standard_normal((1, 3, 224, 224), np.float32)}
    # A half that is rounded to the other side becomes more in the layers behind, of 50 and more with random weights.
    assert_within_a_step(quantised(proto, tmp_path, [picture], **WAYS[way]), picture, of=np.mean)


MODELS = ["bilstm.int8", "rawi.int8", "rawi_ensemble.int8", "rawi_v2.int8", "rawi_v3.int8"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("sizes", [(1, 20), (3, 7)])
def test_a_network_of_a_package(name, sizes):
    """Letters of Arabic and their vowels: `pip install --no-deps text2tashkeel`."""
    spec = find_spec("text2tashkeel")
    path = Path(str(spec.origin)).parent / "models" / f"{name}.onnx" if spec else Path()
    if not path.is_file():
        pytest.skip(f"text2tashkeel with {name}.onnx is not installed")
    (ids,) = to_jax(path).inputs
    letters = {ids.name: np.random.default_rng(0).integers(1, 30, sizes)}
    function = to_jax(path, int32=[ids.name])
    results = jax.jit(lambda x: function(**x))({ids.name: letters[ids.name].astype(np.int32)})
    for result, wanted in zip(
        results if isinstance(results, tuple) else (results,), runtime(onnx.load(path), letters), strict=True
    ):
        assert result.shape == wanted.shape
        # A step of what one layer gives the next.
        np.testing.assert_allclose(result, wanted, rtol=0, atol=np.ptp(wanted) / 255)
