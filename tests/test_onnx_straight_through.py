"""Derivatives of quantised networks, with the straight-through estimator and without; their parameters."""

import jax
import ml_dtypes
import numpy as np
import pytest
from checks import assert_same_bits
from onnx_building import model, numpy_helper
from quantized_networks import FLOAT_PRODUCT, Network, lowered, make

from dml_jax.onnx import to_jax


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
    assert not jax.jit(jax.grad(lambda x: (to_jax(float8)(x) * WEIGHTS).sum()))(X).any()
    through = to_jax(float8, straight_through=True)
    assert_same_bits(jax.jit(jax.grad(lambda x: (through(x) * WEIGHTS).sum()))(X), WEIGHTS)


def test_straight_through_does_not_fold():
    network = Network()
    x = network.dequantized((2, 3), np.uint8, is_weight=False)
    proto = network.model(network.node("MatMul", x, network.dequantized((3, 4), np.int8, is_weight=True)))
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
