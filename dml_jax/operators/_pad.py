"""PADDING and PADDING1: an array with a border, of one number or of copies of its elements."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

import jax
import jax.numpy as jnp

from ..core.arguments.exact_scalars import as_number
from ..core.arguments.kinds import Data, Number, OutSharding, attribute, fill_in
from ..core.arguments.operator import operator
from ..core.arguments.static_values import as_name
from ..core.rules import Operands, Rule, custom, each_at_least, one_of, one_per_dimension, representable, sizes_follow
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level_tables import ALL_TYPES, FLOATS, RANKS_1_TO_8, RANKS_4_TO_5, UP_TO_32_BITS, levels
from ..core.structs.field_types import Named
from ..core.structs.fields import Float, Input, Ints, Output, named
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.scalar import Scalar, ScalarType, scalar_of, truncated
from ..core.structs.struct_rules import held, type_of
from ..operations.pad import pad_with_copies, pad_with_value

__all__ = ["Padding1Desc", "PaddingDesc", "PaddingMode", "pad"]

Mode = Literal["constant", "edge", "reflection", "reflect", "symmetric", "wrap"]
ModeName = Annotated[Mode, attribute(as_name, *get_args(Mode), shown="str")]
ALIASES = {"reflect": "reflection"}  # as NumPy, jax.numpy and torch call it
PaddingValue = Annotated[Number | None, fill_in("constant", "Number | None")]


class PaddingMode(enum.IntEnum):
    """DML_PADDING_MODE: the contents of a border."""

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2
    SYMMETRIC = 3
    WRAP = 4


def _mode(x: Operands) -> str:
    mode: str = x["mode"] if "mode" in x else x["padding_mode"].name.lower()
    return ALIASES.get(mode, mode)


# How many elements a dimension needs before it can be padded with copies: to reflect one, there must be another one.
LEAST = {"edge": 1, "reflection": 2, "symmetric": 1, "wrap": 1}


def _too_few(x: Operands) -> str | None:
    least = LEAST.get(_mode(x), 0)
    lines = zip(x["input"].shape, x["start_padding"], x["end_padding"])  # noqa: B905
    for d, (n, start, end) in enumerate(lines):
        if least and (start or end):
            if not isinstance(n, int) and _mode(x) != "edge":
                return f"dimension {d} is symbolic, {n}, which can be padded with a constant or its edge only"
            if isinstance(n, int) and n < least:
                return f"dimension {d} has {n}"
    return None


def _padded_sizes(x: Operands) -> tuple[Any, ...] | None:
    if any(rule.broken_by(x) for rule in COUNTS):
        return None
    sizes = zip(x["start_padding"], x["input"].shape, x["end_padding"], strict=True)
    return tuple(start + n + end for start, n, end in sizes)


COUNTS = (one_per_dimension("start_padding", "input"), one_per_dimension("end_padding", "input"))
ENOUGH = custom(
    "enough_to_copy", "{input} must have an element in every dimension padded with copies, two to reflect", _too_few
)
RULES = (
    *COUNTS,
    each_at_least("start_padding", 0),
    each_at_least("end_padding", 0),
    one_of("mode", get_args(Mode)),
    representable("start_padding", _padded_sizes),
    ENOUGH,
)


def _dims(x: Operands) -> Dims:
    """A dimension without a border keeps its sharding."""
    names, ends = names_of(x, "input"), zip(x["start_padding"], x["end_padding"], strict=True)
    return Dims({"input": names}, renamed(names, [d for d, pair in enumerate(ends) if any(pair)]), names)


@operator(*RULES, dims=_dims)
def pad(
    input: Data,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    *,
    mode: ModeName = "constant",
    value: PaddingValue = None,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Adds elements before and after `input` along each dimension.

    output[c] = input[source(c - start_padding)], which counts the elements 0, 1, 2 of a dimension of three so:

      constant    value, value, value | 0 1 2 | value, value, value
      edge                      0 0 0 | 0 1 2 | 2 2 2
      reflection            ... 1 2 1 | 0 1 2 | 1 0 1 ...
      symmetric             ... 2 1 0 | 0 1 2 | 2 1 0 ...
      wrap                  ... 0 1 2 | 0 1 2 | 0 1 2 ...

    Args:
      input: any rank, any dtype that JAX moves; of numbers for a constant border.
      start_padding: how many elements come before, per dimension; integers, at least 0, as large as you like.
      end_padding: how many come after it, per dimension.
      mode: the contents of the border: "constant", "edge", "reflection" or "reflect", "symmetric" or "wrap".
      value: of a constant border: a number that the dtype of `input` holds, or a traced scalar of this dtype; 0 by
        default. For mode="constant" only.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of sizes start_padding + input.shape + end_padding and the dtype of `input`.

    Raises:
      ConstraintError: not a number per dimension, a negative one, another `mode`, a `value` without mode="constant", or
        no element to copy: reflection needs two.
      DataTypeError: a number is not an integer, `value` is none that the dtype holds, or 64-bit `input` while x64 is
        off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
      >>> print(dml_jax.pad(x, (1, 0), (0, 2), value=9))
      [[9 9 9 9 9]
       [1 2 3 9 9]
       [4 5 6 9 9]]
      >>> print(dml_jax.pad(x, (0, 4), (0, 1), mode="reflection"))
      [[1 2 3 2 1 2 3 2]
       [4 5 6 5 4 5 6 5]]

    Source: DML_PADDING1_OPERATOR_DESC (and DML_PADDING_OPERATOR_DESC, whose value is a FLOAT). The pages are silent
      about the reflection of a single element; it is refused here.
    """
    array, start, end = jnp.asarray(input), tuple(start_padding), tuple(end_padding)
    if mode != "constant":
        return pad_with_copies(array, start, end, ALIASES.get(mode, mode))
    if value is None:
        value = as_number("pad", "value", 0, array, "a number (0 if not given)")
    return pad_with_value(array, jnp.asarray(value), start, end)


SIZES = sizes_follow("output", _padded_sizes, "{start_padding} + {input}.{sizes} + {end_padding}")


def _below(level: str, mode: PaddingMode) -> tuple[str, Rule]:
    """The rule that a mode needs a feature level."""
    text = f"{{padding_mode}} must not be {mode.name} below feature level {level}"
    name = f"mode_since({mode.name})"
    return level, custom(name, text, lambda x: f"it is {mode.name}" if x["padding_mode"] == mode else None)


ModeField = Annotated[Named[PaddingMode], named(PaddingMode, "DML_PADDING_MODE_")]


class PaddingDesc(OperatorDesc):
    """DML_PADDING_OPERATOR_DESC: puts a border around `input`, of a FLOAT or of copies of its elements.

    Args:
      output: the sizes of `input` and both paddings, added up.
      padding_mode: a `PaddingMode`, or its DirectML name in full or as suffix: CONSTANT, EDGE, REFLECTION, from
        feature level 3_0 on SYMMETRIC, and from 6_4 on WRAP.
      padding_value: of a CONSTANT border, rounded to 32 bits; of an integer type its whole part, or the nearest number
        that the type holds, and 0 for NaN.
      start_padding: how many elements come before, per dimension.
      end_padding: how many come after it, per dimension.

    Example:
      >>> PaddingDesc(
      ...     input=TensorDesc("INT32", (3,)), output=TensorDesc("INT32", (6,)),
      ...     padding_mode="SYMMETRIC", padding_value=0, start_padding=(2,), end_padding=(1,),
      ... ).compute(np.int32([1, 2, 3]))
      Array([2, 1, 1, 2, 3, 3], dtype=int32)

    Source: DML_PADDING_OPERATOR_DESC. Its page does not list WRAP, which the feature levels' history adds.
    """

    input: Input
    output: Output
    padding_mode: ModeField
    padding_value: Float
    start_padding: Ints
    end_padding: Ints

    support = levels(
        ("5_0", RANKS_1_TO_8, ALL_TYPES),
        ("3_1", RANKS_1_TO_8, UP_TO_32_BITS),
        ("2_1", RANKS_4_TO_5, UP_TO_32_BITS),
        ("1_0", RANKS_4_TO_5, FLOATS),
    )
    constraints = (*COUNTS, SIZES, ENOUGH)
    lifted = (_below("6_4", PaddingMode.WRAP), _below("3_0", PaddingMode.SYMMETRIC))

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return _run(self, input, truncated(self.padding_value, self.input.data_type))


class Padding1Desc(OperatorDesc):
    """DML_PADDING1_OPERATOR_DESC: puts a border around `input`, of a number of its type or of copies of its elements.

    Args:
      output: the sizes of `input` and both paddings, added up.
      padding_mode: a `PaddingMode`, or its DirectML name in full or as suffix: CONSTANT, EDGE, REFLECTION,
        SYMMETRIC, and from feature level 6_4 on WRAP.
      padding_value_data_type: the data type of the tensors.
      padding_value: of a CONSTANT border: a number that the type holds, or one of NumPy whose bits are meant.
      start_padding: how many elements come before, per dimension.
      end_padding: how many come after it, per dimension.

    Example:
      >>> Padding1Desc(
      ...     input=TensorDesc("INT32", (2,)), output=TensorDesc("INT32", (4,)), padding_mode="CONSTANT",
      ...     padding_value_data_type="INT32", padding_value=2**31 - 1, start_padding=(1,), end_padding=(1,),
      ... ).compute(np.int32([1, 2]))
      Array([2147483647,          1,          2, 2147483647], dtype=int32)

    Source: DML_PADDING1_OPERATOR_DESC. Its page does not list WRAP, which the feature levels' history adds.
    """

    input: Input
    output: Output
    padding_mode: ModeField
    padding_value_data_type: ScalarType
    padding_value: Scalar
    start_padding: Ints
    end_padding: Ints

    support = levels(("5_0", RANKS_1_TO_8, ALL_TYPES))
    constraints = (
        type_of("padding_value_data_type", "output"),
        held("padding_value", "padding_value_data_type"),
        *COUNTS,
        SIZES,
        ENOUGH,
    )
    lifted = (_below("6_4", PaddingMode.WRAP),)

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return _run(self, input, scalar_of(self.padding_value, self.padding_value_data_type))


def _run(desc: PaddingDesc | Padding1Desc, input: jax.Array, value: Any) -> jax.Array:
    mode: Any = desc.padding_mode.name.lower()
    value = value if mode == "constant" else 0
    return pad(input, desc.start_padding, desc.end_padding, mode=mode, value=value)
