"""The elementwise operators of one tensor, one a row."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax import lax

from ..core.structs.feature_level_tables import (
    ALL_BUT_FLOAT64,
    ALL_TYPES,
    FLOATS,
    LOGICAL_TYPES,
    RANK_4,
    RANKS_1_TO_8,
    SIGNED_UP_TO_32_BITS,
    UNSIGNED_UP_TO_32_BITS,
    UP_TO_32_BITS,
    Support,
    levels,
)
from ..core.structs.field_types import Named
from ..core.structs.fields import Float, named
from ..core.structs.scalar import truncated
from ..core.tensors.data_type import DataType
from ..operations.values import elementary_functions as elementary
from ..operations.values.accumulation_types import narrow_apart
from ..operations.values.packed_words import as_unsigned, from_unsigned
from ._clip import clip
from ._elementwise_structs import Row, structs_of
from ._power_formulas import constant_power


class IsInfinityMode(enum.IntEnum):
    """DML_IS_INFINITY_MODE: which infinities count."""

    EITHER = 0
    POSITIVE = 1
    NEGATIVE = 2


class RoundingMode(enum.IntEnum):
    """DML_ROUNDING_MODE: to which of the two nearest integers."""

    HALVES_TO_NEAREST_EVEN = 0
    TOWARD_ZERO = 1
    TOWARD_INFINITY = 2


_IS_INFINITE = {
    IsInfinityMode.EITHER: jnp.isinf,
    IsInfinityMode.POSITIVE: jnp.isposinf,
    IsInfinityMode.NEGATIVE: jnp.isneginf,
}
_ROUND = {
    RoundingMode.HALVES_TO_NEAREST_EVEN: jnp.rint,
    RoundingMode.TOWARD_ZERO: jnp.trunc,
    RoundingMode.TOWARD_INFINITY: partial(lax.round, rounding_method=lax.RoundingMethod.AWAY_FROM_ZERO),
}


def _sign(x: jax.Array) -> jax.Array:
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _threshold(x: jax.Array, least: float) -> jax.Array:
    return clip(x, truncated(least, DataType.of(x.dtype)))


# The tables of feature levels.

_SIGNED = (*FLOATS, DataType.INT64, *SIGNED_UP_TO_32_BITS)
_FLOATS = levels(("3_0", RANKS_1_TO_8, FLOATS), ("1_0", RANK_4, FLOATS))
_FLOATS_SINCE_2_0 = levels(("3_0", RANKS_1_TO_8, FLOATS), ("2_0", RANK_4, FLOATS))
_FLOATS_SINCE_2_1 = levels(("3_0", RANKS_1_TO_8, FLOATS), ("2_1", RANK_4, FLOATS))


def _tests(level: str, output: tuple[DataType, ...]) -> tuple[Support, ...]:
    """Support of tests such as IS_NAN: floats in, data types of `output` out."""
    rows = ("3_0", RANKS_1_TO_8), (level, RANK_4)
    return tuple(Support.of(since, ranks, input=FLOATS, output=output) for since, ranks in rows)


# The rows.

_Infinities = Annotated[Named[IsInfinityMode], named(IsInfinityMode, "DML_IS_INFINITY_MODE_")]
_Rounding = Annotated[Named[RoundingMode], named(RoundingMode, "DML_ROUNDING_MODE_")]
_scaled = partial(Row, has_scale_bias=True, in_place=("input",))


def _of_floats(does: str, formula: Callable[..., Any], in_jax: str, support: tuple[Support, ...] = _FLOATS) -> Row:
    return _scaled(does, formula, in_jax, support)


ROWS: Mapping[str, Row] = {
    "ELEMENT_WISE_ABS": _scaled(
        "the absolute value of x; of the least integer that integer.",
        jnp.abs,
        "jax.numpy.abs",
        levels(
            ("4_1", RANKS_1_TO_8, _SIGNED),
            ("3_0", RANKS_1_TO_8, (*FLOATS, *SIGNED_UP_TO_32_BITS)),
            ("2_1", RANK_4, (*FLOATS, *SIGNED_UP_TO_32_BITS)),
            ("1_0", RANK_4, FLOATS),
        ),
    ),
    "ELEMENT_WISE_ACOS": _of_floats(
        "arccos(x) in radians, NaN beyond -1 and 1.", elementary.arccos, "jax.numpy.arccos"
    ),
    "ELEMENT_WISE_ASIN": _of_floats(
        "arcsin(x) in radians, NaN beyond -1 and 1.", elementary.arcsin, "jax.numpy.arcsin"
    ),
    "ELEMENT_WISE_ATAN": _of_floats("arctan(x) in radians.", jnp.arctan, "jax.numpy.arctan"),
    "ELEMENT_WISE_CEIL": _of_floats("the least integer that is at least x.", jnp.ceil, "jax.numpy.ceil"),
    "ELEMENT_WISE_COS": _of_floats("cos(x) of radians.", jnp.cos, "jax.numpy.cos"),
    "ELEMENT_WISE_EXP": _of_floats("e to the power of x.", jnp.exp, "jax.numpy.exp"),
    "ELEMENT_WISE_FLOOR": _of_floats("the greatest integer that is at most x.", jnp.floor, "jax.numpy.floor"),
    "ELEMENT_WISE_LOG": _of_floats("the natural logarithm of x, NaN below 0.", jnp.log, "jax.numpy.log"),
    "ELEMENT_WISE_RECIP": _of_floats("1 / x.", elementary.reciprocal, "jax.numpy.reciprocal"),
    "ELEMENT_WISE_SIN": _of_floats("sin(x) of radians.", jnp.sin, "jax.numpy.sin"),
    "ELEMENT_WISE_SQRT": _of_floats("the square root of x, NaN below 0.", jnp.sqrt, "jax.numpy.sqrt"),
    "ELEMENT_WISE_TAN": _of_floats("tan(x) of radians.", jnp.tan, "jax.numpy.tan"),
    "ELEMENT_WISE_CONSTANT_POW": _scaled(
        "x to the power of a constant; NaN of a negative x, if that is no integer.",
        constant_power,
        "jax.numpy.power",
        levels(("3_0", RANKS_1_TO_8, UP_TO_32_BITS), ("1_0", RANK_4, FLOATS)),
        fields={"exponent": Annotated[Float, "a number."]},
    ),
    "ELEMENT_WISE_THRESHOLD": _scaled(
        "x, but at least a constant.",
        _threshold,
        "jax.numpy.maximum",
        levels(("3_0", RANKS_1_TO_8, UP_TO_32_BITS), ("2_1", RANK_4, UP_TO_32_BITS), ("1_0", RANK_4, FLOATS)),
        fields={"min": Annotated[Float, "a number; of integers its whole part counts, or the nearest one."]},
    ),
    "ELEMENT_WISE_ERF": _of_floats("the error function of x.", lax.erf, "jax.lax.erf", _FLOATS_SINCE_2_0),
    "ELEMENT_WISE_SINH": _of_floats("sinh(x).", jnp.sinh, "jax.numpy.sinh", _FLOATS_SINCE_2_0),
    "ELEMENT_WISE_COSH": _of_floats("cosh(x).", jnp.cosh, "jax.numpy.cosh", _FLOATS_SINCE_2_0),
    "ELEMENT_WISE_TANH": _of_floats("tanh(x).", elementary.tanh, "jax.numpy.tanh", _FLOATS_SINCE_2_0),
    "ELEMENT_WISE_ASINH": _of_floats("arsinh(x).", elementary.arcsinh, "jax.numpy.arcsinh", _FLOATS_SINCE_2_0),
    "ELEMENT_WISE_ACOSH": _of_floats(
        "arcosh(x), NaN below 1.", elementary.arccosh, "jax.numpy.arccosh", _FLOATS_SINCE_2_0
    ),
    "ELEMENT_WISE_ATANH": _of_floats(
        "artanh(x), NaN beyond -1 and 1.", jnp.arctanh, "jax.numpy.arctanh", _FLOATS_SINCE_2_0
    ),
    "ELEMENT_WISE_LOGICAL_NOT": Row(
        "1 where x is 0, 0 elsewhere.",
        lambda x: x == 0,
        "jax.numpy.logical_not",
        levels(
            ("3_0", RANKS_1_TO_8, LOGICAL_TYPES), ("2_0", RANK_4, LOGICAL_TYPES), ("1_0", RANK_4, (DataType.UINT32,))
        ),
        in_place=("input",),
    ),
    "ELEMENT_WISE_SIGN": Row(
        "1 where x > 0, -1 where x < 0, 0 elsewhere.",
        _sign,
        "jax.numpy.sign",
        levels(
            ("4_1", RANKS_1_TO_8, ALL_BUT_FLOAT64),
            ("3_0", RANKS_1_TO_8, UP_TO_32_BITS),
            ("2_1", RANK_4, UP_TO_32_BITS),
            ("2_0", RANK_4, FLOATS),
        ),
        in_place=("input",),
    ),
    "ELEMENT_WISE_IS_NAN": Row(
        "1 where x is NaN, 0 elsewhere.", jnp.isnan, "jax.numpy.isnan", _tests("2_0", LOGICAL_TYPES)
    ),
    "ELEMENT_WISE_ROUND": Row(
        "the integer nearest to x, or the next one toward 0.",
        lambda x, mode: _ROUND[mode](x),
        "jax.numpy.rint or jax.numpy.trunc or jax.lax.round",
        _FLOATS_SINCE_2_1,
        fields={"rounding_mode": _Rounding},
        in_place=("input",),
    ),
    "ELEMENT_WISE_IS_INFINITY": Row(
        "1 where x is infinite, or has that sign too, 0 elsewhere.",
        lambda x, mode: _IS_INFINITE[mode](x),
        "jax.numpy.isinf or jax.numpy.isposinf or jax.numpy.isneginf",
        _tests("2_1", (DataType.UINT8,)),
        fields={"infinity_mode": _Infinities},
    ),
    "ELEMENT_WISE_BIT_NOT": Row(
        "every bit of x the other way round.",
        jnp.bitwise_not,
        "jax.numpy.bitwise_not",
        levels(("4_1", RANKS_1_TO_8, ALL_TYPES), ("3_0", RANKS_1_TO_8, UNSIGNED_UP_TO_32_BITS)),
        in_place=("input",),
        read=as_unsigned,
        write=from_unsigned,
    ),
    "ELEMENT_WISE_BIT_COUNT": Row(
        "how many bits of x are 1.",
        lax.population_count,
        "jax.lax.population_count",
        (
            Support.of("4_1", RANKS_1_TO_8, input=ALL_TYPES, output=LOGICAL_TYPES),
            Support.of("3_0", RANKS_1_TO_8, input=UNSIGNED_UP_TO_32_BITS, output=LOGICAL_TYPES),
        ),
        read=as_unsigned,
        write=narrow_apart,
    ),
    "ELEMENT_WISE_NEGATE": Row(
        "-x; of the least integer that integer.",
        jnp.negative,
        "jax.numpy.negative",
        levels(("5_0", RANKS_1_TO_8, _SIGNED)),
        in_place=("input",),
    ),
}

_STRUCTS = structs_of(ROWS, __name__)
__all__ = [*_STRUCTS]  # pyright: ignore[reportUnsupportedDunderAll]
globals().update(_STRUCTS)
