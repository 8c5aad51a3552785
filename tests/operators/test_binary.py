"""Binary elementwise structs: the formula of each in NumPy, and its types by feature level."""

import operator

import numpy as np
from elementwise_cases import Row, cut, nearly_whole, struct_of, wrap
from operator_cases import (
    ALL_TYPES,
    FLOATS,
    INDEX_TYPES,
    RANK_4,
    RANKS_1_TO_8,
    RANKS_4_TO_5,
    UP_TO_32_BITS,
    level,
)

from dml_jax import DataType

LOGICAL = {"UINT32", "UINT8"}
SIGNED = {"INT32", "INT16", "INT8"}
UNSIGNED = {"UINT32", "UINT16", "UINT8"}
WORDS = FLOATS | {"INT32", "UINT32"}
NOT_FLOAT64 = ALL_TYPES - {"FLOAT64"}


def of_a(*rows):
    """A table of feature level, ranks and types of the first input."""
    return [level(since, ranks, a=types) for since, ranks, types in rows]


def of_input(*rows):
    return [level(since, ranks, input=types) for since, ranks, types in rows]


def compared(*rows):
    return [level(since, ranks, a=types, output=output) for since, ranks, types, output in rows]


SUBTRACTED = of_a(
    ("5_1", RANKS_1_TO_8, NOT_FLOAT64),
    ("4_1", RANKS_1_TO_8, FLOATS | INDEX_TYPES),
    ("3_0", RANKS_1_TO_8, WORDS),
    ("2_1", RANK_4, WORDS),
    ("1_0", RANK_4, FLOATS),
)
MULTIPLIED = of_a(
    ("5_1", RANKS_1_TO_8, NOT_FLOAT64),
    ("4_1", RANKS_1_TO_8, FLOATS | INDEX_TYPES),
    ("3_0", RANKS_1_TO_8, WORDS),
    ("2_1", RANKS_4_TO_5, WORDS),
    ("1_0", RANKS_4_TO_5, FLOATS),
)
DIVIDED = of_a(
    ("6_0", RANKS_1_TO_8, NOT_FLOAT64),
    ("5_1", RANKS_1_TO_8, UP_TO_32_BITS),
    ("3_0", RANKS_1_TO_8, WORDS),
    ("2_1", RANK_4, WORDS),
    ("1_0", RANK_4, FLOATS),
)
EXTREMES = of_a(
    ("5_0", RANKS_1_TO_8, NOT_FLOAT64),
    ("3_0", RANKS_1_TO_8, UP_TO_32_BITS),
    ("2_1", RANK_4, UP_TO_32_BITS),
    ("1_0", RANK_4, FLOATS),
)
MEANS = of_a(("3_0", RANKS_1_TO_8, WORDS), ("2_1", RANK_4, WORDS), ("1_0", RANK_4, FLOATS))
REMAINDERS = of_a(
    ("6_0", RANKS_1_TO_8, NOT_FLOAT64),
    ("3_0", RANKS_1_TO_8, UP_TO_32_BITS),
    ("2_1", RANK_4, UP_TO_32_BITS),
)
TRUTHS = of_a(("3_0", RANKS_1_TO_8, LOGICAL), ("2_0", RANK_4, LOGICAL), ("1_0", RANK_4, {"UINT32"}))
OR_EQUAL = compared(("4_1", RANKS_1_TO_8, NOT_FLOAT64, LOGICAL), ("3_0", RANKS_1_TO_8, UP_TO_32_BITS, LOGICAL))
COMPARED = [
    *OR_EQUAL,
    *compared(
        ("2_1", RANK_4, UP_TO_32_BITS, LOGICAL),
        ("2_0", RANK_4, FLOATS, LOGICAL),
        ("1_0", RANK_4, FLOATS, {"UINT32"}),
    ),
]
SHIFTS = of_a(
    ("4_1", RANKS_1_TO_8, UNSIGNED | {"UINT64"}),
    ("3_0", RANKS_1_TO_8, UNSIGNED),
    ("2_1", RANK_4, UNSIGNED),
)
BITS = of_a(("4_1", RANKS_1_TO_8, ALL_TYPES), ("3_0", RANKS_1_TO_8, UNSIGNED))

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


def of_two(formula, levels, example=([7, -7, 3, -1], [3, 3, -2, 5]), **more):
    return Row(formula, levels, ("a", "b"), example=example, **{"in_place": ("a", "b"), **more})


def of_truths(formula):
    return of_two(formula, TRUTHS, ([0, 0, 1, 2], [0, 3, 0, 1]), integers=small)


def of_bits(formula, levels=BITS, **more):
    return of_two(formula, levels, ([0, 1, 42, 2**32 - 1], [3, 3, 12, 31]), **more)


def comparing(formula, levels=COMPARED):
    return of_two(formula, levels, ([1, -0.0, 2, 3], [1, 0, 3, 2]), in_place=(), integers=small)


def gradient(formula, levels, example=([-2, -1, 0, 1, 2], [1, 2, 3, 4, 5]), **more):
    return Row(formula, levels, ("input", "input_gradient"), "output_gradient", example=example, **more)


ROWS = {
    "ELEMENT_WISE_SUBTRACT": of_two(operator.sub, SUBTRACTED),
    "ELEMENT_WISE_MULTIPLY": of_two(operator.mul, MULTIPLIED),
    "ELEMENT_WISE_DIVIDE": of_two(divide, DIVIDED, units=2),
    "ELEMENT_WISE_MAX": of_two(
        lambda a, b: max(a, b) if isinstance(a, int) else np.maximum(a, b), EXTREMES, signed_zeros=False
    ),
    "ELEMENT_WISE_MIN": of_two(
        lambda a, b: min(a, b) if isinstance(a, int) else np.minimum(a, b), EXTREMES, signed_zeros=False
    ),
    "ELEMENT_WISE_MEAN": of_two(mean, MEANS, typed=True),
    "ELEMENT_WISE_MODULUS_TRUNCATE": of_two(truncating, REMAINDERS),
    "ELEMENT_WISE_MODULUS_FLOOR": of_two(flooring, REMAINDERS),
    "ELEMENT_WISE_POW": Row(
        power,
        [
            level("3_0", RANKS_1_TO_8, input=UP_TO_32_BITS, exponent=UP_TO_32_BITS),
            level("1_0", RANK_4, input=FLOATS, exponent=FLOATS, of_one_type=True),
        ],
        ("input", "exponent"),
        scales=[(2, 1)],
        in_place=("input",),
        example=([0, 0.5, 2, -3], [0, 2, 0.5, 3]),
        floats=moderate,
        integers=lambda rng, count: rng.integers(0, 7, count),
        units=32,
    ),
    "ELEMENT_WISE_ATAN_YX": of_two(np.arctan2, of_a(("3_1", RANKS_1_TO_8, FLOATS)), units=16),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": of_two(lambda a, b: (a - b) ** 2, of_a(("3_1", RANKS_1_TO_8, WORDS)), units=4),
    "ELEMENT_WISE_LOGICAL_AND": of_truths(lambda a, b: bool(a) and bool(b)),
    "ELEMENT_WISE_LOGICAL_OR": of_truths(lambda a, b: bool(a) or bool(b)),
    "ELEMENT_WISE_LOGICAL_XOR": of_truths(lambda a, b: bool(a) != bool(b)),
    "ELEMENT_WISE_LOGICAL_EQUALS": comparing(operator.eq),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": comparing(operator.gt),
    "ELEMENT_WISE_LOGICAL_LESS_THAN": comparing(operator.lt),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": comparing(operator.ge, OR_EQUAL),
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": comparing(operator.le, OR_EQUAL),
    "ELEMENT_WISE_BIT_SHIFT_LEFT": of_bits(
        lambda a, b: a << min(b, 64), SHIFTS, integers=lambda rng, count: rng.integers(0, 70, count)
    ),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": of_bits(
        lambda a, b: a >> min(b, 64), SHIFTS, integers=lambda rng, count: rng.integers(0, 70, count)
    ),
    "ELEMENT_WISE_BIT_AND": of_bits(operator.and_, on_bits=True),
    "ELEMENT_WISE_BIT_OR": of_bits(operator.or_, on_bits=True),
    "ELEMENT_WISE_BIT_XOR": of_bits(operator.xor, on_bits=True),
    "ACTIVATION_PARAMETERIZED_RELU": Row(
        lambda x, slope: x if x >= 0 else slope * x,
        of_input(
            ("5_1", RANKS_1_TO_8, FLOATS | SIGNED),
            ("3_0", RANKS_1_TO_8, FLOATS),
            ("2_0", RANKS_4_TO_5, FLOATS),
            ("1_0", RANK_4, FLOATS),
        ),
        ("input", "slope"),
        in_place=("input",),
        example=([-2, -1, 0, 3], [0.25, 2, 3, 4]),
    ),
    "ACTIVATION_RELU_GRAD": gradient(
        lambda x, gradient: gradient if x > 0 else 0,
        of_input(("5_1", RANKS_1_TO_8, FLOATS | SIGNED), ("3_0", RANKS_1_TO_8, FLOATS)),
    ),
    "ELEMENT_WISE_CLIP_GRAD": gradient(
        between,
        of_input(("5_0", RANKS_1_TO_8, NOT_FLOAT64), ("3_1", RANKS_1_TO_8, UP_TO_32_BITS)),
        in_place=("input",),
        fields=[{"min": least, "max": most} for least, most in ((-1, 1), (0.1, 2.75), (-3, 1e12), (2, 1))],
        typed=True,
    ),
    "ELEMENT_WISE_CLIP_GRAD1": gradient(
        between,
        of_input(("5_0", RANKS_1_TO_8, NOT_FLOAT64)),
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
