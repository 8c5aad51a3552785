"""Quantised networks: what elementwise operators make of one byte is one function of it, and on CPUs a table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, together
from onnx_building import runtime
from quantized_networks import Network, lowered, make

from dml_jax import use_form
from dml_jax.onnx import OnnxError, to_jax
from dml_jax.onnx.byte_functions import ELEMENTWISE, MOST_NODES, as_byte_function

EVERY = {dtype: np.arange(256, dtype=np.uint8).view(dtype).reshape(2, 4, 32) for dtype in (np.uint8, np.int8)}
MICROSOFT = "com.microsoft"
QUANTIZED = {name for name in ELEMENTWISE if "::QLinear" in name}
HALF = np.float32(0.5)
# Other operands and attributes; by default there are none.
OPERANDS = {**dict.fromkeys(("Add", "Div", "Mul", "Sub"), (np.float32([[0.7]]),)), "Clip": (-HALF, HALF)}
ATTRIBUTES = {"Celu": {"alpha": 0.7}, "Gelu": {"approximate": "tanh"}, "com.microsoft::QuickGelu": {"alpha": 1.7}}


def of_bytes(network, dtype=np.uint8, scale=0.0513, zero_point=100, q=None):
    """The name of floats that are made of every byte, or of others."""
    network.inputs["q"] = EVERY[dtype] if q is None else q
    constants = network.constant(np.float32(scale)), network.constant(np.asarray(zero_point, dtype))
    return network.node("DequantizeLinear", "q", *constants)


def quantized(network, x, scale=0.0437, zero_point=20, dtype=np.uint8):
    constants = network.constant(np.float32(scale)), network.constant(np.asarray(zero_point, dtype))
    return network.node("QuantizeLinear", x, *constants), constants


def again(network, x, **parameters):
    """The name of floats that are quantised and dequantised."""
    y, constants = quantized(network, x, **parameters)
    return network.node("DequantizeLinear", y, *constants)


def silu(network, q=None):
    """As exporters write it."""
    x = of_bytes(network, q=q)
    gate = again(network, network.node("Sigmoid", x), scale=1 / 255, zero_point=0)
    return quantized(network, network.node("Mul", x, gate))[0]


def one_operator(name, dtype):
    network, (domain, _, kind) = Network(), name.rpartition("::")
    others = map(network.constant, OPERANDS.get(name, ()))
    y = network.node(kind, of_bytes(network, dtype), *others, domain=domain, **ATTRIBUTES.get(name, {}))
    return network.model(quantized(network, y, dtype=dtype)[0])


def assert_is_table(function, *arrays):
    """The program of a CPU gathers, and computes no float of the size of its input."""
    with use_form("gathered"):
        text = jax.jit(function).lower(*arrays).as_text()
    sizes = "x".join(map(str, arrays[0].shape))
    assert text.count('"stablehlo.gather"') == 1
    assert f"tensor<{sizes}xf32>" not in text


@pytest.mark.parametrize("dtype", EVERY)
def test_every_operator_agrees_with_onnx_runtime(dtype):
    """Within a step, as a half may be rounded to the other side; a table has the bits of the plain program."""
    names = [name for name in ELEMENTWISE if name not in (*QUANTIZED, "Swish")]  # which is newer
    protos = {name: one_operator(name, dtype) for name in names}
    q = EVERY[dtype]
    with use_form("plain"):
        plain = together((to_jax(proto), q) for proto in protos.values())
    with use_form("gathered"):
        gathered = together((to_jax(proto), q) for proto in protos.values())
    for one, other, (name, proto) in zip(plain, gathered, protos.items(), strict=True):
        assert_same_bits(one, other)
        (wanted,) = runtime(proto, {"q": q})
        is_nan = (q.astype(int) - 100 < 0) & (name in ("Log", "Sqrt"))  # whose integer is not defined
        off = np.where(is_nan, 0, np.abs(one.astype(int) - wanted))
        assert off.max() <= 1, name
        assert off.mean() < 0.05, name
        assert_is_table(to_jax(proto), q)


def test_a_chain_is_one_table():
    network = Network()
    proto = network.model(silu(network))
    (q,) = network.inputs.values()
    x = (q.astype(float) - 100) * np.float32(0.0513)
    gate = np.round(255 / (1 + np.exp(-x))) / 255
    wanted = np.clip(np.round(x * gate / np.float32(0.0437)) + 20, 0, 255)
    with use_form("gathered"):
        off = np.abs(np.asarray(jax.jit(to_jax(proto))(q), int) - wanted)
    assert off.max() <= 1
    assert off.mean() < 0.02
    assert_is_table(to_jax(proto), q)


@pytest.mark.parametrize("dtype", EVERY)
def test_quantized_operators_agree_with_onnx_runtime(dtype):
    """x * sigmoid(x) of integers, and a LeakyRelu and a sum of that."""
    network = Network()
    network.inputs["q"] = EVERY[dtype]
    first, gate, last = (
        (network.constant(np.float32(scale)), network.constant(np.asarray(zero_point, dtype)))
        for scale, zero_point in ((0.0513, 100), (1 / 255, 0), (0.0437, 20))
    )
    x = ("q", *first)
    y = network.node("QLinearSigmoid", *x, *gate, domain=MICROSOFT)
    y = network.node("QLinearMul", *x, y, *gate, *last, domain=MICROSOFT)
    z = network.node("QLinearLeakyRelu", y, *last, *last, domain=MICROSOFT, alpha=0.3)
    z = network.node("QLinearAdd", y, *last, z, *last, *first, domain=MICROSOFT)
    assert {f"{node.domain}::{node.op_type}" for node in network.nodes} == QUANTIZED
    for output in (y, z):
        proto = network.model(output)
        with use_form("gathered"):
            result = jax.jit(to_jax(proto))(EVERY[dtype])
        assert np.abs(np.asarray(result, int) - runtime(proto, network.inputs)[0]).max() <= 1
        assert_is_table(to_jax(proto), EVERY[dtype])


def test_outside_of_jit_each_node_is_computed_once():
    """A function of bytes for each of several values would compute the first of them several times."""
    q, seen = jnp.asarray(EVERY[np.uint8]), []
    assert as_byte_function(q) is None
    jax.jit(lambda q: seen.append(as_byte_function(q)))(q)
    assert seen[0].shape == q.shape


def test_other_devices_compute_the_chain():
    network = Network()
    proto = network.model(silu(network, np.zeros((64, 512), np.uint8)))
    traced = jax.jit(to_jax(proto)).trace(*network.inputs.values())
    texts = {platform: traced.lower(lowering_platforms=(platform,)).as_text() for platform in ("cpu", "cuda", "tpu")}
    assert {platform: "stablehlo.gather" in text for platform, text in texts.items()} == {
        "cpu": True,
        "cuda": False,
        "tpu": False,
    }


def test_a_table_on_an_explicit_mesh_of_one_device():
    network = Network()
    function, (q,) = jax.jit(to_jax(network.model(silu(network)))), network.inputs.values()
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,), devices=jax.devices("cpu")[:1])
    with use_form("gathered"), jax.set_mesh(mesh):
        sharded = function(jax.device_put(q, jax.NamedSharding(mesh, jax.P(None, "d"))))
    assert sharded.sharding.spec == jax.P(None, "d", None)
    assert_same_bits(sharded, jax.jit(to_jax(network.model(silu(network))))(q))


def of_two_arrays(network):
    x = of_bytes(network)
    return network.node("Mul", network.node("Sigmoid", x), network.dequantized((2, 4, 32), np.uint8, is_weight=False))


def of_channels(network):
    network.inputs["q"] = EVERY[np.uint8]
    scale = network.scale(np.uint8, (4,))
    return network.node("Tanh", network.node("DequantizeLinear", "q", *scale, axis=1))


def by_channel(network):
    return network.node("Mul", network.node("Tanh", of_bytes(network)), network.constant(np.ones((4, 1), np.float32)))


def of_16_bits(network):
    return network.node("Tanh", network.dequantized((2, 4, 32), np.uint16, is_weight=False))


def with_more_dimensions(network):
    return network.node("Add", network.node("Tanh", of_bytes(network)), network.constant(np.ones((1, 1, 1, 1, 1), "f")))


@pytest.mark.parametrize("build", [of_two_arrays, of_channels, by_channel, of_16_bits, with_more_dimensions])
def test_no_table(build):
    """Of what is no function of one byte."""
    network = Network()
    proto = network.model(quantized(network, build(network))[0])
    with use_form("gathered"):
        assert "stablehlo.gather" not in lowered(to_jax(proto), network.inputs)
        result = jax.jit(to_jax(proto))(*network.inputs.values())
    (wanted,) = runtime(proto, network.inputs)
    assert np.abs(np.asarray(result, int) - wanted).max() <= 1


def test_every_value_can_be_an_output():
    """Floats and bytes of all steps, which other operators read too."""
    network = Network()
    x = of_bytes(network)
    gate = network.node("Sigmoid", x)
    y = network.node("Mul", x, again(network, gate))
    q, constants = quantized(network, y)
    total = network.node("ReduceSum", network.node("DequantizeLinear", q, *constants), keepdims=0)
    proto = network.model(x, gate, y, q, total)
    wanted = runtime(proto, network.inputs)
    for function in (to_jax(proto), jax.jit(to_jax(proto))):
        for actual, expected in zip(function(*network.inputs.values()), wanted, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1 if actual.dtype == np.uint8 else 0.05)


@pytest.mark.parametrize(("kind", "times", "operands"), [("Add", 10, 2), ("Neg", 1000, 1)])
def test_each_node_of_a_long_chain_is_traced_a_few_times(kind, times, operands):
    """Sums of a value and itself, of which each was traced twice as often as the next; and a deep recursion."""
    network = Network()
    x = of_bytes(network)
    for _ in range(times):
        x = network.node(kind, *[x] * operands)
    text = lowered(to_jax(network.model(x)), network.inputs)
    kinds = {"Add": "stablehlo.add", "Neg": "stablehlo.negate"}
    assert times <= text.count(kinds[kind]) < times + MOST_NODES


def test_no_derivative_goes_through_bytes():
    network = Network()
    network.inputs["x"] = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 12)
    y = again(network, network.node("Sigmoid", again(network, "x")))
    function = to_jax(network.model(y))
    for form in ("plain", "gathered"):
        with use_form(form):
            gradient = jax.jit(jax.grad(lambda x: function(x).sum()))(network.inputs["x"])
        assert_same_bits(gradient, np.zeros((2, 12), np.float32))


def test_errors_name_the_node():
    network = Network()
    network.nodes.append(make("Gelu", [of_bytes(network)], ["y"], name="activation", approximate="other"))
    with pytest.raises(OnnxError, match="Gelu node 'activation': approximate must be none or tanh"):
        to_jax(network.model("y"))(*network.inputs.values())
