"""Tables of feature levels: the data types and ranks that an operator takes at each level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ...errors import ConstraintError, DataTypeError
from ..rules import Fact, Operands, Rule
from ..tensors.data_type import DataType
from ..tensors.tensor_desc import TensorDesc
from .feature_level import FeatureLevel
from .struct_rules import each

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
UP_TO_32_BITS = (*FLOATS, *(t for t in DataType if 8 <= t.bits <= 32 and t not in FLOATS))
SIGNED_UP_TO_32_BITS = (DataType.INT32, DataType.INT16, DataType.INT8)
UNSIGNED_UP_TO_32_BITS = (DataType.UINT32, DataType.UINT16, DataType.UINT8)
MOVED_1_0 = (*FLOATS, DataType.INT32, DataType.INT16, DataType.UINT32, DataType.UINT16)
ALL_TYPES = tuple(t for t in DataType if t.bits >= 8)
ALL_BUT_FLOAT64 = tuple(t for t in ALL_TYPES if t != DataType.FLOAT64)
LOGICAL_TYPES = (DataType.UINT32, DataType.UINT8)
INDEX_TYPES = (DataType.INT64, DataType.INT32, DataType.UINT64, DataType.UINT32)
RANK_4 = range(4, 5)
RANKS_4_TO_5 = range(4, 6)
RANKS_1_TO_8 = range(1, 9)


@dataclass(frozen=True)
class Support:
    """One row of an operator's table: the ranks and data types from a feature level on, until a newer row holds.

    Args:
      since: the feature level.
      ranks: the ranks of its tensors, which all have the same.
      types: the data types of each tensor, by field. A tensor that must have the type of another one is left out.
      given: an attribute and some of its values, if the row holds for these alone; None if it holds for all.
    """

    since: FeatureLevel
    ranks: range
    types: Mapping[str, tuple[DataType, ...]]
    given: tuple[str, tuple[IntEnum, ...]] | None = None

    @classmethod
    def of(cls, level: str, ranks: range, **types: tuple[DataType, ...]) -> Support:
        """Returns a row; the level is a string such as "3_0", and `types` are keywords named after the fields."""
        return cls(FeatureLevel.of(level), ranks, types)


def levels(*rows: tuple[str, range, tuple[DataType, ...]], of: str = "input") -> tuple[Support, ...]:
    """Returns a table from rows of feature level, ranks and data types of the field `of`, the newest first."""
    return tuple(Support.of(level, ranks, **{of: types}) for level, ranks, types in rows)


@dataclass(frozen=True)
class _Limit:
    """A demand of a row on a tensor: that `subject` is `accepted`."""

    name: str
    subject: str
    accepted: str
    broken_by: Callable[[Operands], Fact]
    error: type[ConstraintError] = ConstraintError


def table_rules(table: Sequence[Support], level: FeatureLevel) -> tuple[Rule, ...]:
    """Returns the rules that hold at a feature level by a table."""
    tables = {row.given: [other for other in table if other.given == row.given] for row in table}
    limits = [(given, limit) for given, rows in tables.items() for limit in _limits(rows, level)]
    if not limits:
        since = table[-1].since
        fact = f"it exists from feature level {since} on"
        return (Rule("available", f"the operator must exist at feature level {level}", lambda _: fact),)
    names = dict.fromkeys(limit.name for _, limit in limits)
    return tuple(_rule([pair for pair in limits if pair[1].name == name], level) for name in names)


def _rule(limits: Sequence[tuple[Any, _Limit]], level: FeatureLevel) -> Rule:
    """Returns the rule of limits of one name: a single one, or one for each value of an attribute."""
    given, limit = limits[0]
    if given is None:
        text = f"{limit.subject} must be {limit.accepted} at feature level {level}"
        return Rule(limit.name, text, limit.broken_by, limit.error)
    attribute, _ = given

    def broken_by(x: Operands) -> Fact:
        value = x[attribute]
        limit = next(limit for (_, values), limit in limits if value in values)
        fact = limit.broken_by(x)
        return fact and f"{fact}; of {value.name} it must be {limit.accepted}"

    text = f"{limit.subject} must be one that {{{attribute}}} accepts at feature level {level}"
    return Rule(limit.name, text, broken_by, limit.error)


def _limits(table: Sequence[Support], level: FeatureLevel) -> Sequence[_Limit]:
    """Returns the limits of the newest row that the level has reached; none if it has reached no row."""
    row = next((row for row in table if row.since <= level), None)
    if row is None:
        return ()
    first = next(iter(row.types))
    return (_rank_in(table, row, first, level), *(_type_in(table, name, row, level) for name in row.types))


def _rank_in(table: Sequence[Support], row: Support, operand: str, level: FeatureLevel) -> _Limit:
    def rank_of(tensor: TensorDesc) -> Fact:
        rank = len(tensor.sizes)
        later = next((r.since for r in reversed(table) if rank in r.ranks and r.since > level), None)
        return None if rank in row.ranks else f"it is {rank}{_accepted_from(later)}"

    accepted = f"{row.ranks[0]}" if len(row.ranks) == 1 else f"in [{row.ranks[0]}, {row.ranks[-1]}]"
    return _Limit("supported_rank", f"{{{operand}}}.{{rank}}", accepted, each(operand, rank_of))


def _type_in(table: Sequence[Support], operand: str, row: Support, level: FeatureLevel) -> _Limit:
    accepted = row.types[operand]

    def type_of(tensor: TensorDesc) -> Fact:
        actual = tensor.data_type
        rows = (r for r in reversed(table) if actual in r.types.get(operand, ()) and r.since > level)
        later = next((r.since for r in rows), None)
        return None if actual in accepted else f"it is {actual.name}{_accepted_from(later)}"

    names = f"one of {', '.join(t.name for t in accepted)}"
    return _Limit(
        f"supported_type({operand})", f"{{{operand}}}.{{dtype}}", names, each(operand, type_of), DataTypeError
    )


def _accepted_from(level: FeatureLevel | None) -> str:
    return "" if level is None else f", which feature level {level} accepts"


def columns(row: Support) -> Mapping[str, str]:
    """Returns a row as text by column, for tables in the documentation."""
    ranks = str(row.ranks[0]) if len(row.ranks) == 1 else f"{row.ranks[0]} to {row.ranks[-1]}"
    types = {name: ", ".join(t.name for t in accepted) for name, accepted in row.types.items()}
    given = {} if row.given is None else {row.given[0]: ", ".join(value.name for value in row.given[1])}
    return {"since": str(row.since), **given, "ranks": ranks, **types}


def _support_with_indices(
    level: str, ranks: range, data: tuple[DataType, ...], indices: tuple[DataType, ...]
) -> Support:
    """Returns a row of an operator with a tensor of indices."""
    return Support.of(level, ranks, input=data, indices=indices)


_UINT32 = (DataType.UINT32,)

# By the level that an operator with indices is there from, the newest row first.
INDEXED_3_0 = (
    _support_with_indices("4_1", RANKS_1_TO_8, ALL_TYPES, INDEX_TYPES),
    _support_with_indices("3_0", RANKS_1_TO_8, UP_TO_32_BITS, INDEX_TYPES),
)
INDEXED_2_1 = (*INDEXED_3_0, _support_with_indices("2_1", RANK_4, UP_TO_32_BITS, _UINT32))
INDEXED_2_0 = (*INDEXED_2_1, _support_with_indices("2_0", RANK_4, FLOATS, _UINT32))
INDEXED_1_0 = (*INDEXED_2_1, _support_with_indices("1_0", RANK_4, FLOATS, _UINT32))
