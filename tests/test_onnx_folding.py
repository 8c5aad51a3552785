"""Quantised networks: operators between DequantizeLinear and QuantizeLinear compute in integers."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits, sampled, together
from onnx_building import helper, runtime
from quantized_networks import FLOAT_PRODUCT, INTEGER_PRODUCT, Network, lowered, make

from dml_jax.onnx import OnnxError, to_jax
from dml_jax.onnx.byte_functions import ELEMENTWISE
from dml_jax.onnx.quantized_folding import FOLDED

BYTES = (np.uint8, np.int8)


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
    return convolution(network, a, b, int(rng.integers(1, 4)), int(rng.integers(2, 4)))


def depthwise(network, a, b):
    return convolution(network, a, b, int(network.rng.integers(2, 4)), 1)


def convolution(network, a, b, groups, own):
    """One of some channels in each group."""
    rng = network.rng
    rank, channels, filters = int(rng.integers(1, 4)), groups * own, groups * int(rng.integers(1, 3))
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


@pytest.mark.thinned
@pytest.mark.parametrize("seed", sampled(range(5), [0]))
@pytest.mark.parametrize("build", [matmul, gemm, conv, depthwise])
def test_products_are_products_of_integers(build, seed, exhaustive):
    """Floats as near as sums of floats, integers within 1, as halves may differ; depthwise ones are sums of slices."""
    rng = np.random.default_rng(seed)
    cases = [product(build, rng) for _ in range(6 if exhaustive else 3)]
    results = together((to_jax(proto), *inputs.values()) for proto, inputs, _ in cases)
    for (y, q), (proto, inputs, (floats, integers)) in zip(results, cases, strict=True):
        np.testing.assert_allclose(y, floats, rtol=1e-5, atol=1e-6 * np.abs(floats).max())
        assert q.dtype == integers.dtype
        off = np.abs(q.astype(int) - integers)
        assert off.max() <= 1
        assert off.mean() < 0.05
        text = lowered(to_jax(proto), inputs)
        assert (INTEGER_PRODUCT.search(text) is None) == (build is depthwise)
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


def with_filters_that_read_apart(network):
    """Depthwise: two filters for each channel, whose places are apart."""
    x = network.dequantized((1, 2, 5, 5), np.uint8, is_weight=False)
    w = network.dequantized((4, 1, 2, 2), np.int8, is_weight=True)
    return network.node("Conv", x, w, group=2, strides=[3, 3])


def with_floats(network):
    x = network.dequantized((2, 3), np.uint8, is_weight=False)
    return network.node("MatMul", x, network.constant(np.float32(network.rng.standard_normal((3, 4)))))


def with_a_vector(network):
    x = network.dequantized((3,), np.uint8, is_weight=False)
    return network.node("MatMul", x, network.dequantized((3, 4), np.int8, is_weight=True))


IN_FLOATS = (
    along_the_sum,
    of_16_bits,
    long,
    by_input_channel,
    with_filters_that_read_apart,
    with_floats,
    with_a_vector,
)


@pytest.mark.thinned
@pytest.mark.parametrize("build", IN_FLOATS)
def test_what_is_not_folded_is_computed_in_floats(build):
    network = Network()
    proto = network.model(build(network))
    function = jax.jit(to_jax(proto))
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
    """Those of elementwise operators in test_onnx_byte_functions.py."""
    assert {name for name in FOLDED if not name.endswith("izeLinear")} == PRODUCTS | {*MOVES, *ELEMENTWISE}


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


# Constants and branches.


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
