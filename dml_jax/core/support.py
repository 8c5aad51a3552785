"""Which data types and ranks an operator takes from which feature level on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..errors import DataTypeError
from .data_type import DataType
from .feature_level import FeatureLevel
from .rules import Fact, Operands, Rule

__all__ = ["Support", "columns", "table_rules"]

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
UP_TO_32_BITS = (*FLOATS, *(t for t in DataType if t.itemsize <= 4 and t not in FLOATS))
ALL_TYPES = tuple(DataType)
INDEX_TYPES = (DataType.INT64, DataType.INT32, DataType.UINT64, DataType.UINT32)
UINT32 = (DataType.UINT32,)
RANK_4 = range(4, 5)
RANKS_1_TO_8 = range(1, 9)


@dataclass(frozen=True)
class Support:
    """One row of an operator's table: from level `since` on, these ranks, data types and index types.

    `indices` is empty for an operator without index tensor. All tensors of an operator have one rank.
    """

    since: FeatureLevel
    ranks: range
    data: tuple[DataType, ...]
    indices: tuple[DataType, ...] = ()


# Newest first, as DirectML's reference prints them.
DEPTH_SPACE = (Support(FeatureLevel.FL_5_0, RANK_4, ALL_TYPES), Support(FeatureLevel.FL_2_1, RANK_4, UP_TO_32_BITS))
DEPTH_SPACE_1_0 = (*DEPTH_SPACE, Support(FeatureLevel.FL_1_0, RANK_4, FLOATS))
INDEXED_3_0 = (
    Support(FeatureLevel.FL_4_1, RANKS_1_TO_8, ALL_TYPES, INDEX_TYPES),
    Support(FeatureLevel.FL_3_0, RANKS_1_TO_8, UP_TO_32_BITS, INDEX_TYPES),
)
INDEXED_2_1 = (*INDEXED_3_0, Support(FeatureLevel.FL_2_1, RANK_4, UP_TO_32_BITS, UINT32))
INDEXED_2_0 = (*INDEXED_2_1, Support(FeatureLevel.FL_2_0, RANK_4, FLOATS, UINT32))
INDEXED_1_0 = (*INDEXED_2_1, Support(FeatureLevel.FL_1_0, RANK_4, FLOATS, UINT32))


def table_rules(table: tuple[Support, ...], level: FeatureLevel) -> tuple[Rule, ...]:
    """The rules that the table makes at one level."""
    row = next((row for row in table if row.since <= level), None)
    if row is None:
        since = table[-1].since
        fact = f"it exists from feature level {since} on"
        return (Rule("available", f"the operator must exist at feature level {level}", lambda _: fact),)
    types = {"input": row.data, "indices": row.indices} if row.indices else {"input": row.data}
    return (_rank_in(table, row, level), *(_type_in(table, name, accepted, level) for name, accepted in types.items()))


def _rank_in(table: Iterable[Support], row: Support, level: FeatureLevel) -> Rule:
    def broken_by(x: Operands) -> Fact:
        rank = len(x["input"].shape)
        later = next((r.since for r in reversed(tuple(table)) if rank in r.ranks and r.since > level), None)
        return None if rank in row.ranks else f"it is {rank}{_accepted_from(later)}"

    accepted = f"{row.ranks[0]}" if len(row.ranks) == 1 else f"in [{row.ranks[0]}, {row.ranks[-1]}]"
    return Rule("supported_rank", f"{{input}}.{{rank}} must be {accepted} at feature level {level}", broken_by)


def _type_in(table: Iterable[Support], operand: str, accepted: tuple[DataType, ...], level: FeatureLevel) -> Rule:
    column = "indices" if operand == "indices" else "data"

    def broken_by(x: Operands) -> Fact:
        actual = x[operand].data_type
        rows = reversed(tuple(table))
        later = next((r.since for r in rows if actual in getattr(r, column) and r.since > level), None)
        return None if actual in accepted else f"it is {actual.name}{_accepted_from(later)}"

    names = ", ".join(t.name for t in accepted)
    text = f"{{{operand}}}.{{dtype}} must be one of {names} at feature level {level}"
    return Rule(f"supported_type({operand})", text, broken_by, DataTypeError)


def _accepted_from(level: FeatureLevel | None) -> str:
    return "" if level is None else f", which feature level {level} accepts"


def columns(row: Support) -> Mapping[str, str]:
    """A row as text, for tables in documentation."""
    ranks = str(row.ranks[0]) if len(row.ranks) == 1 else f"{row.ranks[0]} to {row.ranks[-1]}"
    text = {"since": str(row.since), "ranks": ranks, "data": ", ".join(t.name for t in row.data)}
    return text | ({"indices": ", ".join(t.name for t in row.indices)} if row.indices else {})
