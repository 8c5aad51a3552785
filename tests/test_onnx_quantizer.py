"""Networks that ONNX Runtime's quantiser makes, with QuantizeLinear and DequantizeLinear: equal to its answers."""

import jax
import numpy as np
import pytest
from checks import sampled
from onnx_building import IR_VERSION, helper, model, numpy_helper, onnx, runtime

from dml_jax.bench.onnx_image_networks import random_network
from dml_jax.onnx import to_jax

quantization = pytest.importorskip("onnxruntime.quantization")
make = helper.make_node
TYPES = {"uint8": quantization.QuantType.QUInt8, "int8": quantization.QuantType.QInt8}
# Of the data, of the weights, and whether each channel of these has a scale.
KINDS = [("uint8", "int8", True), ("uint8", "int8", False), ("int8", "int8", True), ("uint8", "uint8", False)]


class Samples(quantization.CalibrationDataReader):
    def __init__(self, name, arrays):
        self.left = [{name: array} for array in arrays]

    def get_next(self):
        return self.left.pop() if self.left else None


def quantised(proto, arrays, folder, data, weights, per_channel):
    """What the quantiser makes of a network that it runs on some arrays."""
    before, after = folder / "before.onnx", folder / "after.onnx"
    onnx.save(proto, before)
    quantization.quantize_static(
        before,
        after,
        Samples(proto.graph.input[0].name, arrays),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=TYPES[data],
        weight_type=TYPES[weights],
        per_channel=per_channel,
    )
    return onnx.load(after)


def step_of(proto):
    """The scale of what the network returns."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    (last,) = (node for node in proto.graph.node if node.output[0] == proto.graph.output[0].name)
    assert last.op_type == "DequantizeLinear"
    return float(constants[last.input[1]])


def pictures_network():
    """Convolutions of which one has groups, pooling, a sum, a layer with a bias and one without."""
    rng = np.random.default_rng(0)
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 2, 3, 3), "b2": (8,), "w3": (6, 8), "b3": (6,), "w4": (6, 5)}
    weights = {name: np.float32(rng.standard_normal(s) / np.sqrt(np.prod(s[1:]))) for name, s in shapes.items()}
    nodes = [
        make("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        make("Relu", ["c1"], ["r1"]),
        make("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        make("Conv", ["p1", "w2", "b2"], ["c2"], group=4, strides=[2, 2]),
        make("Add", ["c2", "c2"], ["a2"]),
        make("Sigmoid", ["a2"], ["s2"]),
        make("GlobalAveragePool", ["s2"], ["g"]),
        make("Flatten", ["g"], ["f"]),
        make("Gemm", ["f", "w3", "b3"], ["h"], transB=1),
        make("MatMul", ["h", "w4"], ["y"]),
    ]
    proto = model(nodes, {"x": np.zeros((2, 3, 16, 16), np.float32)}, ["y"], weights, opset=17)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 5]))
    return proto


@pytest.mark.parametrize("kind", sampled(KINDS, KINDS[:1]), ids=str)
def test_a_network_of_the_quantiser(tmp_path, kind):
    pictures = np.random.default_rng(1).standard_normal((3, 2, 3, 16, 16)).astype(np.float32)
    proto = quantised(pictures_network(), pictures, tmp_path, *kind)
    function = jax.jit(to_jax(proto))
    for picture in pictures:
        (wanted,) = runtime(proto, {"x": picture})
        assert np.unique(wanted).size > 5
        np.testing.assert_allclose(function(picture), wanted, rtol=0, atol=step_of(proto) * 1.01)
    products = [line for line in function.lower(picture).as_text().splitlines() if "dot_general" in line]
    assert len(products) == 4
    assert all("xi32>" in line for line in products)


def without_softmax(name, opset):
    """A network of the onnx package, which ends before its Softmax: of random weights that has one 1, and zeros."""
    proto = random_network(name)
    # Versions that know quantisation; of what these networks have, none says anything else.
    proto.opset_import[0].version, proto.ir_version = opset, IR_VERSION
    graph, weights = proto.graph, {tensor.name for tensor in proto.graph.initializer}
    (data,) = (info for info in graph.input if info.name not in weights)
    last = graph.node.pop()
    assert last.op_type == "Softmax"
    graph.ClearField("input")
    graph.ClearField("output")
    graph.input.append(data)
    graph.output.append(helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, None))
    return proto, data.name


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "opset"), [("squeezenet", 11), ("resnet50", 13), ("shufflenet", 13)])
def test_a_network_of_onnx_that_is_quantised(tmp_path, name, opset):
    """Halves are rounded otherwise in some of up to 50 layers, as by ONNX Runtime's own products of integers."""
    picture = np.random.default_rng(3).standard_normal((1, 3, 224, 224), np.float32)
    proto, data = without_softmax(name, opset)
    proto = quantised(proto, [picture], tmp_path, "uint8", "int8", per_channel=opset >= 13)
    (wanted,) = runtime(proto, {data: picture})
    assert np.unique(wanted).size > 5
    steps = np.rint(abs(jax.jit(to_jax(proto))(picture) - wanted) / step_of(proto))
    assert steps.max() <= 3
    assert (steps <= 1).mean() > 0.95
