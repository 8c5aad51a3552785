"""The tables of feature levels that all operators with a tensor of indices share."""

from ..tensors.data_type import DataType
from .support import ALL_TYPES, FLOATS, INDEX_TYPES, RANK_4, RANKS_1_TO_8, UP_TO_32_BITS, Support

__all__ = ["INDEXED_1_0", "INDEXED_2_0", "INDEXED_2_1", "INDEXED_3_0"]


def _row(level: str, ranks: range, data: tuple[DataType, ...], indices: tuple[DataType, ...]) -> Support:
    return Support.of(level, ranks, input=data, indices=indices)


_UINT32 = (DataType.UINT32,)

# By the level that the operator is there from, the newest row first.
INDEXED_3_0 = (
    _row("4_1", RANKS_1_TO_8, ALL_TYPES, INDEX_TYPES),
    _row("3_0", RANKS_1_TO_8, UP_TO_32_BITS, INDEX_TYPES),
)
INDEXED_2_1 = (*INDEXED_3_0, _row("2_1", RANK_4, UP_TO_32_BITS, _UINT32))
INDEXED_2_0 = (*INDEXED_2_1, _row("2_0", RANK_4, FLOATS, _UINT32))
INDEXED_1_0 = (*INDEXED_2_1, _row("1_0", RANK_4, FLOATS, _UINT32))
