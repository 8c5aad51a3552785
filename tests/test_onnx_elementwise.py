"""ONNX's operators of each element: against its reference in float64, ONNX Runtime's special values, and integers."""

import itertools
import math

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
    function_of,
    gradients,
    ran,
    referred,
    run,
)

from dml_jax.onnx import OnnxError, elementwise, to_jax

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-3, 3, (2, 3, 5))
SMALL, POSITIVE = X / 3.1, abs(X) + 0.1
BROADCAST, FULL = (X[:, None], Y[0]), np.tile(X, (2, 1, 1))
DIFFERENTIABLE = [
    *(call(name, X) for name in ("Abs", "Asinh", "Atan", "Cos", "Cosh", "Erf", "Exp", "Neg", "Sin", "Sinh", "Tan")),
    *(call(name, SMALL) for name in ("Acos", "Asin", "Atanh")),
    *(call(name, POSITIVE) for name in ("Log", "Reciprocal", "Sqrt")),
    *(call(name, *BROADCAST) for name in ("Add", "Div", "Mul", "PRelu", "Sub")),
    *(call(name, FULL, Y[:1], Y[0]) for name in ("Max", "Mean", "Min", "Sum")),
    call("Acosh", POSITIVE + 1),
    call("Clip", X, -1.0, 1.25),
    call("Mod", X, Y, fmod=1),
    call("Pow", POSITIVE[:, None], Y[0]),
    call("Pow", X, 3.0, given=(1,)),
    call("Pow", X, np.int64([2, 0, -1, 1, -3]), given=(1,)),
]
STEPS = [
    *(call(name, 2 * X) for name in ("Ceil", "Floor", "IsInf", "IsNaN", "Round", "Sign")),
    *(call(name, *BROADCAST) for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")),
]
OF_BOOLS = [*(call(name, X > 0, Y[0] > 0) for name in ("And", "Or", "Xor")), call("Not", X > 0)]


def of_integers(dtype):
    """With the least and the greatest of a type."""
    limits, is_signed = np.iinfo(dtype), np.iinfo(dtype).min < 0
    x = np.array([limits.min, limits.max, 0, 1, 2, 3, 100, 7], dtype)
    y = np.array([3, 2, limits.max, 5, 1, limits.min or 9, 7, 2], dtype)
    few = np.array([0, 1, 2, 7, limits.max, 64, limits.min, 8], dtype)
    pairs = ("Add", "Mul", "Sub", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater", "Less", "Mod")
    return [
        *(call(name, x, y) for name in pairs),
        *(call(name, x[:, None], y, y) for name in ("Max", "Min")),
        *(call(name, x) for name in ("BitwiseNot", "Sign", *(["Abs", "Neg"] if is_signed else ["Abs"]))),
        call("Clip", x, dtype(2), dtype(7)),
        call("Mod", x, y, fmod=1),
        *([] if is_signed else [call("BitShift", x[:, None], few, direction=way) for way in ("LEFT", "RIGHT")]),
    ]


INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def test_the_tables_have_every_row():
    calls = [*DIFFERENTIABLE, *STEPS, *OF_BOOLS, *of_integers(np.int8), *of_integers(np.uint8)]
    assert {one.op_type for one in calls} == set(elementwise.OPERATORS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16, jnp.bfloat16], [np.float16]))
def test_floats_are_rounded_once(dtype):
    assert_rounded_once(DIFFERENTIABLE + STEPS, np.dtype(dtype), 8)


@pytest.mark.exhaustive
def test_float64_is_not_narrowed():
    """But by the reference, whose Erf is of float32."""
    calls = [one for one in DIFFERENTIABLE + STEPS + OF_BOOLS if one.op_type != "Erf"]
    assert_like(calls, computed(calls), referred(calls), rtol=1e-13, atol=1e-14)
    (y,) = computed([call("Erf", X)])
    np.testing.assert_allclose(y, np.vectorize(math.erf)(X), rtol=1e-14)


@pytest.mark.exhaustive
def test_derivatives_are_those_of_differences():
    assert_derivatives([*DIFFERENTIABLE, call("Mod", X, Y)])


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint32, *(pytest.param(d, marks=pytest.mark.exhaustive) for d in INTEGERS)]
)
def test_integers_wrap(dtype):
    calls = of_integers(dtype)
    for one, actual, wanted in zip(calls, computed(calls), referred(calls), strict=True):
        assert actual.dtype == wanted.dtype, one
        np.testing.assert_array_equal(actual, wanted, err_msg=str(one))


# What is special.

SPECIAL = np.float32([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, -2.5, 1e-30, -1e30])
LEFT, RIGHT = (np.float32(side) for side in zip(*itertools.product(SPECIAL, SPECIAL), strict=True))


def test_special_values_are_those_of_onnx_runtime():
    unary = {one.op_type for one in (*DIFFERENTIABLE, *STEPS) if len(one.inputs) == 1}
    calls = [
        *(call(name, SPECIAL) for name in sorted(unary)),
        *(call(name, LEFT, RIGHT) for name in ("Add", "Div", "Mul", "Pow", "Sub")),
        *(call(name, LEFT, RIGHT) for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "PRelu")),
        call("Mod", LEFT, RIGHT, fmod=1),
        call("Clip", SPECIAL, np.float32(-0.75), np.float32(np.inf)),
        call("Clip", SPECIAL, np.float32(2), np.float32(1)),
        call("IsInf", SPECIAL, detect_negative=0),
        call("IsInf", SPECIAL, detect_positive=0),
    ]
    with np.errstate(all="ignore"):
        assert_like(calls, computed(calls, 20), ran(calls, 20), rtol=1e-5, atol=1e-40)
    extremes = [call(name, LEFT, RIGHT) for name in ("Max", "Min")]  # of two zeros either is right
    assert_like(extremes, computed(extremes, 20), ran(extremes, 20), signs=False)


def test_constants_are_computed_alike():
    calls = [call(name, SPECIAL) for name in ("Sign", "Round", "Ceil", "Neg", "Sqrt", "IsNaN")]
    calls += [call(name, LEFT, RIGHT) for name in ("Div", "Mul")]
    calls += [call("Mod", LEFT, RIGHT, fmod=n) for n in (0, 1)]
    known = [call(one.op_type, *one.inputs, given=range(2), **one.attributes) for one in calls]
    function, inputs = function_of(known, 20)
    assert not inputs
    assert_like(calls, function([]), computed(calls, 20), rtol=1e-6)


# Derivatives at the ends and at kinks, where one side has one: by each input.
CORNERS = [
    (call("Clip", [-1.0, 1.25, np.inf, 0.0, -5.0], -1.0, 1.25, given=(1, 2)), [[0, 0, 0, 1, 0]]),
    (call("Max", [1.0, 2.0], [1.0, 3.0]), [[0.5, 0], [0.5, 1]]),
    (call("Min", [1.0, 2.0], [1.0, 3.0]), [[0.5, 1], [0.5, 0]]),
    (call("PRelu", [0.0, np.inf, -2.0], [3.0, 3.0, 3.0]), [[1, 1, 3], [0, 0, -2]]),
    (call("Pow", [0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, 3.0], given=(1,)), [[0, 1, 0, 0]]),
    (call("Pow", [0.0, 0.0, 1.0], [1.0, 2.0, 0.0]), [[1, 0, 0], [0, 0, 0]]),
    (call("Pow", [-2.0, 0.0], np.int64([3, 1]), given=(1,)), [[12, 1]]),
    (call("Mod", [-5.0, 5.0], [3.0, 3.0], fmod=1), [[1, 1], [1, -1]]),
    (call("Exp", [-np.inf, -800.0]), [[0, 0]]),
    (call("Erf", [-np.inf, 30.0]), [[0, 0]]),
    (call("Atan", [np.inf, -1e300]), [[0, 0]]),
    (call("Sign", [0.0, 3.0]), [[0, 0]]),
]


def test_derivatives_at_corners_are_numbers():
    for (one, wanted), made in zip(CORNERS, gradients([one for one, _ in CORNERS]), strict=True):
        for actual, expected in zip(made, wanted, strict=True):
            np.testing.assert_allclose(actual, expected, err_msg=str(one))


@pytest.mark.exhaustive
def test_vmap_is_a_loop():
    assert_vmap_is_a_loop(DIFFERENTIABLE + STEPS)


# Integers.


@pytest.mark.parametrize("types", [(np.int32, np.uint8), (np.int64, np.int64)], ids=str)
def test_whole_powers_of_integers_wrap(types):
    bases, exponents = range(-4, 12), [0, 1, 2, 3, 31, 64, 65, 100, *([] if types[1] == np.uint8 else [-1, -2])]
    x, y = np.array(bases, types[0])[:, None], np.array(exponents, types[1])
    bits = 8 * x.dtype.itemsize
    exact = [[a**b if b >= 0 else int(a**b) if a else 0 for b in exponents] for a in bases]
    wrapped = [[(n + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for n in row] for row in exact]
    assert_same_bits(run("Pow", x, y), np.array(wrapped, types[0]))


@pytest.mark.parametrize("dtype", sampled([np.float32, np.float64], [np.float64]))
def test_other_powers_of_integers_are_cut_off(dtype):
    squares = np.arange(0, 1000, 7, np.int64) ** 2
    assert_same_bits(run("Pow", squares, dtype(0.5)), np.arange(0, 1000, 7, np.int64))
    x, y, wanted = zip(
        (2, 0.5, 1), (3, 1.5, 5), (-3, 3, -27), (10, 9, 10**9), (-1, 2**24 - 1, -1), (2, -1, 0), strict=True
    )
    assert_same_bits(run("Pow", np.int32(x), dtype(y)), np.int32(wanted))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_powers_have_the_type_of_the_base(dtype):
    assert_same_bits(run("Pow", np.float32([2, 3]), dtype([3, 0.5])), np.float32([8, np.sqrt(3)]))


def test_shifts_of_signed_integers():
    x, y = np.int8([-128, -3, 100, 127])[:, None], np.int8([0, 1, 7, 8, 100, -1])
    right = [[-128, -64, -1, -1, -1, -1], [-3, -2, -1, -1, -1, -1], [100, 50, 0, 0, 0, 0], [127, 63, 0, 0, 0, 0]]
    left = [[-128, 0, 0, 0, 0, 0], [-3, -6, -128, 0, 0, 0], [100, -56, 0, 0, 0, 0], [127, -2, -128, 0, 0, 0]]
    for direction, wanted in (("RIGHT", right), ("LEFT", left)):
        assert_same_bits(elementwise.shift_bits(x=x, y=y, direction=direction), np.int8(wanted))
        made = jax.jit(lambda x, y, way=direction: elementwise.shift_bits(x=x, y=y, direction=way))(x, y)
        assert_same_bits(made, np.int8(wanted))


def test_error_function_of_integers():
    assert_same_bits(run("Erf", np.int8([-128, -5, 0, 5, 6, 127]), opset=9), np.int8([-1, 0, 0, 0, 1, 1]))
    assert_same_bits(run("Erf", np.uint8([0, 5, 6, 255]), opset=9), np.uint8([0, 0, 1, 1]))


# Versions and mistakes.

PICTURE = RNG.standard_normal((2, 3, 2, 2)).astype(np.float32)
# Opset, operator, inputs, attributes, result.
OLD = {
    "prelu_per_channel": (
        6,
        "PRelu",
        [PICTURE, np.float32([1, 2, 3])],
        {},
        np.where(PICTURE < 0, PICTURE * np.float32([1, 2, 3])[:, None, None], PICTURE),
    ),
    "prelu_of_one": (1, "PRelu", [PICTURE, np.float32([2])], {}, np.where(PICTURE < 0, PICTURE * 2, PICTURE)),
    "clip_from_below": (1, "Clip", [PICTURE], {"min": 0.0}, np.maximum(PICTURE, 0)),
    "clip": (6, "Clip", [PICTURE], {"min": -0.5, "max": 0.5}, np.clip(PICTURE, -0.5, 0.5)),
    "clip_infinities": (6, "Clip", [np.float32([np.inf])], {}, np.float32([np.finfo(np.float32).max])),
    "clip_float16": (6, "Clip", [np.float16([np.inf])], {}, np.float16([np.inf])),
    "pow_from_axis": (
        1,
        "Pow",
        [PICTURE**2, np.float32([1, 2, 3])],
        {"broadcast": 1, "axis": 1},
        PICTURE ** np.float32([2, 4, 6])[:, None, None],
    ),
    "and_suffix": (1, "And", [PICTURE > 0, np.array([True, False])], {"broadcast": 1}, (PICTURE > 0) & [True, False]),
    "max_of_one": (6, "Max", [PICTURE], {}, PICTURE),
    "mean": (6, "Mean", [PICTURE, PICTURE], {}, PICTURE),
    "mod_of_floats": (13, "Mod", [np.float32([-5, 5]), np.float32([3, -3])], {}, np.float32([1, -1])),
}


@pytest.mark.parametrize("name", OLD)
def test_old_versions(name):
    opset, op_type, inputs, attributes, wanted = OLD[name]
    y = run(op_type, *inputs, opset=opset, **attributes)
    assert y.dtype == wanted.dtype
    np.testing.assert_allclose(y, wanted, rtol=1e-5)


BROKEN = [
    (6, "Max", [np.zeros(2), np.zeros(1)], {}, r"before opset 8 the shapes must be equal, but they are \(2,\), \(1,\)"),
    (13, "Clip", [np.zeros(2), np.zeros(2)], {}, r"min must be one number, but its shape is \(2,\)"),
    (
        13,
        "Clip",
        [np.zeros(2), np.zeros(1), np.zeros((1, 3))],
        {},
        r"max must be one number, but its shape is \(1, 3\)",
    ),
    (16, "PRelu", [np.zeros(2), np.zeros((3, 2))], {}, r"slope must broadcast to x, but their shapes are \(3, 2\)"),
    (
        18,
        "BitShift",
        [np.uint8([1]), np.uint8([1])],
        {"direction": "UP"},
        "direction must be LEFT or RIGHT, but it is 'UP'",
    ),
    (20, "Sqrt", [np.int32([4])], {}, "must be one of"),
]


@pytest.mark.parametrize(("opset", "op_type", "inputs", "attributes", "message"), BROKEN)
def test_mistakes_are_named(opset, op_type, inputs, attributes, message):
    with pytest.raises(OnnxError, match=message):
        run(op_type, *inputs, opset=opset, **attributes)


def test_shapes_stay_known():
    """Numbers that follow from a shape are constants through arithmetic."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Max", ["s", "two"], ["a"]),
        helper.make_node("Mod", ["a", "three"], ["b"]),
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Abs", ["c"], ["d"]),
        helper.make_node("Pow", ["d", "two"], ["e"]),
        helper.make_node("Clip", ["e", "", "three"], ["f"]),
        helper.make_node("Expand", ["one", "f"], ["y"]),
    ]
    constants = {"one": np.float32(1), "two": np.int64(2), "three": np.int64(3)}
    function = to_jax(model(nodes, {"x": np.zeros((1, 4), np.float32)}, ["y"], constants))
    assert jax.jit(function)(np.zeros((1, 4), np.float32)).shape == (3, 1)
