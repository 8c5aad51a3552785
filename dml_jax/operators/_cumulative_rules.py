"""Rules and feature levels of cumulative sums and products, for functions and for structs."""

from __future__ import annotations

from typing import get_args

from ..core.rules import Operands, axis_of, minimum_rank, numbers, one_of, same_sizes
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.enumerations import DirectionName, FieldDirection
from ..core.structs.feature_level_tables import FLOATS, INDEX_TYPES, RANK_4, RANKS_1_TO_8, Support, levels
from ..core.structs.fields import Axis, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import below_rank
from ..core.tensors.data_type import DataType

RULES = (
    numbers("input", with_zero=True),
    minimum_rank("input", 1),
    axis_of("input"),
    one_of("direction", get_args(DirectionName)),
)


def dims_of(x: Operands) -> Dims:
    """Every dimension but the axis keeps its sharding: along the axis a device would need elements of others."""
    names = names_of(x, "input")
    return Dims({"input": names}, renamed(names, [x["axis"]]))


_UP_TO_32_BITS = (*FLOATS, DataType.INT32, DataType.UINT32)


class CumulativeDesc(OperatorDesc, is_base=True):
    """The base of both structs; each has its own name for the field that leaves out the element itself."""

    input: Input
    output: Output
    axis: Axis
    axis_direction: FieldDirection

    in_place = True
    constraints = (same_sizes("output", "input"), below_rank("axis", "input"))


def since(level: str) -> tuple[Support, ...]:
    """Returns the table of an operator that exists from a feature level on."""
    return levels(
        ("5_0", RANKS_1_TO_8, (*FLOATS, *INDEX_TYPES)),
        ("4_0", RANKS_1_TO_8, _UP_TO_32_BITS),
        (level, RANK_4, _UP_TO_32_BITS),
    )
