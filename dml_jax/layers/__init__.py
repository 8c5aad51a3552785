"""Parts of layers as functions without parameters: routing to experts and back, softmax over segments, patches."""

from .patches import patches
from .routing import (
    buffer_slots,
    collect,
    dispatch,
    group_sizes,
    permute_rows,
    route,
    sort_by_group,
    weighted_sum,
)
from .segments import segment_softmax

__all__ = [
    "buffer_slots",
    "collect",
    "dispatch",
    "group_sizes",
    "patches",
    "permute_rows",
    "route",
    "segment_softmax",
    "sort_by_group",
    "weighted_sum",
]
