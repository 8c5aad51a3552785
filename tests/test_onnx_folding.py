"""Quantised networks: operators between DequantizeLinear and QuantizeLinear compute in integers."""

import re

import jax
import ml_dtypes
import numpy as np
import pytest
from checks import assert_same_bits, sampled, together
from onnx_building import helper, model, numpy_helper, runtime

from dml_jax.onnx import OnnxError, to_jax
from dml_jax.onnx.folding import FOLDED

make = helper.make_node
BYTES = (np.uint8, np.int8)
INTEGER_PRODUCT = re.compile(r"dot_general.*xi8>.*xi8>\) -> tensor<.*xi32>")
FLOAT_PRODUCT = re.compile(r"(dot_general|convolution).*-> tensor<.*xf32>")


def lowered(function, inputs):
    return jax.jit(function).lower(*inputs.values()).as_text()


class Network:
    """A network that grows: nodes, inputs and initializers."""

    def __init__(self, rng=None):
        self.rng = rng or np.random.default_rng(0)
        self.nodes, self.inputs, self.constants = [], {}, {}

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def scale(self, dtype, shape=(), low=0.001, high=0.1):
        """The names of a random scale and zero point."""
        limits = np.iinfo(dtype)
        zero_point = self.rng.integers(limits.min, int(limits.max) + 1, shape)
        return self.constant(np.float32(self.rng.uniform(low, high, shape))), self.constant(zero_point.astype(dtype))

    def dequantized(self, shape, dtype, *, is_weight, axis=None, scale=None):
        """The name of floats that are made of random integers, with one scale or one for each element of an axis."""
        limits = np.iinfo(dtype)
        q = self.rng.integers(limits.min, int(limits.max) + 1, shape).astype(dtype)
        name = f"{'w' if is_weight else 'x'}{len(self.nodes)}"
        (self.constants if is_weight else self.inputs)[f"{name}_q"] = q
        scale = scale or self.scale(dtype, () if axis is None else (shape[axis],))
        self.nodes.append(make("DequantizeLinear", [f"{name}_q", *scale], [name], axis=1 if axis is None else axis))
        return name

    def bias(self, count):
        """The name of floats that are made of int32, as quantisers write a bias."""
        self.constants["b_q"] = self.rng.integers(-3000, 3000, count).astype(np.int32)
        scale = self.constant(np.float32(self.rng.uniform(1e-4, 1e-3, count)))
        self.nodes.append(make("DequantizeLinear", ["b_q", scale], ["b"], axis=0))
        return "b"

    def node(self, kind, *inputs, **attributes):
        name = f"y{len(self.nodes)}"
        self.nodes.append(make(kind, inputs, [name], **attributes))
        return name

    def model(self, *outputs):
        return model(self.nodes, self.inputs, outputs, self.constants, opset=21)


# Products.


def matmul(network, a, b):
    rng = network.rng
    m, k, n = (int(size) for size in rng.integers(1, 12, 3))
    batch = [(), (2,), (3, 2)][int(rng.integers(3))]
    x = network.dequantized((*batch, m, k), a, is_weight=False, axis=[None, len(batch)][int(rng.integers(2))])
    shared = batch if rng.random() < 0.5 else ()
    w = network.dequantized((*shared, k, n), b, is_weight=True, axis=[None, len(shared) + 1][int(rng.integers(2))])
    return network.node("MatMul", x, w)


def gemm(network, a, b):
    rng = network.rng
    m, k, n = (int(size) for size in rng.integers(1, 12, 3))
    trans_a, trans_b = (int(flag) for flag in rng.integers(0, 2, 2))
    x = network.dequantized((k, m) if trans_a else (m, k), a, is_weight=False)
    along = 0 if trans_b else 1
    w = network.dequantized((n, k) if trans_b else (k, n), b, is_weight=True, axis=[None, along][int(rng.integers(2))])
    bias = [network.bias(n)] if rng.random() < 0.7 else []
    factors = {"alpha": 0.5, "beta": 2.0} if rng.random() < 0.3 else {}
    return network.node("Gemm", x, w, *bias, transA=trans_a, transB=trans_b, **factors)


def conv(network, a, b):
    rng = network.rng
    rank, groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    channels, filters = groups * int(rng.integers(2, 4)), groups * int(rng.integers(1, 4))
    kernel = [int(n) for n in rng.integers(1, 4, rank)]
    x = network.dequantized((2, channels, *rng.integers(5, 8, rank)), a, is_weight=False)
    shape = (filters, channels // groups, *kernel)
    w = network.dequantized(shape, b, is_weight=True, axis=[None, 0][int(rng.integers(2))])
    bias = [network.bias(filters)] if rng.random() < 0.7 else []
    attributes = {
        "group": groups,
        "pads": [int(n) for n in rng.integers(0, 3, 2 * rank)],
        "strides": [int(n) for n in rng.integers(1, 3, rank)],
        "dilations": [int(n) for n in rng.integers(1, 3, rank)],
    }
    return network.node("Conv", x, w, *bias, **attributes)


def product(build, rng):
    """A network of one product, and what is quantised of it; ONNX Runtime's answers."""
    network = Network(rng)
    a, b = (BYTES[int(i)] for i in rng.integers(0, 2, 2))
    y = build(network, a, b)
    proto = network.model(y)
    wanted = runtime(proto, network.inputs)[0]
    dtype = BYTES[int(rng.integers(2))]
    step = np.float32(np.abs(wanted).max() / 120 + 1e-6)
    zero_point = np.asarray(rng.integers(0, 9)).astype(dtype)
    q = network.node("QuantizeLinear", y, network.constant(step), network.constant(zero_point))
    proto = network.model(y, q)
    return proto, network.inputs, runtime(proto, network.inputs)


@pytest.mark.parametrize("seed", sampled(range(5), [0]))
@pytest.mark.parametrize("build", [matmul, gemm, conv])
def test_products_are_products_of_integers(build, seed):
    """Floats as near as sums of floats are, integers within 1, which halves may differ by."""
    rng = np.random.default_rng(seed)
    cases = [product(build, rng) for _ in range(6)]
    results = together((to_jax(proto), *inputs.values()) for proto, inputs, _ in cases)
    for (y, q), (proto, inputs, (floats, integers)) in zip(results, cases, strict=True):
        np.testing.assert_allclose(y, floats, rtol=1e-5, atol=1e-6 * np.abs(floats).max())
        assert q.dtype == integers.dtype
        off = np.abs(q.astype(int) - integers)
        assert off.max() <= 1
        assert off.mean() < 0.05
        text = lowered(to_jax(proto), inputs)
        assert INTEGER_PRODUCT.search(text)
        assert not FLOAT_PRODUCT.search(text)


def test_a_gpu_multiplies_int8():
    network = Network()
    matmul(network, np.uint8, np.int8)
    function = to_jax(network.model(network.nodes[-1].output[0]))
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in network.inputs.values()]
    text = jax.export.export(jax.jit(function), platforms=["cuda"])(*shapes).mlir_module()
    assert INTEGER_PRODUCT.search(text)


def along_the_sum(network):
    x = network.dequantized((2, 3), np.uint8, is_weight=False)
    return network.node("MatMul", x, network.dequantized((3, 4), np.int8, is_weight=True, axis=0))


def of_16_bits(network):
    x = network.dequantized((2, 3), np.uint16, is_weight=False)
    return network.node("MatMul", x, network.dequantized((3, 4), np.int8, is_weight=True))


def long(network):
    """Whose sums may leave int32."""
    x = network.dequantized((1, 40000), np.uint8, is_weight=False)
    return network.node("MatMul", x, network.dequantized((40000, 1), np.int8, is_weight=True))


def by_input_channel(network):
    x = network.dequantized((1, 2, 5, 5), np.uint8, is_weight=False)
    return network.node("Conv", x, network.dequantized((3, 2, 2, 2), np.int8, is_weight=True, axis=1))


def depthwise(network):
    x = network.dequantized((1, 2, 5, 5), np.uint8, is_weight=False)
    return network.node("Conv", x, network.dequantized((4, 1, 2, 2), np.int8, is_weight=True), group=2)


def with_floats(network):
    x = network.dequantized((2, 3), np.uint8, is_weight=False)
    return network.node("MatMul", x, network.constant(np.float32(network.rng.standard_normal((3, 4)))))


def with_a_vector(network):
    x = network.dequantized((3,), np.uint8, is_weight=False)
    return network.node("MatMul", x, network.dequantized((3, 4), np.int8, is_weight=True))


IN_FLOATS = (along_the_sum, of_16_bits, long, by_input_channel, depthwise, with_floats, with_a_vector)


@pytest.mark.parametrize("build", IN_FLOATS)
def test_what_is_not_folded_is_computed_in_floats(build):
    network = Network()
    proto = network.model(build(network))
    function = to_jax(proto)
    (wanted,) = runtime(proto, network.inputs)
    np.testing.assert_allclose(function(*network.inputs.values()), wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
    assert FLOAT_PRODUCT.search(lowered(function, network.inputs))


def test_errors_name_the_product():
    network = Network()
    x = network.dequantized((2, 3), np.uint8, is_weight=False)
    w = network.dequantized((4, 5), np.int8, is_weight=True)
    network.nodes.append(make("Gemm", [x, w], ["y"], name="dense"))
    with pytest.raises(OnnxError, match="Gemm node 'dense'"):
        to_jax(network.model("y"))(*network.inputs.values())


# Movement.

SHAPE = (1, 4, 4, 2)
MOVES = {
    "Concat": ([], {"axis": 1}),
    "DepthToSpace": ([], {"blocksize": 2}),
    "Expand": ([np.array([3, 1, 1, 1])], {}),
    "Flatten": ([], {}),
    "Gather": ([np.array([2, 0, -1])], {"axis": 2}),
    "GatherElements": ([np.zeros((1, 2, 4, 2), np.int64)], {"axis": 1}),
    "GatherND": ([np.array([[0, 1], [0, 3]])], {}),
    "GlobalMaxPool": ([], {}),
    "Identity": ([], {}),
    "MaxPool": ([], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    "Reshape": ([np.array([8, -1])], {}),
    "Slice": ([np.array([3]), np.array([0]), np.array([1]), np.array([-1])], {}),
    "SpaceToDepth": ([], {"blocksize": 2}),
    "Split": ([], {"axis": 1, "num_outputs": 1}),
    "Squeeze": ([np.array([0])], {}),
    "Tile": ([np.array([1, 2, 1, 2])], {}),
    "Transpose": ([], {"perm": [2, 0, 3, 1]}),
    "Unsqueeze": ([np.array([0])], {}),
}
PRODUCTS = {"MatMul", "Gemm", "Conv"}


def moved(kind, other=None):
    """Integers that are dequantised, moved and quantised again; `other` is the scale of the last."""
    network, (arrays, attributes) = Network(), MOVES[kind]
    scale = network.scale(np.uint8)
    data = [network.dequantized(SHAPE, np.uint8, is_weight=False, scale=scale) for _ in range(1 + (kind == "Concat"))]
    y = network.node(kind, *data, *map(network.constant, arrays), **attributes)
    last = scale if other is None else (network.constant(np.float32(other)), scale[1])
    return network.model(network.node("QuantizeLinear", y, *last)), network.inputs


def test_every_row_is_tested():
    assert {name for name in FOLDED if not name.endswith("izeLinear")} == PRODUCTS | set(MOVES)


def test_what_is_moved_stays_integers():
    cases = {kind: moved(kind) for kind in MOVES}
    results = together((to_jax(proto), *inputs.values()) for proto, inputs in cases.values())
    for result, (proto, inputs) in zip(results, cases.values(), strict=True):
        assert_same_bits(result, runtime(proto, inputs)[0])
        assert "f32" not in lowered(to_jax(proto), inputs)


def test_another_scale_is_not_skipped():
    proto, inputs = moved("Transpose", other=0.5)
    assert_same_bits(to_jax(proto)(*inputs.values()), runtime(proto, inputs)[0])
    assert "f32" in lowered(to_jax(proto), inputs)


def test_concat_of_other_scales():
    network = Network()
    data = [network.dequantized((2, 3), np.uint8, is_weight=False) for _ in range(2)]
    proto = network.model(network.node("Concat", *data, axis=0))
    assert_same_bits(to_jax(proto)(*network.inputs.values()), runtime(proto, network.inputs)[0])


def test_a_negative_scale_turns_the_order():
    network = Network()
    scale = (network.constant(np.float32(-0.5)), network.constant(np.uint8(7)))
    x = network.dequantized((1, 1, 6), np.uint8, is_weight=False, scale=scale)
    proto = network.model(network.node("MaxPool", x, kernel_shape=[2]))
    assert_same_bits(to_jax(proto)(*network.inputs.values()), runtime(proto, network.inputs)[0])


# Constants, branches, parameters, derivatives.


def test_what_is_quantised_may_decide_a_shape():
    """Constants that are dequantised are known, also under jit."""
    network = Network()
    network.constants |= {"scales_q": np.uint8([10, 10, 20]), "s": np.float32(0.1), "roi": np.float32([])}
    network.inputs["x"] = np.float32([[[1, 2]]])
    network.nodes.append(make("DequantizeLinear", ["scales_q", "s"], ["scales"]))
    y = network.node("Resize", "x", "roi", "scales", mode="nearest")
    assert jax.jit(to_jax(network.model(y)))(network.inputs["x"]).shape == (1, 1, 4)


def test_a_branch_and_what_follows_read_the_same_floats():
    network = Network()
    x = network.dequantized((2, 3), np.uint8, is_weight=False)
    out = [helper.make_tensor_value_info("z", 1, [2, 3])]
    branches = {
        f"{name}_branch": helper.make_graph([make(kind, [x], ["z"])], name, [], out)
        for name, kind in (("then", "Neg"), ("else", "Exp"))
    }
    network.inputs["flag"] = np.array(True)
    y = network.node("If", "flag", **branches)
    proto = network.model(network.node("Add", y, x))
    for flag in (True, False):
        inputs = network.inputs | {"flag": np.array(flag)}
        np.testing.assert_allclose(
            jax.jit(to_jax(proto))(*inputs.values()), runtime(proto, inputs)[0], rtol=1e-6, atol=1e-6
        )


def rounded(dtype, scale, zero_point, **attributes):
    """A model that quantises and dequantises, with the scale as an initializer."""
    constants = {"scale": scale, "zero_point": zero_point.astype(dtype)}
    nodes = [
        make("QuantizeLinear", ["x", *constants], ["q"], **attributes),
        make("DequantizeLinear", ["q", *constants], ["y"], **attributes),
    ]
    return model(nodes, {"x": X}, ["y"], constants, opset=21)


X = np.random.default_rng(5).uniform(-9, 9, (3, 40)).astype(np.float32)
X[:, :8] = [6.75, -6, 6.35, -6.4, 2.72, -2.38, 2.5535, -4]  # the limits of the three below
WEIGHTS = np.random.default_rng(6).standard_normal(X.shape).astype(np.float32)
ROUNDED = {
    "uint8": rounded(np.uint8, np.float32(0.05), np.array(120)),
    "int8": rounded(np.int8, np.float32([0.05, 0.02, 0.3]), np.array([0, -9, 5]), axis=0),
    "uint16": rounded(np.uint16, np.float32(0.0001), np.array(40000)),
}


def gradients(function, scale):
    def loss(x, scale):
        return (function(x, parameters={"scale": scale}) * WEIGHTS).sum()

    return jax.jit(jax.grad(loss, (0, 1)))(X, scale)


@pytest.mark.parametrize("name", ROUNDED)
def test_straight_through(name):
    """1 inside the range and 0 outside; by the scale the rounding error inside, and the limit outside: by loops."""
    proto = ROUNDED[name]
    scale, zero_point = (np.asarray(array) for array in map(numpy_helper.to_array, proto.graph.initializer))
    function, limits = to_jax(proto, straight_through=True), np.iinfo(zero_point.dtype)
    assert_same_bits(jax.jit(function)(X), jax.jit(to_jax(proto))(X))
    by_x, by_scale = np.zeros(X.shape), np.zeros(scale.shape)
    for at in np.ndindex(X.shape):
        row = at[:1] if scale.ndim else ()
        exact = float(X[at]) / float(scale[row])
        steps = np.rint(exact)
        q = steps + int(zero_point[row])
        is_inside = limits.min <= q <= limits.max
        by_x[at] = WEIGHTS[at] * is_inside
        q = np.clip(q, limits.min, limits.max) - int(zero_point[row])
        by_scale[row] += WEIGHTS[at] * (q - exact if is_inside else q)
    assert 0.1 < (by_x == 0).mean() < 0.9
    actual = gradients(function, scale)
    np.testing.assert_allclose(actual[0], by_x, rtol=1e-6)
    np.testing.assert_allclose(actual[1], by_scale, rtol=1e-3, atol=1e-3)


def test_without_it_what_is_quantised_is_constant():
    """The derivative by a scale is that of the DequantizeLinear alone."""
    proto = ROUNDED["uint8"]
    by_x, by_scale = gradients(to_jax(proto), np.float32(0.05))
    assert not by_x.any()
    y = np.asarray(to_jax(proto)(X))
    np.testing.assert_allclose(by_scale, (y / 0.05 * WEIGHTS).sum(), rtol=1e-4)
    float8 = rounded(ml_dtypes.float8_e5m2, np.float32(0.5), np.array(0.0))
    assert not jax.grad(lambda x: (to_jax(float8)(x) * WEIGHTS).sum())(X).any()
    through = to_jax(float8, straight_through=True)
    assert_same_bits(jax.grad(lambda x: (through(x) * WEIGHTS).sum())(X), WEIGHTS)


def test_straight_through_does_not_fold():
    network = Network()
    proto = network.model(gemm(network, np.uint8, np.int8))
    assert FLOAT_PRODUCT.search(lowered(to_jax(proto, straight_through=True), network.inputs))


def test_scales_are_no_parameters():
    """Floats that are quantised in the network are, as in training for quantisation."""
    network = Network()
    network.inputs["x"] = X
    network.constants["w"] = np.float32(network.rng.standard_normal((40, 4)))
    scale = network.scale(np.int8)
    weights = network.node("DequantizeLinear", network.node("QuantizeLinear", "w", *scale), *scale)
    network.constants["table"] = np.ones((40, 4), ml_dtypes.float8_e4m3fn)
    total = network.node("Add", weights, network.node("DequantizeLinear", "table", scale[0]))
    y = network.node("MatMul", "x", total)
    function = to_jax(network.model(y), straight_through=True)
    assert list(function.parameters) == ["w"]
