"""The elementwise operators of two tensors, one a row."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax import lax

from ..core.rules import same_dtype
from ..core.structs.feature_level_tables import (
    ALL_BUT_FLOAT64,
    ALL_TYPES,
    FLOATS,
    INDEX_TYPES,
    LOGICAL_TYPES,
    RANK_4,
    RANKS_1_TO_8,
    RANKS_4_TO_5,
    SIGNED_UP_TO_32_BITS,
    UNSIGNED_UP_TO_32_BITS,
    UP_TO_32_BITS,
    Support,
    levels,
)
from ..core.structs.fields import Float
from ..core.structs.scalar import Scalar, ScalarType, scalar_of, truncated
from ..core.structs.struct_rules import held, type_of
from ..core.tensors.data_type import DataType
from ..operations.values import elementary_functions as elementary
from ..operations.values.packed_words import as_unsigned, from_unsigned
from ._binary_formulas import parameterized_relu
from ._elementwise_structs import Row, structs_of, unchanged
from ._power_formulas import power


def _mean(a: jax.Array, b: jax.Array) -> jax.Array:
    return lax.div(a + b, jnp.full_like(a, 2))


def _where_positive(x: jax.Array, gradient: jax.Array) -> jax.Array:
    return jnp.where(x > 0, gradient, 0)


def _between(x: jax.Array, gradient: jax.Array, least: Any, most: Any) -> jax.Array:
    return jnp.where((x <= least) | (x >= most), 0, gradient)


def _clip_grad(x: jax.Array, gradient: jax.Array, least: float, most: float) -> jax.Array:
    return _between(x, gradient, *(truncated(bound, DataType.of(x.dtype)) for bound in (least, most)))


def _clip_grad1(x: jax.Array, gradient: jax.Array, data_type: DataType, least: Any, most: Any) -> jax.Array:
    return _between(x, gradient, *(scalar_of(bound, data_type) for bound in (least, most)))


# The tables of feature levels.

_UP_TO_INDICES = (*FLOATS, DataType.INT32, DataType.UINT32)
_NEWEST_ARITHMETIC = ("5_1", RANKS_1_TO_8, ALL_BUT_FLOAT64), ("4_1", RANKS_1_TO_8, (*FLOATS, *INDEX_TYPES))


def _arithmetic(*newest: tuple[str, range, tuple[DataType, ...]], older: range = RANK_4) -> tuple[Support, ...]:
    rows = ("3_0", RANKS_1_TO_8, _UP_TO_INDICES), ("2_1", older, _UP_TO_INDICES), ("1_0", older, FLOATS)
    return levels(*newest, *rows, of="a")


def _comparison_support(*older: tuple[str, tuple[DataType, ...], tuple[DataType, ...]]) -> tuple[Support, ...]:
    """The table of a comparison, from its rows below 3_0: level, types, and types of the output."""
    newest = ("4_1", ALL_BUT_FLOAT64, LOGICAL_TYPES), ("3_0", UP_TO_32_BITS, LOGICAL_TYPES)
    return (
        *(Support.of(since, RANKS_1_TO_8, a=types, output=output) for since, types, output in newest),
        *(Support.of(since, RANK_4, a=types, output=output) for since, types, output in older),
    )


_EXTREMES = levels(
    ("5_0", RANKS_1_TO_8, ALL_BUT_FLOAT64),
    ("3_0", RANKS_1_TO_8, UP_TO_32_BITS),
    ("2_1", RANK_4, UP_TO_32_BITS),
    ("1_0", RANK_4, FLOATS),
    of="a",
)
_REMAINDERS = levels(
    ("6_0", RANKS_1_TO_8, ALL_BUT_FLOAT64), ("3_0", RANKS_1_TO_8, UP_TO_32_BITS), ("2_1", RANK_4, UP_TO_32_BITS), of="a"
)
_TRUTHS = levels(
    ("3_0", RANKS_1_TO_8, LOGICAL_TYPES), ("2_0", RANK_4, LOGICAL_TYPES), ("1_0", RANK_4, (DataType.UINT32,)), of="a"
)
_COMPARED_SINCE_1_0 = _comparison_support(
    ("2_1", UP_TO_32_BITS, LOGICAL_TYPES), ("2_0", FLOATS, LOGICAL_TYPES), ("1_0", FLOATS, (DataType.UINT32,))
)
_SHIFTS = levels(
    ("4_1", RANKS_1_TO_8, (DataType.UINT64, *UNSIGNED_UP_TO_32_BITS)),
    ("3_0", RANKS_1_TO_8, UNSIGNED_UP_TO_32_BITS),
    ("2_1", RANK_4, UNSIGNED_UP_TO_32_BITS),
    of="a",
)
_BITS = levels(("4_1", RANKS_1_TO_8, ALL_TYPES), ("3_0", RANKS_1_TO_8, UNSIGNED_UP_TO_32_BITS), of="a")
_POWERS = (
    Support.of("3_0", RANKS_1_TO_8, input=UP_TO_32_BITS, exponent=UP_TO_32_BITS),
    Support.of("1_0", RANK_4, input=FLOATS, exponent=FLOATS),
)

# The rows.

_of_two = partial(Row, inputs=("a", "b"), in_place=("a", "b"))
_comparing = partial(Row, inputs=("a", "b"))
_of_bits = partial(_of_two, support=_BITS, read=as_unsigned, write=from_unsigned)
_gradient = partial(Row, inputs=("input", "input_gradient"), output="output_gradient", read=unchanged)

ROWS: Mapping[str, Row] = {
    "ELEMENT_WISE_SUBTRACT": _of_two(
        "a - b; integers wrap.", jnp.subtract, "jax.numpy.subtract", _arithmetic(*_NEWEST_ARITHMETIC)
    ),
    "ELEMENT_WISE_MULTIPLY": _of_two(
        "a * b; integers wrap.",
        jnp.multiply,
        "jax.numpy.multiply",
        _arithmetic(*_NEWEST_ARITHMETIC, older=RANKS_4_TO_5),
    ),
    "ELEMENT_WISE_DIVIDE": _of_two(
        "a / b; of integers cut off toward 0.",
        elementary.divide,
        "jax.lax.div",
        _arithmetic(("6_0", RANKS_1_TO_8, ALL_BUT_FLOAT64), ("5_1", RANKS_1_TO_8, UP_TO_32_BITS)),
    ),
    "ELEMENT_WISE_MAX": _of_two("the greater one of a and b.", jnp.maximum, "jax.numpy.maximum", _EXTREMES),
    "ELEMENT_WISE_MIN": _of_two("the lesser one of a and b.", jnp.minimum, "jax.numpy.minimum", _EXTREMES),
    "ELEMENT_WISE_MEAN": _of_two(
        "(a + b) / 2; of integers the sum wraps, and the half is cut off toward 0.",
        _mean,
        "jax.lax.div(a + b, jax.numpy.full_like(a, 2))",
        _arithmetic(),
    ),
    "ELEMENT_WISE_MODULUS_TRUNCATE": _of_two(
        "a - b * trunc(a / b), which has the sign of a.", elementary.remainder, "jax.lax.rem", _REMAINDERS
    ),
    "ELEMENT_WISE_MODULUS_FLOOR": _of_two(
        "a - b * floor(a / b), which has the sign of b.", elementary.floor_remainder, "jax.numpy.mod", _REMAINDERS
    ),
    "ELEMENT_WISE_POW": Row(
        "x to the power of an exponent of its own; NaN of a negative x, if that is no integer.",
        power,
        "jax.numpy.power",
        _POWERS,
        inputs=("input", "exponent"),
        has_scale_bias=True,
        in_place=("input",),
        lifted=(("3_0", same_dtype("exponent", "input")),),
    ),
    "ELEMENT_WISE_ATAN_YX": _of_two(
        "the angle of the point at x = b and y = a, in radians from -pi to pi.",
        elementary.arctan2,
        "jax.numpy.arctan2",
        levels(("3_1", RANKS_1_TO_8, FLOATS), of="a"),
    ),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": _of_two(
        "(a - b) * (a - b); integers wrap.",
        lambda a, b: jnp.square(a - b),
        "jax.numpy.square(a - b)",
        levels(("3_1", RANKS_1_TO_8, _UP_TO_INDICES), of="a"),
    ),
    "ELEMENT_WISE_LOGICAL_AND": _of_two(
        "1 where neither a nor b is 0, 0 elsewhere.", jnp.logical_and, "jax.numpy.logical_and", _TRUTHS
    ),
    "ELEMENT_WISE_LOGICAL_OR": _of_two(
        "1 where a or b is not 0, 0 elsewhere.", jnp.logical_or, "jax.numpy.logical_or", _TRUTHS
    ),
    "ELEMENT_WISE_LOGICAL_XOR": _of_two(
        "1 where one of a and b is 0 and the other is not, 0 elsewhere.",
        jnp.logical_xor,
        "jax.numpy.logical_xor",
        _TRUTHS,
    ),
    "ELEMENT_WISE_LOGICAL_EQUALS": _comparing(
        "1 where a = b, 0 elsewhere.", jnp.equal, "jax.numpy.equal", _COMPARED_SINCE_1_0
    ),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": _comparing(
        "1 where a > b, 0 elsewhere.", jnp.greater, "jax.numpy.greater", _COMPARED_SINCE_1_0
    ),
    "ELEMENT_WISE_LOGICAL_LESS_THAN": _comparing(
        "1 where a < b, 0 elsewhere.", jnp.less, "jax.numpy.less", _COMPARED_SINCE_1_0
    ),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": _comparing(
        "1 where a >= b, 0 elsewhere.", jnp.greater_equal, "jax.numpy.greater_equal", _comparison_support()
    ),
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": _comparing(
        "1 where a <= b, 0 elsewhere.", jnp.less_equal, "jax.numpy.less_equal", _comparison_support()
    ),
    "ELEMENT_WISE_BIT_SHIFT_LEFT": _of_two(
        "a with its bits moved up by b places; 0 if there are no more.", lax.shift_left, "jax.lax.shift_left", _SHIFTS
    ),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": _of_two(
        "a with its bits moved down by b places; 0 if there are no more.",
        lax.shift_right_logical,
        "jax.lax.shift_right_logical",
        _SHIFTS,
    ),
    "ELEMENT_WISE_BIT_AND": _of_bits("the bits that both a and b have.", jnp.bitwise_and, "jax.numpy.bitwise_and"),
    "ELEMENT_WISE_BIT_OR": _of_bits("the bits that a or b has.", jnp.bitwise_or, "jax.numpy.bitwise_or"),
    "ELEMENT_WISE_BIT_XOR": _of_bits("the bits in which a and b differ.", jnp.bitwise_xor, "jax.numpy.bitwise_xor"),
    "ACTIVATION_PARAMETERIZED_RELU": Row(
        "x where x >= 0, slope * x elsewhere.",
        parameterized_relu,
        "jax.numpy.where(input >= 0, input, slope * input)",
        levels(
            ("5_1", RANKS_1_TO_8, (*FLOATS, *SIGNED_UP_TO_32_BITS)),
            ("3_0", RANKS_1_TO_8, FLOATS),
            ("2_0", RANKS_4_TO_5, FLOATS),
            ("1_0", RANK_4, FLOATS),
        ),
        inputs=("input", "slope"),
        in_place=("input",),
    ),
    "ACTIVATION_RELU_GRAD": _gradient(
        "the input's gradient where x > 0, 0 elsewhere.",
        _where_positive,
        "jax.numpy.where(input > 0, input_gradient, 0)",
        levels(("5_1", RANKS_1_TO_8, (*FLOATS, *SIGNED_UP_TO_32_BITS)), ("3_0", RANKS_1_TO_8, FLOATS)),
    ),
    "ELEMENT_WISE_CLIP_GRAD": _gradient(
        "the input's gradient where x lies between two bounds, 0 at these and beyond.",
        _clip_grad,
        "jax.numpy.where((input > min) & (input < max), input_gradient, 0)",
        levels(("5_0", RANKS_1_TO_8, ALL_BUT_FLOAT64), ("3_1", RANKS_1_TO_8, UP_TO_32_BITS)),
        fields={
            "min": Annotated[Float, "a number; of integers its whole part counts, or the nearest one."],
            "max": Annotated[Float, "as `min`."],
        },
        in_place=("input",),
    ),
    "ELEMENT_WISE_CLIP_GRAD1": _gradient(
        "the input's gradient where x lies between two bounds of their data type, 0 at these and beyond.",
        _clip_grad1,
        "jax.numpy.where((input > min) & (input < max), input_gradient, 0)",
        levels(("5_0", RANKS_1_TO_8, ALL_BUT_FLOAT64)),
        fields={
            "min_max_data_type": Annotated[ScalarType, "that of `output_gradient`."],
            "min": Scalar,
            "max": Annotated[Scalar, "as `min`."],
        },
        in_place=("input",),
        constraints=(
            type_of("min_max_data_type", "output_gradient"),
            held("min", "min_max_data_type"),
            held("max", "min_max_data_type"),
        ),
    ),
}

_STRUCTS = structs_of(ROWS, __name__)
__all__ = [*_STRUCTS]  # pyright: ignore[reportUnsupportedDunderAll]
globals().update(_STRUCTS)
