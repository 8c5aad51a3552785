"""REDUCE: sums, products, norms, min, max, argmin and argmax along some dimensions."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from math import prod
from typing import Annotated, Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from ..core.arguments.kinds import Data, OutSharding, attribute
from ..core.arguments.operator import operator
from ..core.arguments.static_values import as_name
from ..core.rules import Law, Operands, Rule, custom, one_of, sizes_follow
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level import FeatureLevel
from ..core.structs.feature_level_tables import (
    ALL_BUT_FLOAT64,
    FLOATS,
    INDEX_TYPES,
    RANK_4,
    RANKS_1_TO_8,
    UP_TO_32_BITS,
    Support,
)
from ..core.structs.field_types import Named
from ..core.structs.fields import Axes, Input, Output, named
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..errors import DataTypeError
from ..operations.min_max import End, extreme, place_of_extreme
from ..operations.sum_prod_norm import total
from ..operations.values.bit_exact import is_key

__all__ = ["ReduceDesc", "ReduceFunction", "reduce"]


class ReduceFunction(enum.IntEnum):
    """DML_REDUCE_FUNCTION: the function that reduces several elements to one."""

    ARGMAX = 0
    ARGMIN = 1
    AVERAGE = 2
    L1 = 3
    L2 = 4
    LOG_SUM = 5
    LOG_SUM_EXP = 6
    MAX = 7
    MIN = 8
    MULTIPLY = 9
    SUM = 10
    SUM_SQUARE = 11


FieldFunction = Annotated[Named[ReduceFunction], named(ReduceFunction, "DML_REDUCE_FUNCTION_")]
Name = Literal[
    "argmax", "argmin", "average", "l1", "l2", "log_sum", "log_sum_exp", "max", "min", "multiply", "sum", "sum_square"
]
FunctionName = Annotated[Name, attribute(as_name, *get_args(Name), shown="str")]


_OF_BOOLS = {
    **dict.fromkeys(("l1", "max", "sum", "sum_square"), jnp.any),
    **dict.fromkeys(("min", "multiply"), jnp.all),
}
_PLACES: Mapping[str, End] = {"argmax": "greatest", "argmin": "least"}
_VALUES: Mapping[str, End] = {"max": "greatest", "min": "least"}
_CHOOSES = (*_PLACES, *_VALUES)
_OF_FLOATS = ("average", "l2", "log_sum", "log_sum_exp")
_OF_COMPLEX = ("multiply", "sum")


# Rules.


def _irreducible(x: Operands) -> str | None:
    dtype, function = x["input"].dtype, x["function"]
    if is_key(x["input"]):
        return f"it is {dtype}, whose elements are not numbers"
    if dtype == jnp.float8_e8m0fnu:
        return f"it is {dtype}, which has no 0"
    if function in _OF_FLOATS and not jnp.issubdtype(dtype, jnp.floating):
        return f"it is {dtype}, and {function} is of floats"
    is_complex = jnp.issubdtype(dtype, jnp.complexfloating)
    return f"it is {dtype}, and {function} is of real numbers" if is_complex and function not in _OF_COMPLEX else None


def _axes(x: Operands) -> tuple[int, ...]:
    """Returns the axes of a function or of a struct, counted from 0; none if another rule is broken."""
    rank, axes = len(x["input"].shape), x["axes"]
    if axes is None:
        return tuple(range(rank))
    return tuple(axis % rank for axis in axes) if all(-rank <= axis < rank for axis in axes) else ()


def _out_of_range(x: Operands) -> str | None:
    rank, axes = len(x["input"].shape), x["axes"] or ()
    return None if all(-rank <= axis < rank for axis in axes) else f"they are {axes} and the rank is {rank}"


def _repeated(x: Operands) -> str | None:
    axes = _axes(x)
    return None if len(axes) == len(set(axes)) else f"they are {x['axes']}"


def _chooses_none(x: Operands) -> str | None:
    sizes = x["input"].shape
    empty = [d for d in _axes(x) if isinstance(sizes[d], int) and sizes[d] == 0]
    return f"dimension {empty[0]} has size 0" if empty and x["function"] in _CHOOSES else None


def _not_one_axis(x: Operands) -> str | None:
    count = len(x["input"].shape if x["axes"] is None else x["axes"])
    return None if count == 1 or x["function"] not in _PLACES else f"there are {count}"


def _reduced_sizes(x: Operands) -> tuple[Any, ...]:
    axes = _axes(x)
    return tuple(1 if d in axes else n for d, n in enumerate(x["input"].shape))


def _too_many_indices(x: Operands) -> str | None:
    """XLA ends the process if there are so many, even where another size is 0."""
    sizes = _reduced_sizes(x)
    size = prod(n for n in sizes if isinstance(n, int) and n) * np.dtype(np.uint32).itemsize
    return f"the sizes are {sizes}" if size >= 2**63 and x["function"] in _PLACES else None


DISTINCT = custom("distinct(axes)", "{axes} must name no dimension twice", _repeated)
RULES = (
    one_of("function", get_args(Name)),
    Rule("reducible(input)", "{input}.{dtype} must have numbers that {function} takes", _irreducible, DataTypeError),
    custom("axes_of(input)", "every one of {axes} must be in [-{input}.{rank}, {input}.{rank})", _out_of_range),
    DISTINCT,
    custom("one_axis(axes)", "{axes} must be one for argmax and argmin", _not_one_axis),
    custom("not_empty(input)", "{input} must have elements along {axes} where {function} chooses one", _chooses_none),
    custom("representable", "{input} must give fewer than 2**63 bytes of indices", _too_many_indices),
)


def _dims(x: Operands) -> Dims:
    """The reduced dimensions keep no sharding: a device would need elements of others."""
    names = names_of(x, "input")
    return Dims({"input": names}, renamed(names, _axes(x)))


@operator(*RULES, dims=_dims)
def reduce(
    input: Data, function: FunctionName, axes: Sequence[int] | None = None, *, out_sharding: OutSharding = None
) -> jax.Array:
    """Reduces all elements along `axes` to one number: a sum, product, extreme, norm, or the place of an extreme.

    | function | output |
    | --- | --- |
    | "argmax", "argmin" | the index of the greatest or least element, the first one of equals |
    | "average" | the sum, divided by the number of elements |
    | "l1" | the sum of absolute values |
    | "l2" | the square root of the sum of squares |
    | "log_sum" | the natural logarithm of the sum |
    | "log_sum_exp" | the natural logarithm of the sum of exponentials, which do not overflow on the way |
    | "max", "min" | the greatest or least element |
    | "multiply" | the product |
    | "sum" | the sum |
    | "sum_square" | the sum of squares |

    Args:
      input: any rank, any dtype of numbers with 0 among them; floats for "average", "l2", "log_sum" and
        "log_sum_exp". Complex numbers have "sum" and "multiply" only. The sum of bools is "or", their product "and".
      function: the name of the reduction.
      axes: dimensions, -rank <= axis < rank, each once; one for "argmax" and "argmin". All by default.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.
        Where a dimension of `axes` is sharded it must be given.

    Returns:
      An array of the sizes of `input` but 1 along `axes`, and its dtype, or uint32 for "argmax" and "argmin". Integers
      wrap. Floats of 8 and 16 bits are computed in float32 and rounded once, at the end; in which order floats are
      added or multiplied is left to the device. A NaN is both the greatest and the least; 0.0 and -0.0 are equal.

    Raises:
      ConstraintError: an unknown `function`, an axis out of range or given twice, not one axis for "argmax" and
        "argmin", or no element where one is chosen.
      DataTypeError: `input` has no such numbers, or 64-bit ones while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.float32([[1, 2, 3], [3, 0, 4], [2, 4, 2]])
      >>> print(dml_jax.reduce(x, "sum", (0,)))
      [[6. 6. 9.]]
      >>> print(dml_jax.reduce(x, "argmax", (1,)))
      [[2]
       [2]
       [1]]

    Source: DML_REDUCE_OPERATOR_DESC, which says nothing of ties, of several axes of ARGMAX and ARGMIN, of the width in
      which FLOAT16 is added up, or of integers that overflow.
    """
    array, along = jnp.asarray(input), _axes({"input": input, "axes": axes})
    if array.dtype == jnp.bool_ and function in _OF_BOOLS:
        return _OF_BOOLS[function](array, along, keepdims=True)
    if function in _PLACES:
        return place_of_extreme(array, along[0], _PLACES[function])
    if function in _VALUES:
        return extreme(array, along, _VALUES[function])
    return total(array, along, function)


# The struct.

_F_AND_32_BITS = (*FLOATS, DataType.INT32, DataType.UINT32)
_F_AND_INDICES = (*FLOATS, *INDEX_TYPES)
# Per group of functions: feature level, ranks, data types, and data types of indices.
_TABLES: dict[tuple[str, ...], Sequence[tuple[Any, ...]]] = {
    ("ARGMAX", "ARGMIN"): (
        ("4_1", RANKS_1_TO_8, ALL_BUT_FLOAT64, INDEX_TYPES),
        ("3_0", RANKS_1_TO_8, UP_TO_32_BITS, INDEX_TYPES),
        ("2_1", RANK_4, UP_TO_32_BITS, (DataType.UINT32,)),
        ("1_0", RANK_4, FLOATS, (DataType.UINT32,)),
    ),
    ("AVERAGE", "L2", "LOG_SUM", "LOG_SUM_EXP"): (("3_0", RANKS_1_TO_8, FLOATS), ("1_0", RANK_4, FLOATS)),
    ("L1", "SUM_SQUARE"): (
        ("5_0", RANKS_1_TO_8, _F_AND_INDICES),
        ("3_0", RANKS_1_TO_8, FLOATS),
        ("1_0", RANK_4, FLOATS),
    ),
    ("MAX", "MIN"): (
        ("5_0", RANKS_1_TO_8, ALL_BUT_FLOAT64),
        ("3_0", RANKS_1_TO_8, UP_TO_32_BITS),
        ("2_1", RANK_4, _F_AND_32_BITS),
        ("1_0", RANK_4, FLOATS),
    ),
    ("MULTIPLY", "SUM"): (
        ("5_0", RANKS_1_TO_8, _F_AND_INDICES),
        ("3_0", RANKS_1_TO_8, _F_AND_32_BITS),
        ("2_1", RANK_4, _F_AND_32_BITS),
        ("1_0", RANK_4, FLOATS),
    ),
}
_ARGUMENTS = (ReduceFunction.ARGMAX, ReduceFunction.ARGMIN)


def _row(functions: Sequence[str], level: str, ranks: range, types: Any, indices: Any = None) -> Support:
    given = ("function", tuple(ReduceFunction[name] for name in functions))
    return Support(FeatureLevel.of(level), ranks, {"input": types, "output": indices or types}, given)


def _beyond_rank(x: Operands) -> str | None:
    rank, axes = len(x["input"].sizes), x["axes"]
    return None if all(axis < rank for axis in axes) else f"they are {axes} and there are {rank} dimensions"


def _several_axes(x: Operands) -> str | None:
    count = len(x["axes"])
    return None if count == 1 or x["function"] not in _ARGUMENTS else f"there are {count}"


def _other_type(x: Operands) -> str | None:
    output, input = x["output"].data_type, x["input"].data_type
    return None if output == input or x["function"] in _ARGUMENTS else f"they are {output.name} and {input.name}"


def _type_made(x: Operands) -> DataType:
    """Returns the data type of indices that every feature level has."""
    return DataType.UINT32 if x["function"] in _ARGUMENTS else x["input"].data_type


class ReduceDesc(OperatorDesc):
    """DML_REDUCE_OPERATOR_DESC: makes one number of all that lie along some dimensions.

    Args:
      output: the sizes of `input`, but 1 along `axes`; of the type of `input`, or of indices for ARGMAX and ARGMIN.
      axes: each in [0, DimensionCount), and once; one for ARGMAX and ARGMIN.

    Example:
      >>> desc = ReduceDesc("SUM", TensorDesc("FLOAT32", (3, 3)), TensorDesc("FLOAT32", (3, 1)), axes=(1,))
      >>> desc.compute(np.arange(1, 10, dtype=np.float32).reshape(3, 3)).ravel()
      Array([ 6., 15., 24.], dtype=float32)

    Source: DML_REDUCE_OPERATOR_DESC. Its page says nothing of several axes of ARGMAX and ARGMIN, which are refused
      here, nor of one that is named twice, which is refused too.
    """

    function: FieldFunction
    input: Input
    output: Output
    axes: Axes

    other_types = ("output",)
    support = tuple(_row(functions, *row) for functions, rows in _TABLES.items() for row in rows)
    constraints = (
        custom("below_rank(axes)", "every one of {axes} must be in [0, {input}.{rank})", _beyond_rank),
        DISTINCT,
        custom("one_axis(axes)", "{axes} must be a single axis if {function} is ARGMAX or ARGMIN", _several_axes),
        sizes_follow("output", _reduced_sizes, "{input}.{sizes}, but 1 along {axes}"),
        Rule(
            "same_type(output)",
            "{output}.{dtype} must equal {input}.{dtype} unless {function} is ARGMAX or ARGMIN",
            _other_type,
            DataTypeError,
            Law("output", "data_type", _type_made),
        ),
    )

    def compute_checked(self, input: jax.Array) -> jax.Array:
        name: Any = self.function.name.lower()
        return reduce(input, name, self.axes).astype(self.output.dtype)
