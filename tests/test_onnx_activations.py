"""ONNX's activations: against its reference in float64, ONNX Runtime's special values, and at their corners."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import helper, model
from onnx_calls import (
    assert_derivatives,
    assert_like,
    assert_rounded_once,
    assert_vmap_is_a_loop,
    call,
    computed,
    gradients,
    ran,
    referred,
    run,
)

from dml_jax.onnx import OnnxError, activations, to_jax

RNG = np.random.default_rng(0)
X = RNG.uniform(-4, 4, (3, 4, 5))
CALLS = [
    *(call(name, X) for name in ("HardSwish", "Mish", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")),
    *(call("Elu", X, **a) for a in ({}, {"alpha": 1.5})),
    *(call("Gelu", X, approximate=a) for a in ("none", "tanh")),
    *(call("HardSigmoid", X, **a) for a in ({}, {"alpha": 0.5, "beta": 0.25})),
    *(call("LeakyRelu", X, **a) for a in ({}, {"alpha": 0.25})),
    *(call("LogSoftmax", X, **a) for a in ({}, {"axis": 0}, {"axis": -2})),
    *(call("Selu", X, **a) for a in ({}, {"alpha": 2.0, "gamma": 0.5})),
    *(call("Softmax", X, **a) for a in ({}, {"axis": 0}, {"axis": -2})),
    *(call("Swish", X, **a) for a in ({}, {"alpha": 0.5})),
    *(call("ThresholdedRelu", X, **a) for a in ({}, {"alpha": 0.5})),
]
HARDMAX = [call("Hardmax", np.rint(X), **a) for a in ({}, {"axis": 0}, {"axis": -2})]
SHRINK = [call("Shrink", X, **a) for a in ({}, {"lambd": 1.5, "bias": 0.25})]  # of no bfloat16
CELU = [call("Celu", np.float32(X), **a) for a in ({}, {"alpha": 2.0})]  # of float32 alone
SPECIAL = np.float32([0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.5, -2.5, 3, -3, 1e-30, 1e30, -1e30, 80, -80, 700])


def test_the_tables_have_every_row():
    assert {one.op_type for one in (*CALLS, *HARDMAX, *SHRINK, *CELU)} == set(activations.OPERATORS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16, jnp.bfloat16], [np.float16]))
def test_floats_are_rounded_once(dtype):
    assert_rounded_once(CALLS + HARDMAX + ([] if dtype == jnp.bfloat16 else SHRINK), np.dtype(dtype), 16)


@pytest.mark.exhaustive
def test_float64_is_not_narrowed():
    """But by what attributes and ONNX's own bodies hold in float32."""
    calls = CALLS + HARDMAX + SHRINK
    assert_like(calls, computed(calls), referred(calls), signs=False, rtol=2e-7, atol=1e-7)
    names = ("LogSoftmax", "Relu", "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh")
    exact = [one for one in calls if one.op_type in names]
    assert_like(exact, computed(exact), referred(exact), signs=False, rtol=1e-13, atol=1e-15)


@pytest.mark.exhaustive
def test_derivatives_are_those_of_differences():
    assert_derivatives(CALLS + SHRINK)


@pytest.mark.exhaustive
def test_vmap_is_a_loop():
    assert_vmap_is_a_loop(CALLS + SHRINK + HARDMAX)


def test_special_values_are_those_of_onnx_runtime():
    """Along an axis there is one row with a NaN, one with the greatest, and one where nothing is finite."""
    names = sorted({one.op_type for one in (*CALLS, *SHRINK, *CELU)} - {"Softmax", "LogSoftmax", "Swish"})
    rows = np.float32([[1, np.nan, 2], [1e30, -1e30, 5], [-np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [1, np.inf, 2]])
    calls = [*(call(name, SPECIAL) for name in names), *(call(name, rows) for name in ("Softmax", "LogSoftmax"))]
    calls.append(call("Gelu", SPECIAL, approximate="tanh"))
    assert_like(calls, computed(calls, 20), ran(calls, 20), signs=False, rtol=1e-5, atol=1e-6)


FAR = [-np.inf, -1e30, -800.0, -100.0, 0.0, 100.0, 800.0, 1e30]
ONES, ZERO_ONES = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1, 1]
# By the input; -inf is left out where infinity meets 0.
CORNERS = [
    (call("Elu", FAR), ONES),
    (call("Celu", np.float32(FAR)), ONES),
    (call("Relu", FAR), ZERO_ONES),
    (call("Sigmoid", FAR), [0, 0, 0, 0, 0.25, 0, 0, 0]),
    (call("Tanh", FAR), [0, 0, 0, 0, 1, 0, 0, 0]),
    (call("Softplus", FAR), [0, 0, 0, 0, 0.5, 1, 1, 1]),
    (call("ThresholdedRelu", FAR), ZERO_ONES),
    (call("HardSigmoid", FAR, alpha=0.5), [0, 0, 0, 0, 0.5, 0, 0, 0]),
    (call("Mish", FAR[1:]), [0, 0, 0, 0.6, 1, 1, 1]),
    (call("HardSwish", FAR[1:]), [0, 0, 0, 0.5, 1, 1, 1]),
    (call("Swish", FAR[1:]), [0, 0, 0, 0.5, 1, 1, 1]),
    (call("Gelu", FAR[2:-1]), [0, 0, 0.5, 1, 1]),
    (call("Softmax", [-np.inf, 0.0, 1e30, -1e30]), [0, 0, 0, 0]),
    (call("LogSoftmax", [-1e30, 0.0, 1000.0]), [1, 1, -2]),
]


def test_derivatives_far_out_are_numbers():
    for (one, wanted), (made,) in zip(CORNERS, gradients([one for one, _ in CORNERS]), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-6, atol=1e-12, err_msg=str(one))


def test_before_opset_13_all_axes_from_one_on_are_one():
    x = np.rint(np.float32(X))
    attributes = [{}, *({"axis": axis} for axis in (0, 2, -1))]
    calls = [call(name, x, **a) for name in ("Softmax", "LogSoftmax", "Hardmax") for a in attributes]
    assert_like(calls, computed(calls, 11), ran(calls, 11), signs=False, rtol=1e-5)
    assert_same_bits(run("Softmax", x, opset=11, axis=3), np.ones_like(x))


def test_hardmax_is_the_first_of_the_greatest():
    assert_same_bits(run("Hardmax", np.float32([[3, 3, 1], [0, 2, 2]])), np.float32([[1, 0, 0], [0, 1, 0]]))
    assert run("Hardmax", np.zeros((2, 0), np.float32)).shape == (2, 0)


def test_integers_shrink():
    """By fractions too, where ONNX's reference and ONNX Runtime cut off what remains, and its body the fraction."""
    numbers = [np.arange(-6, 7, dtype=np.int8), np.arange(7, dtype=np.uint8), np.arange(-6, 7, dtype=np.int32)]
    settings = [{"lambd": lambd, "bias": bias} for lambd in (1.5, 2.0) for bias in (0.0, 1.0, 1.25)]
    calls = [call("Shrink", x, **setting) for x in numbers for setting in settings]
    for oracle in (referred, ran):
        assert_like(calls, computed(calls, 20), oracle(calls, 20))


def test_whole_numbers_shrink_exactly():
    assert_same_bits(run("Shrink", np.int32([2**24 + 1, -(2**31)]), bias=2.0), np.int32([2**24 - 1, 2 - 2**31]))


def test_relu_of_integers():
    assert_same_bits(run("Relu", np.int8([-128, 0, 127])), np.int8([0, 0, 127]))


BROKEN = [
    ("Softmax", {"axis": 3}, 20, r"axis must be in \[-3, 2\], but it is 3"),
    ("Softmax", {"axis": -4}, 11, r"axis must be in \[-3, 3\], but it is -4"),
    ("Gelu", {"approximate": "erf"}, 20, "approximate must be none or tanh, but it is 'erf'"),
]


@pytest.mark.parametrize(("op_type", "attributes", "opset", "message"), BROKEN)
def test_mistakes_are_named(op_type, attributes, opset, message):
    with pytest.raises(OnnxError, match=message):
        run(op_type, np.float32(X), opset=opset, **attributes)


def test_old_defaults():
    x = np.float32([-1, 2])
    np.testing.assert_allclose(
        run("Selu", x, opset=1), np.where(x > 0, 1.0507 * x, 1.0507 * 1.6732 * np.expm1(x)), rtol=1e-6
    )
    np.testing.assert_allclose(run("Elu", x, opset=1, consumed_inputs=[0]), np.where(x > 0, x, np.expm1(x)), rtol=1e-6)


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_large_numbers_that_are_computed_before_are_stored(name):
    """Their mean may be fused with what is computed of it, and rounded otherwise than in the maximum."""
    x = np.full((1, 1000, 13, 13), 9.4756894e9, np.float32)
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["mean"]), helper.make_node(name, ["mean"], ["y"], axis=1)]
    function = to_jax(model(nodes, {"x": x}, ["y"]))
    wanted = {"Softmax": 1e-3, "LogSoftmax": np.log(1e-3)}[name]
    np.testing.assert_allclose(jax.jit(function)(x), np.full((1, 1000, 1, 1), wanted), rtol=1e-5)
