"""Binary elementwise structs: the formula of each in NumPy, and numbers for it."""

import operator

import numpy as np
from elementwise_cases import Row, cut, nearly_whole, struct_of, wrap

from dml_jax import DataType

# Formulas of float64, and of integers of any size.


def toward_zero(a, b):
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def divide(a, b):
    if isinstance(a, int):
        return toward_zero(a, b) if b else -1  # all bits
    return a / b


def truncating(a, b):
    if isinstance(a, int):
        return a - b * toward_zero(a, b) if b else a
    return np.fmod(a, b)


def flooring(a, b):
    if isinstance(a, int):
        return a % b if b else a
    return np.mod(a, b)


def mean(a, b, dtype):
    """The sum wraps, and of floats it may be infinite in float32."""
    return toward_zero(wrap(a + b, dtype), 2) if isinstance(a, int) else np.float64(np.float32(a + b)) / 2


def power(x, exponent):
    """Of integers modulo 2 ** 64, or the inverse, if it is no fraction; a float is the exponent of a float32 number."""
    if not isinstance(x, int):
        return x ** np.float64(np.float32(exponent))
    if not isinstance(exponent, int):
        return nearly_whole(np.float64(np.float32(x)) ** exponent)
    return pow(x, exponent, 2**64) if exponent >= 0 else {1: 1, -1: (-1) ** -exponent}.get(x, 0)


def between(x, gradient, min, max, dtype, **_):
    least, most = (cut(np.float64(n), dtype) if dtype.kind in "iu" else dtype.type(n) for n in (min, max))
    return 0 if x <= least or x >= most else gradient


def small(rng, count):
    return rng.integers(0, 4, count)


def moderate(rng, count):
    return rng.uniform(0.25, 1.5, count)


def of_two(formula, example=([7, -7, 3, -1], [3, 3, -2, 5]), **more):
    return Row(formula, ("a", "b"), example=example, **{"in_place": ("a", "b"), **more})


def of_truths(formula):
    return of_two(formula, ([0, 0, 1, 2], [0, 3, 0, 1]), integers=small)


def of_bits(formula, **more):
    return of_two(formula, ([0, 1, 42, 2**32 - 1], [3, 3, 12, 31]), **more)


def comparing(formula):
    return of_two(formula, ([1, -0.0, 2, 3], [1, 0, 3, 2]), in_place=(), integers=small)


def gradient(formula, example=([-2, -1, 0, 1, 2], [1, 2, 3, 4, 5]), **more):
    return Row(formula, ("input", "input_gradient"), "output_gradient", example=example, **more)


ROWS = {
    "ELEMENT_WISE_SUBTRACT": of_two(operator.sub),
    "ELEMENT_WISE_MULTIPLY": of_two(operator.mul),
    "ELEMENT_WISE_DIVIDE": of_two(divide, units=2),
    "ELEMENT_WISE_MAX": of_two(lambda a, b: max(a, b) if isinstance(a, int) else np.maximum(a, b), signed_zeros=False),
    "ELEMENT_WISE_MIN": of_two(lambda a, b: min(a, b) if isinstance(a, int) else np.minimum(a, b), signed_zeros=False),
    "ELEMENT_WISE_MEAN": of_two(mean, typed=True),
    "ELEMENT_WISE_MODULUS_TRUNCATE": of_two(truncating),
    "ELEMENT_WISE_MODULUS_FLOOR": of_two(flooring),
    "ELEMENT_WISE_POW": Row(
        power,
        ("input", "exponent"),
        scales=[(2, 1)],
        in_place=("input",),
        example=([0, 0.5, 2, -3], [0, 2, 0.5, 3]),
        floats=moderate,
        integers=lambda rng, count: rng.integers(0, 7, count),
        units=32,
    ),
    "ELEMENT_WISE_ATAN_YX": of_two(np.arctan2, units=16),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": of_two(lambda a, b: (a - b) ** 2, units=4),
    "ELEMENT_WISE_LOGICAL_AND": of_truths(lambda a, b: bool(a) and bool(b)),
    "ELEMENT_WISE_LOGICAL_OR": of_truths(lambda a, b: bool(a) or bool(b)),
    "ELEMENT_WISE_LOGICAL_XOR": of_truths(lambda a, b: bool(a) != bool(b)),
    "ELEMENT_WISE_LOGICAL_EQUALS": comparing(operator.eq),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": comparing(operator.gt),
    "ELEMENT_WISE_LOGICAL_LESS_THAN": comparing(operator.lt),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": comparing(operator.ge),
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": comparing(operator.le),
    "ELEMENT_WISE_BIT_SHIFT_LEFT": of_bits(
        lambda a, b: a << min(b, 64), integers=lambda rng, count: rng.integers(0, 70, count)
    ),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": of_bits(
        lambda a, b: a >> min(b, 64), integers=lambda rng, count: rng.integers(0, 70, count)
    ),
    "ELEMENT_WISE_BIT_AND": of_bits(operator.and_, on_bits=True),
    "ELEMENT_WISE_BIT_OR": of_bits(operator.or_, on_bits=True),
    "ELEMENT_WISE_BIT_XOR": of_bits(operator.xor, on_bits=True),
    "ACTIVATION_PARAMETERIZED_RELU": Row(
        lambda x, slope: x if x >= 0 else slope * x,
        ("input", "slope"),
        in_place=("input",),
        example=([-2, -1, 0, 3], [0.25, 2, 3, 4]),
    ),
    "ACTIVATION_RELU_GRAD": gradient(lambda x, gradient: gradient if x > 0 else 0),
    "ELEMENT_WISE_CLIP_GRAD": gradient(
        between,
        in_place=("input",),
        fields=[{"min": least, "max": most} for least, most in ((-1, 1), (0.1, 2.75), (-3, 1e12), (2, 1))],
        typed=True,
    ),
    "ELEMENT_WISE_CLIP_GRAD1": gradient(
        between,
        in_place=("input",),
        fields=[{"min": least, "max": most} for least, most in ((0, 2), (1, 100), (3, 0))],
        breaks={
            "type_of(min_max_data_type, output_gradient)": {"min_max_data_type": DataType.INT8},
            "held(min, min_max_data_type)": {"min": 1e39},
            "held(max, min_max_data_type)": {"max": 1e39},
        },
        typed=True,
    ),
}
STRUCTS = tuple(struct_of(name, row) for name, row in ROWS.items())
