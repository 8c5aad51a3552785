"""Slopes of elementwise operators in float32, over all magnitudes, beside those of the formulas in float64."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import together
from elementwise_cases import descriptor
from onnx_calls import call, function_of, gradients
from operators import test_binary, test_unary

import dml_jax
from dml_jax import Activation
from dml_jax.core.structs.activation_table import ACTIVATIONS
from dml_jax.core.structs.size_and_scale_bias import ScaleAndBias

pytestmark = pytest.mark.device

ROWS = {**test_unary.ROWS, **test_binary.ROWS}
EXPONENTS = (2.0, 0.5, -1.0, -0.5, 1 / 3, 1e-3, -2.5, 10.0)


# The formulas, in float64.


def sigmoid(x):
    small = np.exp(-abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def square_of_sech(x):
    return 4 * sigmoid(2 * x) * sigmoid(-2 * x)


def normal(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def exp_below_0(x, scale=1):
    return np.exp(np.minimum(x, 0) / scale)


def cubic(x):
    return math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)


def of_tanh_gelu(x):
    slope = math.sqrt(8 / math.pi) * (1 + 3 * 0.044715 * x**2)
    with np.errstate(over="ignore"):
        return sigmoid(cubic(x)), np.where(abs(x) > 20, 0, x * slope * sigmoid(cubic(x)) * sigmoid(-cubic(x)))


def of_mish(x):
    return np.tanh(np.logaddexp(x, 0)), x * square_of_sech(np.logaddexp(x, 0)) * sigmoid(x)


def of_power(x, exponent):
    return exponent * np.where((x < 0) & (exponent % 2 == 0), -1, 1) * abs(x) ** (exponent - 1)


@dataclass
class Slopes:
    """The slopes of a function.

    Args:
      function: of arrays of float32; it gives one.
      formulas: one for each array, of float64; each gives terms, which the slope is the sum of, or the only term.
      least, most: the arrays have numbers between.
      units: float32's last places by which a slope may be off, of terms that do not cancel.
      argument: the argument of an exponential that is rounded.
    """

    function: Any
    formulas: Any
    least: float = -math.inf
    most: float = math.inf
    units: float = 4
    argument: Any = lambda *x: 0


def of(name, *parameters):
    return partial(dml_jax.activate, activation=Activation(name, parameters))


def row(name, **fields):
    types = dict.fromkeys((*ROWS[name].inputs, ROWS[name].output), "FLOAT32")
    return lambda *arrays: descriptor(name, ROWS[name], types, arrays[0].shape, fields).compute(*arrays)


def node(op_type, **attributes):
    """A node of ONNX; its arrays are those of the test."""

    def compute(*arrays):
        function, _ = function_of([call(op_type, *(np.zeros(x.shape, np.float32) for x in arrays), **attributes)])
        return function(arrays)[0]

    return compute


TENTH = float(np.float32(0.1))
OF_ONE = {
    "ACTIVATION_CELU": Slopes(
        of("ACTIVATION_CELU", 3), lambda x: np.where(x >= 0, 1, exp_below_0(x, 3)), argument=lambda x: x / 3
    ),
    "ACTIVATION_ELU": Slopes(of("ACTIVATION_ELU", 1.5), lambda x: np.where(x >= 0, 1, 1.5 * exp_below_0(x))),
    "ACTIVATION_GELU": Slopes(
        of("ACTIVATION_GELU"),
        lambda x: (np.vectorize(math.erfc)(-x / math.sqrt(2)) / 2, x * normal(x)),
        argument=lambda x: x * x / 2,
    ),
    "ACTIVATION_HARD_SIGMOID": Slopes(
        of("ACTIVATION_HARD_SIGMOID", 0.25, 0.5), lambda x: np.where(abs(x) < 2, 0.25, 0)
    ),
    "ACTIVATION_HARD_SWISH": Slopes(
        of("ACTIVATION_HARD_SWISH", 0.25, 0.5), lambda x: (np.clip(x / 4 + 0.5, 0, 1), np.where(abs(x) < 2, x / 4, 0))
    ),
    "ACTIVATION_IDENTITY": Slopes(of("ACTIVATION_IDENTITY"), np.ones_like),
    "ACTIVATION_LEAKY_RELU": Slopes(of("ACTIVATION_LEAKY_RELU", 0.25), lambda x: np.where(x >= 0, 1, 0.25)),
    "ACTIVATION_LINEAR": Slopes(of("ACTIVATION_LINEAR", 3, 0.5), lambda x: np.full_like(x, 3)),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": Slopes(
        of("ACTIVATION_PARAMETRIC_SOFTPLUS", 2, -3), lambda x: -6 * sigmoid(-3 * x), argument=lambda x: 3 * x
    ),
    "ACTIVATION_RELU": Slopes(of("ACTIVATION_RELU"), lambda x: x > 0),
    "ACTIVATION_SCALED_ELU": Slopes(
        of("ACTIVATION_SCALED_ELU", 3, 0.5), lambda x: np.where(x > 0, 0.5, 1.5 * exp_below_0(x))
    ),
    "ACTIVATION_SCALED_TANH": Slopes(
        of("ACTIVATION_SCALED_TANH", 2, 0.1), lambda x: 2 * TENTH * square_of_sech(TENTH * x), argument=lambda x: x / 5
    ),
    "ACTIVATION_SHRINK": Slopes(of("ACTIVATION_SHRINK", 1, 0.5), lambda x: abs(x) > 0.5),
    "ACTIVATION_SIGMOID": Slopes(of("ACTIVATION_SIGMOID"), lambda x: sigmoid(x) * sigmoid(-x)),
    "ACTIVATION_SOFTPLUS": Slopes(of("ACTIVATION_SOFTPLUS", 2), lambda x: sigmoid(2 * x)),
    "ACTIVATION_SOFTSIGN": Slopes(of("ACTIVATION_SOFTSIGN"), lambda x: 1 / (1 + abs(x)) ** 2),
    "ACTIVATION_SWISH": Slopes(of("ACTIVATION_SWISH"), lambda x: (sigmoid(x), x * sigmoid(x) * sigmoid(-x))),
    "ACTIVATION_TANH": Slopes(of("ACTIVATION_TANH"), square_of_sech),
    "ACTIVATION_THRESHOLDED_RELU": Slopes(of("ACTIVATION_THRESHOLDED_RELU", 1), lambda x: x > 1),
    "ELEMENT_WISE_ABS": Slopes(row("ELEMENT_WISE_ABS"), lambda x: np.where(x >= 0, 1, -1)),
    "ELEMENT_WISE_ACOS": Slopes(row("ELEMENT_WISE_ACOS"), lambda x: -1 / np.sqrt((1 - x) * (1 + x)), -1, 1),
    "ELEMENT_WISE_ACOSH": Slopes(row("ELEMENT_WISE_ACOSH"), lambda x: 1 / np.sqrt((x - 1) * (x + 1)), 1),
    "ELEMENT_WISE_ASIN": Slopes(row("ELEMENT_WISE_ASIN"), lambda x: 1 / np.sqrt((1 - x) * (1 + x)), -1, 1),
    "ELEMENT_WISE_ASINH": Slopes(row("ELEMENT_WISE_ASINH"), lambda x: 1 / np.hypot(1, x)),
    "ELEMENT_WISE_ATAN": Slopes(row("ELEMENT_WISE_ATAN"), lambda x: 1 / (1 + x * x)),
    "ELEMENT_WISE_ATANH": Slopes(row("ELEMENT_WISE_ATANH"), lambda x: 1 / ((1 - x) * (1 + x)), -1, 1),
    "ELEMENT_WISE_CEIL": Slopes(row("ELEMENT_WISE_CEIL"), np.zeros_like),
    "ELEMENT_WISE_CLIP": Slopes(of("ELEMENT_WISE_CLIP", ScaleAndBias(2, 0), -3, 3), lambda x: 2 * (abs(x) < 1.5)),
    **{
        f"ELEMENT_WISE_CONSTANT_POW {p:g}": Slopes(
            row("ELEMENT_WISE_CONSTANT_POW", exponent=p),
            partial(of_power, exponent=float(np.float32(p))),
            0 if p % 1 else -math.inf,
        )
        for p in EXPONENTS
    },
    "ELEMENT_WISE_COS": Slopes(row("ELEMENT_WISE_COS"), lambda x: -np.sin(x), -1e4, 1e4),
    "ELEMENT_WISE_COSH": Slopes(row("ELEMENT_WISE_COSH"), np.sinh, units=16),  # as values of SINH
    "ELEMENT_WISE_ERF": Slopes(
        row("ELEMENT_WISE_ERF"), lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x), argument=lambda x: x * x
    ),
    "ELEMENT_WISE_EXP": Slopes(row("ELEMENT_WISE_EXP"), np.exp),
    "ELEMENT_WISE_FLOOR": Slopes(row("ELEMENT_WISE_FLOOR"), np.zeros_like),
    "ELEMENT_WISE_LOG": Slopes(row("ELEMENT_WISE_LOG"), lambda x: 1 / x, 0),
    "ELEMENT_WISE_NEGATE": Slopes(row("ELEMENT_WISE_NEGATE"), lambda x: -np.ones_like(x)),
    "ELEMENT_WISE_RECIP": Slopes(row("ELEMENT_WISE_RECIP"), lambda x: -1 / x / x),
    "ELEMENT_WISE_ROUND": Slopes(row("ELEMENT_WISE_ROUND", rounding_mode=0), np.zeros_like),
    "ELEMENT_WISE_SIGN": Slopes(row("ELEMENT_WISE_SIGN"), np.zeros_like),
    "ELEMENT_WISE_SIN": Slopes(row("ELEMENT_WISE_SIN"), np.cos, -1e4, 1e4),
    "ELEMENT_WISE_SINH": Slopes(row("ELEMENT_WISE_SINH"), np.cosh, units=16),  # as values of COSH
    "ELEMENT_WISE_SQRT": Slopes(row("ELEMENT_WISE_SQRT"), lambda x: 0.5 / np.sqrt(x), 0),
    "ELEMENT_WISE_TAN": Slopes(row("ELEMENT_WISE_TAN"), lambda x: 1 / np.cos(x) ** 2, -1e4, 1e4),
    "ELEMENT_WISE_TANH": Slopes(row("ELEMENT_WISE_TANH"), square_of_sech),
    "ELEMENT_WISE_THRESHOLD": Slopes(row("ELEMENT_WISE_THRESHOLD", min=0.5), lambda x: x > 0.5),
    "Gelu": Slopes(node("Gelu", approximate="tanh"), of_tanh_gelu, argument=cubic),
    "Mish": Slopes(node("Mish"), of_mish),
}
OF_TWO = {
    "ACTIVATION_PARAMETERIZED_RELU": Slopes(
        row("ACTIVATION_PARAMETERIZED_RELU"), (lambda x, s: np.where(x >= 0, 1, s), lambda x, s: np.minimum(x, 0))
    ),
    "ELEMENT_WISE_ATAN_YX": Slopes(
        row("ELEMENT_WISE_ATAN_YX"), (lambda a, b: b / (a * a + b * b), lambda a, b: -a / (a * a + b * b))
    ),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": Slopes(
        row("ELEMENT_WISE_DIFFERENCE_SQUARE"), (lambda a, b: 2 * (a - b), lambda a, b: 2 * (b - a))
    ),
    "ELEMENT_WISE_DIVIDE": Slopes(row("ELEMENT_WISE_DIVIDE"), (lambda a, b: 1 / b, lambda a, b: -a / b / b)),
    "ELEMENT_WISE_MAX": Slopes(row("ELEMENT_WISE_MAX"), (np.greater, np.less)),
    "ELEMENT_WISE_MEAN": Slopes(row("ELEMENT_WISE_MEAN"), (lambda a, b: 0 * a + 0.5,) * 2),
    "ELEMENT_WISE_MIN": Slopes(row("ELEMENT_WISE_MIN"), (np.less, np.greater)),
    "ELEMENT_WISE_MODULUS_FLOOR": Slopes(
        row("ELEMENT_WISE_MODULUS_FLOOR"), (lambda a, b: np.ones_like(a), lambda a, b: -np.floor(a / b))
    ),
    "ELEMENT_WISE_MODULUS_TRUNCATE": Slopes(
        row("ELEMENT_WISE_MODULUS_TRUNCATE"), (lambda a, b: np.ones_like(a), lambda a, b: -np.trunc(a / b))
    ),
    "ELEMENT_WISE_MULTIPLY": Slopes(row("ELEMENT_WISE_MULTIPLY"), (lambda a, b: b, lambda a, b: a)),
    "ELEMENT_WISE_POW": Slopes(
        row("ELEMENT_WISE_POW"), (lambda x, p: p * x ** (p - 1), lambda x, p: np.log(x) * x**p), 0
    ),
    "ELEMENT_WISE_SUBTRACT": Slopes(row("ELEMENT_WISE_SUBTRACT"), (lambda a, b: 0 * a + 1, lambda a, b: 0 * a - 1)),
    "Div": Slopes(node("Div"), (lambda a, b: 1 / b, lambda a, b: -a / b / b)),
    "Mod": Slopes(node("Mod", fmod=1), (lambda a, b: np.ones_like(a), lambda a, b: -np.trunc(a / b))),
}
# Integers, and gradients as operators, which are linear.
WITHOUT = ("LOGICAL_", "_IS_", "_BIT_", "_GRAD", "_GRAD1")


def test_every_operator_is_tried():
    computed = {name for name, row in ACTIVATIONS.items() if not row.axes and "Axes" not in row.parameters}
    computed |= {name for name in ROWS if not any(part in name for part in WITHOUT)}
    assert {name.split()[0] for name in (*OF_ONE, *OF_TWO) if "_" in name} == computed


# Over all magnitudes.


def drawn(rng, count, least, most):
    """Numbers of all magnitudes and of few units, next to 1, and 0."""
    near_1 = [1 + sign * 2.0**-k for k in range(1, 25) for sign in (1, -1)]
    x = np.concatenate(
        [2 ** rng.uniform(-124, 126, count), rng.uniform(0, 5, count), rng.uniform(0, 100, count), near_1]
    )
    x = np.concatenate([x, -x, [0]]).astype(np.float32)
    return x[(x >= least) & (x <= most)]


def pairs(rng, count, least, name):
    """Numbers of all magnitudes that are not too far apart; exponents of few units."""
    a = rng.choice([-1, 1], count) * 2 ** rng.uniform(-100, 100, count)
    b = a * rng.choice([-1, 1], count) * 2 ** rng.uniform(-15, 15, count)
    if "POW" in name:
        a = 2 ** rng.uniform(-100, 100, count)
        b = rng.choice([-1, 1], count) * np.minimum(2 ** rng.uniform(-60, 5, count), 100 / abs(np.log2(a)))
    return a.astype(np.float32), b.astype(np.float32)


def pulled(function, *arrays):
    y, back = jax.vjp(function, *arrays)
    return back(jnp.ones_like(y))


def assert_slopes(name, slopes, arrays, made):
    wide = [x.astype(np.float64) for x in arrays]
    formulas = slopes.formulas if isinstance(slopes.formulas, tuple) else (slopes.formulas,)
    with np.errstate(all="ignore"):
        for i, (formula, actual) in enumerate(zip(formulas, made, strict=True)):
            terms = formula(*wide)
            terms = terms if isinstance(terms, tuple) else (terms,)
            wanted, size = (np.float64(sum(f(t) for t in terms)) for f in (np.asarray, np.abs))
            bound = slopes.units * 2.0**-23 * size * (1 + abs(slopes.argument(*wide)))
            # Parts of a slope that small may be subnormal, which devices take as 0.
            is_wrong = ~(abs(actual - wanted) <= np.where(abs(wanted) < 2.0**-112, 2.0**-110, bound))
            is_wrong &= np.isfinite(wanted) & (abs(wanted) < 2.0**127)
            where = [x[is_wrong][:3].tolist() for x in arrays]
            assert not is_wrong.any(), (name, i, where, actual[is_wrong][:3], wanted[is_wrong][:3])


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 5))])
def test_slopes_of_one_number(seed, exhaustive):
    rng, count = np.random.default_rng(seed), 30_000 if exhaustive else 600
    cases = [(name, slopes, drawn(rng, count, slopes.least, slopes.most)) for name, slopes in OF_ONE.items()]
    results = together([(partial(pulled, slopes.function), x) for _, slopes, x in cases])
    for (name, slopes, x), made in zip(cases, results, strict=True):
        assert_slopes(name, slopes, (x,), made)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 5))])
def test_slopes_of_two_numbers(seed, exhaustive):
    rng, count = np.random.default_rng(seed), 100_000 if exhaustive else 3000
    cases = [(name, slopes, pairs(rng, count, slopes.least, name)) for name, slopes in OF_TWO.items()]
    results = together([(partial(pulled, slopes.function), *arrays) for _, slopes, arrays in cases])
    for (name, slopes, arrays), made in zip(cases, results, strict=True):
        assert_slopes(name, slopes, arrays, made)


SECOND = {
    "ACTIVATION_ELU": lambda x: np.where(x > 0, 0, 1.5 * np.exp(x)),
    "ACTIVATION_GELU": lambda x: (2 * normal(x), -x * x * normal(x)),
    "ACTIVATION_SIGMOID": lambda x: -sigmoid(x) * sigmoid(-x) * np.tanh(x / 2),
    "ACTIVATION_SOFTPLUS": lambda x: 2 * sigmoid(2 * x) * sigmoid(-2 * x),
    "ACTIVATION_TANH": lambda x: -2 * np.tanh(x) * square_of_sech(x),
    "ELEMENT_WISE_CONSTANT_POW 0.5": lambda x: x**-1.5 / -4,
    "ELEMENT_WISE_ERF": lambda x: -4 * x / math.sqrt(math.pi) * np.exp(-x * x),
    "ELEMENT_WISE_RECIP": lambda x: 2 / x / x / x,
}


def test_second_derivatives():
    x = drawn(np.random.default_rng(0), 600, -30, 30)
    x = x[x != 0]

    def slope(function, x):
        return pulled(function, x)[0]

    results = together([(partial(pulled, partial(slope, OF_ONE[name].function)), x) for name in SECOND])
    for (name, formula), made in zip(SECOND.items(), results, strict=True):
        assert_slopes(name, replace(OF_ONE[name], formulas=formula, units=8), (x,), made)


@pytest.mark.parametrize("exponent", [0, 1])
def test_powers_of_0_and_1_are_lines(exponent):
    """Their slope is the exponent, and does not change, also where x**2 or 1 / x**2 is infinite."""
    power = row("ELEMENT_WISE_CONSTANT_POW", exponent=exponent)
    x = np.float32([1e-30, 1, 1e30, np.inf])
    ones = np.ones_like(x)
    np.testing.assert_array_equal(jax.jvp(power, (x,), (ones,))[1], exponent)
    np.testing.assert_array_equal(pulled(lambda x: pulled(power, x)[0], x)[0], 0)


# Joints: where two formulas meet, the slope is that of the one that the formula takes there.

LEFT, RIGHT = 0, 1
JOINTS = [  # the activation, the joint, the slopes of both sides, and which one it takes
    (("ACTIVATION_CELU", 0.5), 0, (1, 1), RIGHT),
    (("ACTIVATION_ELU", 1.5), 0, (1.5, 1), RIGHT),
    (("ACTIVATION_HARD_SIGMOID", 0.25, 0.5), -2, (0, 0.25), LEFT),
    (("ACTIVATION_HARD_SIGMOID", 0.25, 0.5), 2, (0.25, 0), RIGHT),
    (("ACTIVATION_HARD_SWISH", 0.25, 0.5), -2, (0, -0.5), LEFT),
    (("ACTIVATION_HARD_SWISH", 0.25, 0.5), 2, (1.5, 1), RIGHT),
    (("ACTIVATION_LEAKY_RELU", 0.25), 0, (0.25, 1), RIGHT),
    (("ACTIVATION_RELU",), 0, (0, 1), LEFT),
    (("ACTIVATION_SCALED_ELU", 3, 0.5), 0, (1.5, 0.5), LEFT),
    (("ACTIVATION_SHRINK", 0.25, 0.5), -0.5, (1, 0), RIGHT),
    (("ACTIVATION_SHRINK", 0.25, 0.5), 0.5, (0, 1), LEFT),
    (("ACTIVATION_SOFTSIGN",), 0, (1, 1), LEFT),
    (("ACTIVATION_THRESHOLDED_RELU", 1), 1, (0, 1), LEFT),
    (("ELEMENT_WISE_CLIP", None, -1, 2), -1, (0, 1), LEFT),
    (("ELEMENT_WISE_CLIP", None, -1, 2), 2, (1, 0), RIGHT),
]
ONE = np.ones((1, 1), np.float32)
FUSED = {
    "activate": dml_jax.activate,
    "add": lambda x, activation: dml_jax.add(x, jnp.zeros_like(x), activation=activation),
    "gemm": lambda x, activation: dml_jax.gemm(x[:, None], ONE, activation=activation)[:, 0],
    "convolution": lambda x, activation: dml_jax.convolution(
        x[:, None, None, None], ONE[..., None, None], activation=activation
    ).ravel(),
}


def around(joint):
    """Numbers before a joint, on it, and behind; those next to 0 are 0 on some devices."""
    if joint:
        return np.float32([joint - 2**-12, joint, joint + 2**-12])
    return np.float32([-1e-30, -1e-40, -0.0, 0, 1e-40, 1e-30])


def assert_sides(slopes, sides, takes, case):
    first, *inner, last = np.asarray(slopes).tolist()
    assert [first, last] == pytest.approx(sides, abs=2**-12), case
    if len(inner) == 1:
        assert inner == pytest.approx([sides[takes]], rel=1e-6), case
    else:  # subnormals on both sides of two zeros
        assert inner[1:3] == [sides[takes]] * 2, case
        assert inner[0] in sides, case
        assert inner[3] in sides, case


@pytest.mark.parametrize("host", FUSED)
def test_at_joints_slopes_are_of_one_side(host):
    calls = []
    for (name, *parameters), joint, _, _ in JOINTS:
        function = partial(FUSED[host], activation=Activation(name, tuple(parameters)))
        backward = lambda x, function=function: pulled(function, x)[0]  # noqa: E731
        forward = lambda x, function=function: jax.jvp(function, (x,), (jnp.ones_like(x),))[1]  # noqa: E731
        calls += [(backward, around(joint)), (forward, around(joint))]
    for i, slopes in enumerate(together(calls)):
        case, _, sides, takes = JOINTS[i // 2]
        assert_sides(slopes, sides, takes, case)


NODES = [
    (call("Celu", np.float32([]), alpha=0.5), 0, (1, 1), RIGHT),
    (call("Clip", np.float32([]), np.float32(-1), np.float32(2)), -1, (0, 1), LEFT),
    (call("Clip", np.float32([]), np.float32(-1), np.float32(2)), 2, (1, 0), RIGHT),
    (call("Elu", np.float32([]), alpha=1.5), 0, (1.5, 1), RIGHT),
    (call("HardSigmoid", np.float32([]), alpha=0.25, beta=0.5), -2, (0, 0.25), LEFT),
    (call("HardSwish", np.float32([])), -3, (0, -0.5), LEFT),
    (call("LeakyRelu", np.float32([]), alpha=0.25), 0, (0.25, 1), RIGHT),
    (call("PRelu", np.float32([]), np.float32([0.25])), 0, (0.25, 1), RIGHT),
    (call("Relu", np.float32([])), 0, (0, 1), LEFT),
    (call("Selu", np.float32([]), alpha=3.0, gamma=0.5), 0, (1.5, 0.5), LEFT),
    (call("Shrink", np.float32([]), lambd=0.5, bias=0.25), 0.5, (0, 1), LEFT),
    (call("ThresholdedRelu", np.float32([]), alpha=1.0), 1, (0, 1), LEFT),
]


def test_at_joints_of_onnx_slopes_are_of_one_side():
    calls = [call(case.op_type, around(joint), *case.inputs[1:], **case.attributes) for case, joint, _, _ in NODES]
    for (case, _, sides, takes), (slopes, *_) in zip(NODES, gradients(calls), strict=True):
        assert_sides(slopes, sides, takes, case)
