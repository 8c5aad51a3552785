"""Unary elementwise structs: the formula of each in NumPy, and numbers for it."""

import math
from functools import partial

import numpy as np
from elementwise_cases import Row, cut, nearly_whole, on_a_grid, struct_of

# Formulas of float64, and of integers of any size.


def away_from_zero(x):
    """Halves too; not floor(x + 0.5), which is 1 of 0.49999997."""
    whole = np.trunc(x)
    return whole + np.copysign(abs(x - whole) >= 0.5, x) if np.isfinite(x) else x


ROUNDED = {"HALVES_TO_NEAREST_EVEN": np.rint, "TOWARD_ZERO": np.trunc, "TOWARD_INFINITY": away_from_zero}
INFINITE = {"EITHER": np.isinf, "POSITIVE": np.isposinf, "NEGATIVE": np.isneginf}


def constant_power(x, exponent):
    exponent = float(np.float32(exponent))
    if isinstance(x, int) and exponent.is_integer():
        return x ** int(exponent) if exponent >= 0 else {1: 1, -1: (-1) ** int(-exponent)}.get(x, 0)
    return nearly_whole(np.float64(np.float32(x)) ** exponent) if isinstance(x, int) else x**exponent


def threshold(x, min, dtype):
    return max(x, cut(np.float64(min), dtype)) if isinstance(x, int) else np.maximum(x, np.float64(min))


# Numbers where formulas are smooth.


def uniform(low, high, rng, count):
    return rng.uniform(low, high, count)


def near_infinity(rng, count):
    return rng.choice([np.inf, -np.inf, np.nan, 0, 1.5, -2], count)


def small(rng, count):
    return rng.integers(0, 4, count)


INSIDE, POSITIVE = partial(uniform, -0.7, 0.7), partial(uniform, 0.25, 4)
SCALES = [(-0.5, 0.25), (2, 1)]
EXAMPLE = ([-2.5, -1, -0.5, 0, 0.5, 3],)


def of_floats(formula, example=EXAMPLE, scales=SCALES, **more):
    return Row(formula, ("input",), scales=scales, in_place=("input",), **{"example": example, "units": 16, **more})


def exact(formula, example, **more):
    return Row(formula, ("input",), example=(example,), **more)


ROWS = {
    "ELEMENT_WISE_ABS": of_floats(abs, scales=[(2, 1), (-3, 5)], units=None),
    "ELEMENT_WISE_ACOS": of_floats(np.arccos, [[-1, -0.5, 0, 0.5, 1]], floats=INSIDE, scales=SCALES[:1]),
    "ELEMENT_WISE_ASIN": of_floats(np.arcsin, [[-1, -0.5, 0, 0.5, 1]], floats=INSIDE, scales=SCALES[:1]),
    "ELEMENT_WISE_ATAN": of_floats(np.arctan),
    "ELEMENT_WISE_CEIL": of_floats(np.ceil, units=None),
    "ELEMENT_WISE_COS": of_floats(np.cos, most=100),
    "ELEMENT_WISE_EXP": of_floats(np.exp),
    "ELEMENT_WISE_FLOOR": of_floats(np.floor, units=None),
    "ELEMENT_WISE_LOG": of_floats(np.log, [[0.5, 1, 2, 8]], floats=POSITIVE, scales=[(2, 1)]),
    "ELEMENT_WISE_RECIP": of_floats(np.reciprocal, [[-2, 0.5, 3, 8]], floats=POSITIVE, scales=[(2, 1)]),
    "ELEMENT_WISE_SIN": of_floats(np.sin, most=100),
    "ELEMENT_WISE_SQRT": of_floats(np.sqrt, [[0, 0.25, 2, 9]], floats=POSITIVE, scales=[(2, 1)]),
    "ELEMENT_WISE_TAN": of_floats(np.tan, floats=INSIDE, scales=SCALES[:1], most=100),
    "ELEMENT_WISE_CONSTANT_POW": of_floats(
        constant_power,
        [[0, 0.5, 2, 3]],
        [(2, 1)],
        fields=[{"exponent": e} for e in (2, 0, 1, -1, -2, 3, 0.5, 1.5)],
        floats=POSITIVE,
        integers=lambda rng, count: rng.integers(0, 50, count),
    ),
    "ELEMENT_WISE_THRESHOLD": of_floats(
        threshold,
        scales=[(2, 1)],
        fields=[{"min": 0.5}, {"min": 0}, {"min": -1.5}, {"min": 1e12}],
        units=None,
        typed=True,
        signed_zeros=False,
    ),
    "ELEMENT_WISE_ERF": of_floats(lambda x: np.float64(math.erf(x))),
    "ELEMENT_WISE_SINH": of_floats(np.sinh),
    "ELEMENT_WISE_COSH": of_floats(np.cosh),
    "ELEMENT_WISE_TANH": of_floats(np.tanh),
    "ELEMENT_WISE_ASINH": of_floats(np.arcsinh),
    "ELEMENT_WISE_ACOSH": of_floats(np.arccosh, [[1, 1.5, 2, 8]], [(2, 1)], floats=partial(uniform, 1.25, 4)),
    "ELEMENT_WISE_ATANH": of_floats(np.arctanh, [[-0.5, 0, 0.25, 0.75]], SCALES[:1], floats=INSIDE),
    "ELEMENT_WISE_LOGICAL_NOT": exact(lambda x: x == 0, [0, 1, 2, 2**32 - 1], integers=small, in_place=("input",)),
    "ELEMENT_WISE_SIGN": exact(
        lambda x: (x > 0) - (x < 0) if isinstance(x, int) else np.float64(x > 0) - np.float64(x < 0),
        [-2.5, -0.0, 0, 3],
        in_place=("input",),
    ),
    "ELEMENT_WISE_IS_NAN": exact(np.isnan, [-2.5, 0, 3], floats=near_infinity),
    "ELEMENT_WISE_ROUND": exact(
        lambda x, rounding_mode: ROUNDED[rounding_mode.name](x),
        [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5],
        fields=[{"rounding_mode": mode} for mode in ROUNDED],
        floats=lambda rng, count: on_a_grid(rng, count) * 4,
        in_place=("input",),
    ),
    "ELEMENT_WISE_IS_INFINITY": exact(
        lambda x, infinity_mode: INFINITE[infinity_mode.name](x),
        [-2.5, 0, 3],
        fields=[{"infinity_mode": mode} for mode in INFINITE],
        floats=near_infinity,
    ),
    "ELEMENT_WISE_BIT_NOT": exact(lambda x: ~x, [0, 1, 42, 2**32 - 1], in_place=("input",), on_bits=True),
    "ELEMENT_WISE_BIT_COUNT": exact(int.bit_count, [0, 123, 456, 789], on_bits=True),
    "ELEMENT_WISE_NEGATE": exact(lambda x: -x, [-2.5, 0, 3], in_place=("input",)),
}
STRUCTS = tuple(struct_of(name, row) for name, row in ROWS.items())
